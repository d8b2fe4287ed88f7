package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// maxSends bounds how often a driver finds its conversation taken by others before the run fails.
const maxSends = 100

// taskDriver works on one run of a task. Everything it tells the conversation carries an id made of task and run, and is
// answered with the first outcome when it is told again: so a driver that starts over does nothing twice.
type taskDriver struct {
	tasks *tasks
	at    Entity
	task  *taskpb.State   // as it was when the driver was made; only read
	ctx   context.Context //nolint:containedctx // a driver's life, not a request
}

// taskJob is what a driver does, for telling whether another one would do just the same.
type taskJob struct {
	number              uint64
	waiting, cancelling bool
}

func (d *taskDriver) job() taskJob {
	return taskJob{number: d.number(), waiting: d.task.GetRun() == nil, cancelling: d.task.GetRun().GetCancelling()}
}

// number is that of the run that is driven, or looked after.
func (d *taskDriver) number() uint64 {
	if run := d.task.GetRun(); run != nil {
		return run.GetNumber()
	}
	return d.task.GetWaiting().GetNumber()
}

func (d *taskDriver) run(ctx context.Context) {
	d.ctx = ctx
	var ended *taskpb.Ended
	var err error
	switch run := d.task.GetRun(); {
	case run == nil:
		ended, err = d.await(d.task.GetWaiting().GetRunId())
	case run.GetCancelling():
		ended, err = d.giveUp(run)
	default:
		ended, err = d.carryOut(run)
	}
	if err == nil {
		ended.Number = d.number()
		err = d.report(&taskpb.Command{Body: &taskpb.Command_Ended{Ended: ended}})
	}
	if err != nil && d.ctx.Err() == nil && !follow.IsNotOwner(err) {
		d.tasks.config.Logger.Warn("a task is not driven any further", slog.String("task", d.task.GetId()), slog.Any("err", err))
	}
}

// carryOut begins the turn of a run, unless it is known to have begun, and waits for it.
func (d *taskDriver) carryOut(run *taskpb.Run) (*taskpb.Ended, error) {
	runID := run.GetRunId()
	if runID == "" {
		var err error
		runID, err = d.begin(run)
		var refused *machine.Failure
		if errors.As(err, &refused) && !worthRetry(err) {
			return &taskpb.Ended{Error: refused.DefaultText()}, nil
		}
		if err != nil {
			return nil, err
		}
		started := &taskpb.Started{Number: run.GetNumber(), RunId: runID}
		if err := d.report(&taskpb.Command{Body: &taskpb.Command_Started{Started: started}}); err != nil {
			return nil, err
		}
	}
	return d.await(runID)
}

// begin says what the run has to say, and returns the id of the turn.
func (d *taskDriver) begin(run *taskpb.Run) (string, error) {
	agent, found := d.tasks.config.Agents.Agent(d.task.GetProjectId(), d.task.GetAgentId(), 0)
	if !found {
		return "", failure.New(failurepb.Code_NOT_FOUND, failure.TaskAgentGone)
	}
	if len(run.GetWaiting().GetQuestions()) > 0 {
		if answered, err := d.answer(run, agent); err != nil || answered {
			return run.GetWaiting().GetRunId(), err
		}
	}
	return d.send(run, agent)
}

// opening makes the task's conversation, unless it exists, and adds the files that were stored for it.
func (d *taskDriver) opening(agent *agentpb.Agent) *conversationpb.Opening {
	opening := &conversationpb.Opening{Create: taskpb.Conversation(d.task.GetId(), d.task.GetInput(), agent), Agent: agent}
	if !tooOld(d.task.GetCreatedAt()) {
		opening.Files = d.task.GetStored()
	}
	return opening
}

// answer answers the questions that the run before asked. False: they are not asked any more. Once each of them is
// answered the turn goes on, or has gone on, when a driver that was lost had answered them.
func (d *taskDriver) answer(run *taskpb.Run, agent *agentpb.Agent) (bool, error) {
	questions := run.GetWaiting().GetQuestions()
	for len(questions) > 0 {
		action := questions[0].GetActionId()
		given := make(map[string]any)
		for ; len(questions) > 0 && questions[0].GetActionId() == action; questions = questions[1:] {
			given[questions[0].GetText()] = run.GetPrompt().GetText()
		}
		answers, err := json.Marshal(given)
		if err != nil {
			return false, err
		}
		if own := run.GetPrompt().GetAnswers(); len(own) > 0 {
			if answers, err = answersTo(action, run.GetWaiting().GetQuestions(), own); err != nil {
				return false, err
			}
		}
		_, err = d.tell("answer/"+action, &conversationpb.Command{Body: &conversationpb.Command_Resolve{
			Resolve: &conversationpb.Resolve{
				ActionId: action, Agent: agent,
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: answers}},
			},
		}})
		var refused *machine.Failure
		switch {
		case errors.As(err, &refused):
			return false, nil // somebody else has, or it expired: what was said is a new message then
		case err != nil:
			return false, err
		}
	}
	return true, nil
}

// answersTo are the answers of a comment without those to questions of other actions.
func answersTo(action string, questions []*taskpb.Question, all []byte) ([]byte, error) {
	var answers map[string]json.RawMessage
	if err := json.Unmarshal(all, &answers); err != nil {
		return nil, err
	}
	own := make(map[string]bool, len(questions))
	for _, question := range questions {
		own[question.GetText()] = own[question.GetText()] || question.GetActionId() == action
	}
	for text, mine := range own {
		if !mine {
			delete(answers, text)
		}
	}
	return json.Marshal(answers)
}

// send gives the conversation its message, and returns the id of the turn that answers it. A turn that somebody else has
// begun there is waited for; what waits for a person is given up.
func (d *taskDriver) send(run *taskpb.Run, agent *agentpb.Agent) (string, error) {
	message := &conversationpb.Send{Agent: agent, Content: run.GetPrompt().GetText()}
	command := &conversationpb.Command{Body: &conversationpb.Command_Send{Send: message}}
	if run.GetNumber() == 1 {
		if len(d.task.GetStored()) > 0 && tooOld(d.task.GetCreatedAt()) {
			return "", failure.New(failurepb.Code_NOT_FOUND, failure.TaskFilesLost)
		}
		command.Opening = d.opening(agent)
		message.Content = d.task.GetInput()
		for _, file := range d.task.GetFiles() {
			message.FileIds = append(message.FileIds, file.GetId())
		}
	}
	for try := 1; ; try++ {
		reply, err := d.tell("send", command)
		var refused *machine.Failure
		switch {
		case err == nil:
			return reply.GetAccepted().GetRunId(), nil
		case !errors.As(err, &refused) || try == maxSends:
			return "", err
		}
		switch refused.Code {
		case failurepb.Code_NOT_FOUND: // it was deleted
			if try > 1 || len(message.GetFileIds()) > 0 {
				return "", err
			}
			command.Opening, err = d.opening(agent), nil
		case failurepb.Code_CONVERSATION_BUSY:
			err = nil
			if active, _ := refused.Details["activeRunId"].(string); active != "" {
				_, err = d.await(active)
			}
			pause(d.ctx, try)
		case failurepb.Code_ACTION_PENDING:
			_, err = d.tell(fmt.Sprint("clear/", try), cancelCommand())
		default:
			return "", err
		}
		if err != nil {
			return "", err
		}
	}
}

// giveUp cancels the turn of a run. What drove the run has ended, so whatever it told the conversation was told before.
func (d *taskDriver) giveUp(run *taskpb.Run) (*taskpb.Ended, error) {
	reply, err := d.tell("cancel", cancelCommand())
	ended := &taskpb.Ended{Turn: canceled(run.GetRunId())}
	switch told := reply.GetCancelled(); {
	case codeIs(err, failurepb.Code_NOT_FOUND):
		return ended, nil
	case err != nil:
		return nil, err
	case told.GetCancelled() && !told.GetSettled():
		if _, err := d.await(told.GetRunId()); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// await returns when a turn has ended or waits for a person.
func (d *taskDriver) await(runID string) (*taskpb.Ended, error) {
	reply, err := d.tell("await", awaitCommand(runID))
	known := reply.GetTurn()
	switch {
	case err == nil && !known.GetPartial():
		return &taskpb.Ended{Turn: known}, nil
	case err != nil && !codeIs(err, failurepb.Code_NOT_FOUND):
		return nil, err
	}
	for try := 1; ; try++ {
		read, err := d.tasks.config.Records.Turn(d.ctx, d.task.GetConversationId(), runID)
		switch {
		case codeIs(err, failurepb.Code_NOT_FOUND):
			return &taskpb.Ended{Error: "The conversation of this task was deleted."}, nil
		case err == nil:
			if known.GetStopReason() != conversationpb.StopReason_STOP_UNSPECIFIED {
				read.StopReason, read.Pending = known.GetStopReason(), known.GetPending()
			}
			return &taskpb.Ended{Turn: read}, nil
		case d.ctx.Err() != nil:
			return nil, err
		}
		pause(d.ctx, try)
	}
}

// tell gives the conversation a command of the task's owner. What is told under the same name is the same command.
func (d *taskDriver) tell(name string, command *conversationpb.Command) (*conversationpb.Reply, error) {
	command.ConversationId = d.task.GetConversationId()
	command.CommandId = fmt.Sprintf("%s/%d/%s", d.task.GetId(), d.number(), name)
	command.Caller = &conversationpb.Caller{
		TenantId: d.task.GetTenantId(), ProjectId: d.task.GetProjectId(), UserId: d.task.GetUserId(), Trusted: true,
	}
	return converse(d.ctx, d.at, command)
}

// report tells the task how its run goes.
func (d *taskDriver) report(command *taskpb.Command) error {
	command.TaskId = d.task.GetId()
	return repeat(d.ctx, func() error {
		_, err := d.at.Ask(d.ctx, command)
		return err
	})
}
