package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	"parley/actors/background"
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// maxSends bounds how often a worker finds the conversation of a task taken by others before the run fails.
const maxSends = 100

// taskRun is the open run of a task, or the one that waits for a person. The worker of background runs works on it as on a
// stored run, with these differences: the task keeps what becomes of it, it has no place in the project's queue, and it does not
// hold its conversation, in which others may take part.
type taskRun struct {
	taskJob

	state *taskpb.State // of the task, as it was when the worker was made; only read
}

// taskJob is what is done for a task, for telling whether another worker would do just the same.
type taskJob struct {
	number              uint64 // of the run
	waiting, cancelling bool
}

// WorkOnTask has the run of a task worked on, in the config's pool. Of the config, tasks need Agents, Records and Pool.
func WorkOnTask(config Config, at kit.Ref, of *taskpb.State) {
	config.Renew = cmp.Or(config.Renew, defaultRenew)
	open, number, turn := of.GetRun(), of.GetRun().GetNumber(), of.GetRun().GetRunId()
	if open == nil {
		number, turn = of.GetWaiting().GetNumber(), of.GetWaiting().GetRunId()
	}
	job := taskJob{number: number, waiting: open == nil, cancelling: open.GetCancelling()}
	w := &worker{config: config, at: at, task: &taskRun{taskJob: job, state: of}, run: &runpb.State{
		TenantId: of.GetTenantId(), ProjectId: of.GetProjectId(), UserId: of.GetUserId(), AgentId: of.GetAgentId(),
		ConversationId: of.GetConversationId(), TurnRunId: turn, Status: runpb.Status_QUEUED, Trusted: true,
	}}
	if turn != "" {
		w.run.Status = runpb.Status_RUNNING
	}
	config.Pool.Work(at, job, w.work)
}

// taskStep does the next thing for the run of a task.
func (w *worker) taskStep() (*runpb.Command, error) {
	switch {
	case w.task.cancelling:
		return w.cancelTask()
	case w.run.GetStatus() == runpb.Status_QUEUED:
		return w.beginTask()
	}
	return w.await()
}

// reportToTask tells the task how its run goes. One that has ended, or waits for a person, needs no worker any more.
func (w *worker) reportToTask(report *runpb.Command) error {
	ended := &taskpb.Ended{Number: w.task.number}
	command := &taskpb.Command{TaskId: w.at.ID, Body: &taskpb.Command_Ended{Ended: ended}}
	var after *runpb.State
	switch body := report.GetBody().(type) {
	case *runpb.Command_Began:
		after = proto.CloneOf(w.run)
		after.Status, after.TurnRunId, after.LastSeq = runpb.Status_RUNNING, body.Began.GetTurnRunId(), after.GetLastSeq()+1
		command.Body = &taskpb.Command_Started{Started: &taskpb.Started{Number: w.task.number, RunId: after.GetTurnRunId()}}
	case *runpb.Command_Paused:
		ended.Turn = body.Paused.GetTurn()
	case *runpb.Command_Ended:
		ended.Turn, ended.Error = body.Ended.GetTurn(), body.Ended.GetError().GetMessage()
	}
	w.run = after
	return kit.Repeat(w.ctx, func() error {
		_, err := w.at.Ask(w.ctx, command)
		return err
	})
}

// beginTask has the turn of a task's run begun, or go on. A failure ends the run.
func (w *worker) beginTask() (*runpb.Command, error) {
	turn, err := w.ordered()
	if refusal := kit.FailureOf(err); refusal != nil {
		return w.end(runError("", refusal.DefaultText()))
	}
	if err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn}}}, nil
}

// ordered answers what the run before asked, or sends the message, and returns the id of the turn.
func (w *worker) ordered() (string, error) {
	agent, found := w.agent()
	if !found {
		return "", failure.New(failurepb.Code_NOT_FOUND, failure.TaskAgentGone)
	}
	open := w.task.state.GetRun()
	if len(open.GetWaiting().GetQuestions()) > 0 {
		if answered, err := w.answer(open, agent); err != nil || answered {
			return open.GetWaiting().GetRunId(), err
		}
	}
	return w.send(open, agent)
}

// answer answers the questions that the run before asked. False: they are not asked any more. Once each of them is
// answered the turn goes on, or has gone on, when a worker that was lost had answered them.
func (w *worker) answer(open *taskpb.Run, agent *agentpb.Agent) (bool, error) {
	var before string
	for _, question := range open.GetWaiting().GetQuestions() {
		action := question.GetActionId()
		if action == before {
			continue
		}
		before = action
		answers, err := answersTo(action, open)
		if err != nil {
			return false, err
		}
		_, err = w.tell("answer/"+action, &conversationpb.Command{Body: &conversationpb.Command_Resolve{
			Resolve: &conversationpb.Resolve{
				ActionId: action, Agent: agent.Rules(),
				Resolution: &conversationpb.Resolve_Answers{Answers: &conversationpb.UserAnswers{Answers: answers}},
			},
		}})
		if _, refused := errors.AsType[*machine.Failure](err); refused {
			return false, nil // somebody else has, or it expired: the comment is a new message then
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// answersTo are the answers to the questions of an action, by question: the comment's text to each, or the answers that the comment
// brought, without those to questions of other actions.
func answersTo(action string, open *taskpb.Run) ([]byte, error) {
	var given map[string]json.RawMessage
	if brought := open.GetPrompt().GetAnswers(); len(brought) > 0 {
		if err := json.Unmarshal(brought, &given); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(open.GetPrompt().GetText())
	if err != nil {
		return nil, err
	}
	answers, own := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	maps.Copy(answers, given)
	for _, question := range open.GetWaiting().GetQuestions() {
		delete(answers, question.GetText())
		if answer, brought := given[question.GetText()]; question.GetActionId() != action {
			continue
		} else if brought {
			own[question.GetText()] = answer
		} else if given == nil {
			own[question.GetText()] = text
		}
	}
	maps.Copy(answers, own)
	return json.Marshal(answers)
}

// send gives the conversation its message, and returns the id of the turn that answers it. A turn that somebody else has
// begun there is waited for; what waits for a person is given up.
func (w *worker) send(open *taskpb.Run, agent *agentpb.Agent) (string, error) {
	of := w.task.state
	opening := &conversationpb.Opening{Create: taskpb.Conversation(of.GetId(), of.GetInput(), agent), Agent: agent.Rules()}
	if !background.BlobsLost(of.GetCreatedAt()) {
		opening.Files = of.GetStored()
	}
	message := &conversationpb.Send{Agent: agent.Rules(), Content: open.GetPrompt().GetText()}
	command := &conversationpb.Command{Body: &conversationpb.Command_Send{Send: message}}
	if open.GetNumber() == 1 {
		if len(of.GetStored()) > len(opening.GetFiles()) {
			return "", failure.New(failurepb.Code_NOT_FOUND, failure.TaskFilesLost)
		}
		command.Opening, message.Content = opening, of.GetInput()
		for _, file := range of.GetFiles() {
			message.FileIds = append(message.FileIds, file.GetId())
		}
	}
	for try := 1; ; try++ {
		reply, err := w.tell(tellSend, command)
		refused, is := errors.AsType[*machine.Failure](err)
		switch {
		case err == nil:
			return reply.GetAccepted().GetRunId(), nil
		case !is || try == maxSends:
			return "", err
		case refused.Code == failurepb.Code_NOT_FOUND && try == 1 && len(message.GetFileIds()) == 0: // it was deleted
			command.Opening, err = opening, nil
		case refused.Code == failurepb.Code_CONVERSATION_BUSY:
			active, _ := refused.Details["activeRunId"].(string)
			err = w.over(active)
			kit.Pause(w.ctx, try)
		case refused.Code == failurepb.Code_ACTION_PENDING:
			_, err = w.tell(fmt.Sprint("clear/", try), background.Cancel(""))
		}
		if err != nil {
			return "", err
		}
	}
}

// over returns when a turn of the conversation does not go on any more.
func (w *worker) over(turn string) error {
	if turn == "" {
		return nil
	}
	_, err := w.tell("await", background.Await(turn))
	if kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return nil
	}
	return err
}

// cancelTask cancels the turn of a task's run, and no other that somebody has begun there. What drove the run has ended, so whatever
// it told the conversation was told before.
func (w *worker) cancelTask() (*runpb.Command, error) {
	turn, err := w.turnOfTask()
	if turn == "" && err == nil || kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return w.end(&runpb.Ended{Turn: background.Canceled(turn)})
	}
	if err != nil {
		return nil, err
	}
	reply, err := w.tell("cancel", background.Cancel(turn))
	if told := reply.GetCancelled(); err == nil && told.GetCancelled() && !told.GetSettled() {
		err = w.over(told.GetRunId())
	}
	if err != nil && !kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return nil, err
	}
	return w.end(&runpb.Ended{Turn: background.Canceled(turn)})
}

// turnOfTask is the turn of a task's run, "" = none: a worker may have been lost before it told the task of it.
func (w *worker) turnOfTask() (string, error) {
	if turn := w.run.GetTurnRunId(); turn != "" {
		return turn, nil
	}
	reply, err := w.tell("look", background.Look(w.at.ID)) // a task holds no conversation
	return cmp.Or(w.begunBy(reply.GetState(), tellSend), w.task.state.GetRun().GetWaiting().GetRunId()), err
}
