package a2a

import (
	"context"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// delivery is a message on its way to its turn.
type delivery struct {
	message      *protocol.Message
	conversation string
	command      *conversationpb.Command
	fresh        bool                  // the command makes the conversation
	resumes      *conversationpb.State // of a conversation that waits for what the message answers; nil = the message begins a turn
}

// send answers a message with its task: at rest, or as it is when the caller or the server does not wait longer.
func (a *api) send(ctx context.Context, c *call) (result, error) {
	d, err := a.deliver(ctx, c)
	if err != nil {
		return nil, err
	}
	task, err := a.taskOf(ctx, d)
	if err != nil {
		return nil, err
	}
	return func(dst []byte) []byte { return task.AppendSent(dst, c.Version) }, nil
}

// deliver reads a message and makes the command that takes it to its conversation.
func (a *api) deliver(ctx context.Context, c *call) (*delivery, error) {
	message, failed := protocol.ReadMessage(c.Params)
	if failed != nil {
		return nil, failed
	}
	if message.TaskID != "" {
		return a.answering(ctx, c, message)
	}
	d := &delivery{message: message, conversation: message.ContextID, fresh: message.ContextID == ""}
	if d.fresh {
		d.conversation = a.Mint(ctx, "conv", "")
	} else if !turns.Plausible(d.conversation) {
		return nil, unknownContext()
	}
	send := &conversationpb.Send{
		Agent: handler.Pricing(c.agent), Content: message.Text(), OfAgent: c.agent.GetId(), // the rules look whether it is this agent's
	}
	var err error
	if send.Push, err = a.newPush(ctx, c, message.Push, d.conversation); err != nil {
		return nil, err
	}
	d.command = a.Command(ctx, d.conversation, "send")
	d.command.AgentVersion = c.agent.GetRunningVersion()
	d.command.Body = &conversationpb.Command_Send{Send: send}
	if d.fresh {
		create := &conversationpb.Create{FirstMessage: send.GetContent()}
		if err = a.Creation(ctx, d.conversation, c.agent, &handler.BudgetInput{}, create); err != nil {
			return nil, err
		}
		d.command.Opening = &conversationpb.Opening{Create: create}
	}
	return d, a.giveContext(ctx, d)
}

// answering makes the command by which a message answers the question of the task that it names.
func (a *api) answering(ctx context.Context, c *call, message *protocol.Message) (*delivery, error) {
	state, task, err := a.readTask(ctx, c.agent, message.TaskID)
	if err != nil {
		return nil, err
	}
	action := tasks.Question(state.GetPending())
	switch {
	case message.ContextID != "" && message.ContextID != state.GetId():
		return nil, protocol.InvalidParams("the task is of another context")
	case task.Status.State.Terminal():
		return nil, protocol.Unsupported("The task is over: send a message without taskId to go on in its context")
	case task.Status.State == protocol.Working:
		return nil, failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TurnRunning).With("activeRunId", state.GetLease().GetRunId())
	case action == nil:
		return nil, protocol.Unsupported("The task waits for what is decided on another surface")
	case state.GetBackgroundRun() != "":
		return nil, protocol.Unsupported("The task is a background run's: its questions are answered on another surface")
	}
	given, failed := tasks.Answers(action, message)
	if failed != nil {
		return nil, failed
	}
	resolve := &conversationpb.Resolve{
		ActionId: action.GetId(), Agent: handler.Pricing(c.agent),
		Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: given}},
	}
	if a.Authorizer != nil {
		if err = a.Authorizer.AuthorizeResolve(ctx, &endpoint.ActionDecision{
			ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
			ActionID: action.GetId(), Action: action, Resolution: resolve,
		}); err != nil {
			return nil, err
		}
	}
	if message.Push != nil && message.Push.ID == task.ID {
		message.Push.ID = ""
	}
	if resolve.Push, err = a.newPush(ctx, c, message.Push, state.GetId()); err != nil {
		return nil, err
	}
	d := &delivery{message: message, conversation: state.GetId(), resumes: state, command: a.Command(ctx, state.GetId(), "resolve")}
	d.command.Body = &conversationpb.Command_Resolve{Resolve: resolve}
	return d, a.giveContext(ctx, d)
}

// taskOf has a message answered, and waits for its turn unless the caller does not want to. A caller that has waited long enough is
// told that the task goes on: the command is given again without the wait, and answered with what it began.
func (a *api) taskOf(ctx context.Context, d *delivery) (*protocol.Task, error) {
	if !d.message.Detached {
		d.wait(true)
		wait := a.Config.TurnTimeout
		if deadline, is := ctx.Deadline(); is {
			wait = min(wait, time.Until(deadline)-room) // in a batch, others may have used up the time
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		reply, err := a.Asker().AskUntilSettled(waiting, d.command)
		over := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !over {
			return a.settled(ctx, d, reply, err)
		}
		d.command = d.command.Again()
	}
	d.wait(false)
	reply, err := a.Asker().Ask(ctx, d.command)
	return a.settled(ctx, d, reply, err)
}

func (d *delivery) wait(wait bool) {
	if send := d.command.GetSend(); send != nil {
		send.Wait = wait
	}
	if resolve := d.command.GetResolve(); resolve != nil {
		resolve.Wait = wait
	}
}

// settled is the task after a command. A turn that failed is an error, with the task's id.
func (a *api) settled(ctx context.Context, d *delivery, reply *conversationpb.Reply, err error) (*protocol.Task, error) {
	if err != nil {
		return nil, a.refused(ctx, d, err)
	}
	turn := reply.GetTurn()
	if turn == nil {
		return a.begun(ctx, d, reply.GetAccepted())
	}
	if err = a.Asker().Complete(ctx, d.conversation, turn); err != nil {
		return nil, err
	}
	task := tasks.OfTurn(d.conversation, turn)
	if turn.GetStopReason() == conversationpb.StopReason_ERROR {
		failed := protocol.Internal()
		failed.Reason = turn.GetError().GetCode()
		return nil, failed.With("taskId", task.ID).With("contextId", task.ContextID).With("message", turn.GetError().GetMessage())
	}
	if task.Status.At == 0 {
		task.Status.At = time.Now().UnixMilli()
	}
	return task, nil
}

// begun is the task of a turn that a command began, or let go on.
func (a *api) begun(ctx context.Context, d *delivery, accepted *conversationpb.Accepted) (*protocol.Task, error) {
	number := accepted.GetUserMessage().GetNumber() + 1
	prior := d.resumes.GetPaused().GetAnswer()
	switch {
	case prior != nil:
		number = prior.GetNumber()
	case number == 1: // it is over by now, and only the head was at hand
		turn := &conversationpb.TurnResult{RunId: accepted.GetRunId(), UserMessage: accepted.GetUserMessage(), Partial: true}
		if err := a.Asker().Complete(ctx, d.conversation, turn); err != nil {
			return nil, err
		}
		return tasks.OfTurn(d.conversation, turn), nil
	}
	task := tasks.New(d.conversation, number)
	task.Text, task.Said = prior.GetContent(), prior != nil
	task.Status.At = time.Now().UnixMilli()
	return task, nil
}

// refused words why a message was not taken: a context that the caller cannot see, or that is another agent's, is not there. One
// that may have been taken all the same comes with its context.
func (a *api) refused(ctx context.Context, d *delivery, err error) error {
	if isMissing(err) {
		return unknownContext()
	}
	if turns.Refused(err) {
		return err
	}
	said := a.worded(ctx, err)
	if said.Reason != "" {
		said = said.With("contextId", d.conversation)
	}
	return said
}

func unknownContext() *protocol.Error { return protocol.InvalidParams("unknown contextId") }

// isMissing says that a conversation is not there for the caller.
func isMissing(err error) bool {
	return handler.IsCode(handler.SessionFailure(err), failurepb.Code_SESSION_NOT_FOUND)
}

// giveContext adds the message's runtime context to the command.
func (a *api) giveContext(ctx context.Context, d *delivery) error {
	var given handler.RuntimeContext
	if raw := d.message.RuntimeContext; raw != nil {
		if err := given.UnmarshalJSON(raw); err != nil {
			return err
		}
	}
	sealed, err := a.SealContext(ctx, d.conversation, given)
	d.command.RuntimeContext = sealed
	return err
}
