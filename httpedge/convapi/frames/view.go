// Package frames renders a turn as the event stream of the client that started or resumed it.
package frames

import (
	"cmp"
	"strconv"
	"time"

	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// MessageView renders one run for the client that started or resumed it.
//
// The pieces of stream.text, concatenated, are the run's text from here on: the content of stream.done or, for a
// resumed run, the end of it (turns.TextStream). Tool calls come at their place between the pieces.
type MessageView struct {
	conversationID string
	run            string
	userMessageID  string
	position       uint32 // in the queue when the stream began, 0 = it was not queued
	seq            uint64 // of frames, from 1
	now            func() time.Time

	prior      string        // text of a resumed run before it was resumed
	resolved   *resolvedPart // nil unless the stream began by resolving an action
	textStream turns.TextStream

	title   string
	answer  *conversationpb.Message
	reached *conversationpb.BudgetReached
}

// resolvedPart is the decision that a stream begins with.
type resolvedPart struct {
	resolve *conversationpb.Resolve
	action  *conversationpb.PendingAction // nil when it was not pending
	waits   *conversationpb.TurnResult    // set while other actions are pending: the stream then ends with the decision
}

// NewMessageView returns the view of a turn that a command started or resumed.
func NewMessageView(conversationID string, accepted *conversationpb.Accepted) *MessageView {
	return &MessageView{
		conversationID: conversationID,
		run:            accepted.GetRunId(),
		userMessageID:  accepted.GetUserMessage().GetId(),
		title:          accepted.GetTitle(),
		position:       accepted.GetPosition(),
		now:            time.Now,
	}
}

// Resume prepares the view for a turn that was paused or cut by the budget.
func (v *MessageView) Resume(state *conversationpb.State) {
	paused := state.GetPaused()
	v.prior = paused.GetAnswer().GetContent()
	v.title = cmp.Or(v.title, state.GetTitle())
	v.textStream.Resume(v.prior, state.GetStatus() != conversationpb.Status_WAITING)
	if v.run == "" {
		v.run = paused.GetRunId()
	}
	if v.userMessageID == "" {
		v.userMessageID = paused.GetUserMessage().GetId()
	}
}

// Resolve makes the stream begin with a decision. result is set when the turn did not continue after it.
func (v *MessageView) Resolve(
	resolve *conversationpb.Resolve, action *conversationpb.PendingAction, result *conversationpb.TurnResult,
) {
	v.resolved = &resolvedPart{resolve: resolve, action: action}
	if len(result.GetPending()) > 0 {
		v.resolved.waits = result
	}
}

// Opening returns the first frames of the stream.
func (v *MessageView) Opening() sse.Frame {
	b := v.begin("stream.start", 0)
	b = wire.AppendMember(b, `,"conversationId":`, v.conversationID)
	b = wire.AppendMember(b, `,"messageId":`, v.userMessageID)
	if v.position > 0 {
		b = wire.AppendMember(b, `,"runId":`, v.run)
		b = append(b, `,"status":"queued","position":`...)
		b = strconv.AppendUint(b, uint64(v.position), 10)
	}
	start := v.seal(b)
	if v.resolved == nil {
		return start
	}
	return sse.Join(start, v.actionResolved())
}

// Event implements sse.View.
func (v *MessageView) Event(event *conversationpb.Event) (sse.Frame, bool) {
	if patch := event.GetUpdated().GetPatch(); patch != nil && patch.Title != nil {
		v.title = patch.GetTitle()
	}
	if closed := event.GetActionClosed(); v.waits() != nil && closed.GetId() == v.resolved.resolve.GetActionId() {
		return v.waiting(), true
	}
	if event.GetRunId() != v.run {
		return nil, false
	}
	switch said := event.GetBody().(type) {
	case *conversationpb.Event_MessageDequeued:
		return v.failed("the message was taken back before its turn", "cancelled"), true
	case *conversationpb.Event_ToolUse:
		return v.toolUse(said.ToolUse), false
	case *conversationpb.Event_ToolResults:
		return v.toolResults(said.ToolResults), false
	case *conversationpb.Event_BudgetReached:
		v.reached = said.BudgetReached
	case *conversationpb.Event_AgentMessage:
		v.answer = said.AgentMessage.GetMessage()
		return v.text(v.textStream.Finish(v.answer.GetContent())), false
	case *conversationpb.Event_TurnPaused:
		v.answer = said.TurnPaused.GetAnswer()
		return sse.Join(v.text(v.textStream.Finish(v.answer.GetContent())), v.done(&conversationpb.TurnEnded{StopReason: conversationpb.StopReason_REQUIRES_ACTION})), true
	case *conversationpb.Event_TurnEnded:
		ended := said.TurnEnded
		if ended.GetError() != nil || ended.GetStopReason() == conversationpb.StopReason_ERROR {
			return v.failed(ended.GetError().GetMessage(), ended.GetError().GetCode()), true
		}
		return v.done(ended), true
	}
	return nil, false
}

func (v *MessageView) waits() *conversationpb.TurnResult {
	if v.resolved == nil {
		return nil
	}
	return v.resolved.waits
}

// waiting ends the stream of a decision that leaves other actions pending.
func (v *MessageView) waiting() sse.Frame {
	v.answer = v.waits().GetResponse()
	if v.answer == nil {
		v.answer = &conversationpb.Message{Content: v.prior}
	}
	ended := &conversationpb.TurnEnded{StopReason: conversationpb.StopReason_REQUIRES_ACTION, Usage: v.waits().GetUsage()}
	return v.done(ended)
}

// ToolUse renders the tool calls that a model call asked for, after the text that precedes them.
func (v *MessageView) toolUse(use *conversationpb.ToolUse) sse.Frame {
	frames := v.text(v.textStream.Step(use.GetText()))
	for _, call := range use.GetCalls() {
		frames = sse.Join(frames, v.toolCall(call))
	}
	return frames
}

func (v *MessageView) toolResults(results *conversationpb.ToolResults) sse.Frame {
	var frames sse.Frame
	for _, call := range results.GetResults() {
		frames = sse.Join(frames, v.toolResult(call))
	}
	return frames
}

// Snapshot implements sse.View: the run's text starts over.
func (v *MessageView) Snapshot(run sse.Run) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.text(v.textStream.Restart(run.Text))
}

// Delta implements sse.View.
func (v *MessageView) Delta(run sse.Run, offset int) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.text(v.textStream.Advance(run.Text, offset))
}

// End implements sse.View.
func (v *MessageView) End(why sse.EndReason) sse.Frame {
	table := body.Problems()
	switch why {
	case sse.Deleted:
		return v.failed("the conversation was deleted", table[failurepb.Code_NOT_FOUND].Code)
	case sse.Stopping:
		return v.failed("the server is stopping; the turn goes on, its answer will be in the conversation",
			table[failurepb.Code_UNAVAILABLE].Code)
	case sse.Unauthorized:
		return v.failed("the token is not valid any more; the turn goes on", table[failurepb.Code_AUTH_REQUIRED].Code)
	case sse.Forbidden:
		return v.failed("the token does not permit this any more; the turn goes on", table[failurepb.Code_FORBIDDEN].Code)
	default:
		return v.failed("the turn cannot be followed any more; its answer will be in the conversation",
			table[failurepb.Code_UNAVAILABLE].Code)
	}
}

// pendingOf renders the pending actions for the end of a stream.
func (v *MessageView) pendingOf() []*conversationpb.PendingAction {
	if waits := v.waits(); waits != nil {
		return waits.GetPending()
	}
	return v.answer.GetPending()
}
