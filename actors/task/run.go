package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// What a task that failed says of why.
const (
	errorFailed = "The task failed."
	errorBudget = "The budget is used up."
)

// recover has a run driven that was open when the task was loaded.
func (r *request) recover(*taskpb.Recover) *machine.Failure {
	if step, lost := r.limits.callbacks().Lost(deliveryOf(r.Before.GetCallback()), r.Now); lost {
		r.callStep(r.Before.GetCallback(), step)
	}
	if r.Before.GetRun() != nil {
		r.drive()
	}
	return nil
}

// started notes that the turn of a run was accepted.
func (r *request) started(c *taskpb.Started) *machine.Failure {
	run := r.Before.GetRun()
	if run.GetNumber() != c.GetNumber() || run.GetRunId() == c.GetRunId() || c.GetRunId() == "" {
		return nil
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunStarted{
		RunStarted: &taskpb.RunStarted{Number: c.GetNumber(), RunId: c.GetRunId()},
	}})
	return nil
}

// resumed opens the run again whose turn does not wait for a person any more: somebody has acted on its conversation, or nobody has
// in time. What the turn comes to, the driver tells.
func (r *request) resumed(c *taskpb.Resumed) *machine.Failure {
	waiting := r.Before.GetWaiting()
	if waiting == nil || waiting.GetRunId() != c.GetRunId() {
		return nil // known, or another turn
	}
	number := waiting.GetNumber()
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunOpened{RunOpened: &taskpb.RunOpened{Run: &taskpb.Run{Number: number, OpenedAt: r.Now}}}})
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunStarted{RunStarted: &taskpb.RunStarted{Number: number, RunId: c.GetRunId()}}})
	r.drive()
	return nil
}

// ended settles a run whose turn ended or paused. It may also be about a run that waits: somebody has acted on its
// conversation.
func (r *request) ended(c *taskpb.Ended) *machine.Failure {
	run, waiting := r.Before.GetRun(), r.Before.GetWaiting()
	switch {
	case run != nil && run.GetNumber() == c.GetNumber():
	case waiting != nil && waiting.GetNumber() == c.GetNumber():
	default:
		return nil // of a run that was settled before
	}
	if c.GetTurn().GetStopReason() == conversationpb.StopReason_REQUIRES_ACTION {
		if !run.GetCancelling() { // else it is being cancelled in its conversation
			r.paused(c)
		}
		return nil
	}
	ended := &taskpb.RunEnded{Number: c.GetNumber()}
	ended.Status, ended.Error = r.howEnded(c)
	if ended.GetStatus() == taskpb.Status_COMPLETED {
		ended.Result = r.result(c.GetTurn(), c.GetTurn().GetResponse().GetContent(), nil)
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunEnded{RunEnded: ended}})
	r.next()
	return nil
}

func (r *request) howEnded(c *taskpb.Ended) (taskpb.Status, string) {
	switch turn := c.GetTurn(); {
	case r.Before.GetRun().GetCancelling():
		return taskpb.Status_CANCELED, ""
	case c.GetError() != "" || turn == nil:
		return taskpb.Status_FAILED, clean(c.GetError(), errorFailed)
	case turn.GetStopReason() == conversationpb.StopReason_CANCELLED: // in its conversation
		return taskpb.Status_CANCELED, ""
	case turn.GetStopReason() == conversationpb.StopReason_BUDGET_REACHED:
		return taskpb.Status_FAILED, errorBudget
	case turn.GetError() != nil || turn.GetStopReason() == conversationpb.StopReason_ERROR:
		return taskpb.Status_FAILED, clean(turn.GetError().GetMessage(), errorFailed)
	}
	return taskpb.Status_COMPLETED, ""
}

// next opens the next run when something was said meanwhile; else who waits for the task is told.
func (r *request) next() {
	if !r.openNext() {
		r.callBack()
	}
}

// paused makes the task wait for input, unless that is known. What was said before the agent asked is no answer: it is the
// next message.
func (r *request) paused(c *taskpb.Ended) {
	turn := c.GetTurn()
	if known := r.Before.GetWaiting(); known != nil && slices.EqualFunc(known.GetPending(), turn.GetPending(), sameAction) {
		return
	}
	waiting := &taskpb.Waiting{Number: c.GetNumber(), RunId: turn.GetRunId()}
	for _, action := range turn.GetPending() {
		waiting.Pending = append(waiting.Pending, &conversationpb.PendingAction{
			Id: action.GetId(), Kind: action.GetKind(), ToolName: action.GetToolName(), ExpiresAt: action.GetExpiresAt(),
		})
	}
	waiting.CheckAt = r.checkAt(waiting)
	overtaken := len(r.Before.GetQueued()) > 0
	asked := ask(turn)
	if !overtaken {
		waiting.Questions = questionsOf(turn.GetPending())
		r.Emit(&taskpb.Event{Body: &taskpb.Event_Commented{Commented: &taskpb.Commented{
			Comment: r.comment(taskpb.Role_AGENT, asked, r.about(turn, waiting)),
		}}})
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunPaused{RunPaused: &taskpb.RunPaused{
		Waiting: waiting, Result: r.result(turn, asked, waiting),
	}}})
	r.next()
}

func sameAction(x, y *conversationpb.PendingAction) bool { return x.GetId() == y.GetId() }

// result is what a run leaves, or has asked.
func (r *request) result(turn *conversationpb.TurnResult, content string, waiting *taskpb.Waiting) *taskpb.Result {
	return &taskpb.Result{
		Id: r.Env.NewID("taskres"), Content: strings.ToValidUTF8(content, "\uFFFD"), Metadata: r.about(turn, waiting),
		Usage: turn.GetUsage(), CreatedAt: r.Now,
	}
}

// about is the metadata of a result, or of what the agent asked.
func (r *request) about(turn *conversationpb.TurnResult, waiting *taskpb.Waiting) []byte {
	about := struct {
		ConversationID string   `json:"conversationId"`
		RunID          string   `json:"runId,omitempty"`
		MessageID      string   `json:"messageId,omitempty"`
		StopReason     string   `json:"stopReason,omitempty"`
		Waiting        bool     `json:"waitingForInput,omitempty"`
		Actions        []string `json:"pendingActionIds,omitempty"`
	}{
		ConversationID: r.Before.GetConversationId(), RunID: turn.GetRunId(), MessageID: turn.GetResponse().GetId(),
		StopReason: strings.ToLower(turn.GetStopReason().String()), Waiting: waiting != nil,
	}
	for _, action := range waiting.GetPending() {
		about.Actions = append(about.Actions, action.GetId())
	}
	encoded, _ := json.Marshal(about)
	return encoded
}

// questionsOf lists the questions when nothing else is pending.
func questionsOf(pending []*conversationpb.PendingAction) []*taskpb.Question {
	var all []*taskpb.Question
	for _, action := range pending {
		texts := questionTexts(action)
		if action.GetKind() != conversationpb.KindQuestion || len(texts) == 0 {
			return nil
		}
		for _, text := range texts {
			all = append(all, &taskpb.Question{ActionId: action.GetId(), Text: text})
		}
	}
	return all
}

func questionTexts(action *conversationpb.PendingAction) []string {
	var details struct {
		Questions []struct {
			Question string `json:"question"`
		} `json:"questions"`
	}
	for _, raw := range [][]byte{action.GetDetails(), action.GetArgs()} {
		if json.Unmarshal(raw, &details) == nil && len(details.Questions) > 0 {
			break
		}
	}
	var texts []string
	for _, one := range details.Questions {
		if one.Question != "" {
			texts = append(texts, one.Question)
		}
	}
	return texts
}

// ask is what the agent said before it paused and what it wants to know, as text.
func ask(turn *conversationpb.TurnResult) string {
	var parts []string
	if said := strings.TrimSpace(turn.GetResponse().GetContent()); said != "" {
		parts = append(parts, said)
	}
	for _, action := range turn.GetPending() {
		switch texts := questionTexts(action); {
		case len(texts) > 0:
			parts = append(parts, texts...)
		case action.GetKind() == conversationpb.KindClient:
			parts = append(parts, fmt.Sprintf("The client is to run the tool %s.", action.GetToolName()))
		default:
			parts = append(parts, fmt.Sprintf("The tool %s needs an approval.", action.GetToolName()))
		}
	}
	return strings.ToValidUTF8(strings.Join(parts, "\n\n"), "\uFFFD")
}

// clean makes an error storable, and says something when it says nothing.
func clean(text, otherwise string) string {
	const maxError = 1000
	text = strings.ToValidUTF8(text, "\uFFFD")
	if text == "" {
		return otherwise
	}
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}
