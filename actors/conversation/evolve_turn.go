package conversation

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/proto/conversationpb"
)

// maxClosed bounds State.closed: enough for the actions of a pause to be told apart from unknown ones for a while. It
// is part of what a stored history means: never change it.
const maxClosed = 32

// applyTurn is apply of the events that happen inside a turn: steps, money, pauses.
func (m *rules) applyTurn(next *conversationpb.State, event *conversationpb.Event) {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_ToolUse:
		toolUse(next, body.ToolUse)
	case *conversationpb.Event_ToolResults:
		toolResults(next, body.ToolResults.GetResults())
	case *conversationpb.Event_TurnOptions:
		turnOptions(next)
	case *conversationpb.Event_Partial:
		partial(next, body.Partial)
	case *conversationpb.Event_Reserved:
		lease := forkLease(next.GetLease())
		lease.ReservedNanoUsd = body.Reserved.GetReservedNanoUsd()
		next.Lease = lease
	case *conversationpb.Event_ActionRequested:
		actionRequested(next, body.ActionRequested.GetAction())
	case *conversationpb.Event_TurnPaused:
		turnPaused(next, event, body.TurnPaused.GetAnswer())
	case *conversationpb.Event_ActionClosed:
		m.actionClosed(next, event, body.ActionClosed)
	case *conversationpb.Event_TurnResumed:
		m.turnResumed(next, event, body.TurnResumed)
	case *conversationpb.Event_ToolRemembered:
		toolRemembered(next, body.ToolRemembered)
	default:
		applyPush(next, event)
	}
}

func partial(next *conversationpb.State, cut *conversationpb.Partial) {
	lease := forkLease(next.GetLease())
	lease.Steps++
	if cut.GetCharged() {
		lease.ReservedNanoUsd = 0
		charge(next, lease, cut.GetUsage())
	}
	next.Lease = lease
}

// charge adds what model calls cost to the turn, which is the caller's own copy, and to the conversation.
func charge(next *conversationpb.State, turn *conversationpb.Lease, usage *conversationpb.Usage) {
	turn.Usage = addUsage(turn.GetUsage(), usage)
	next.SpentNanoUsd = money.Add(next.GetSpentNanoUsd(), usage.GetCostNanoUsd())
	next.SpentUnknown = next.GetSpentUnknown() || usage.GetModelCalls() > 0 && !usage.GetPriced()
}

func toolUse(next *conversationpb.State, use *conversationpb.ToolUse) {
	lease := forkLease(next.GetLease())
	lease.Steps++
	lease.Calls = use.GetOpen()
	lease.ReservedNanoUsd = 0
	charge(next, lease, use.GetUsage())
	next.Lease = lease
}

func toolResults(next *conversationpb.State, results []*conversationpb.ToolCall) {
	lease := forkLease(next.GetLease())
	lease.Steps++
	for _, result := range results {
		lease.Calls = changeCall(lease.GetCalls(), result.GetId(), callDone)
	}
	next.Lease = lease
}

// changeCall returns the calls with a changed copy of the first one of that id that is not done.
func changeCall(
	calls []*conversationpb.OpenCall, id string, change func(*conversationpb.OpenCall),
) []*conversationpb.OpenCall {
	i := slices.IndexFunc(calls, func(c *conversationpb.OpenCall) bool { return c.GetId() == id && !c.GetDone() })
	if i < 0 {
		return calls
	}
	changed := slices.Clone(calls)
	changed[i] = proto.CloneOf(calls[i])
	change(changed[i])
	return changed
}

func callDone(call *conversationpb.OpenCall) {
	call.Done = true
	forPerson(call)
}

// forPerson drops what only a person must see.
func forPerson(call *conversationpb.OpenCall) {
	call.Args, call.Schema, call.Details = nil, nil, nil
}

// actionRequested moves what the person must see from the call to the action.
func actionRequested(next *conversationpb.State, action *conversationpb.PendingAction) {
	next.Pending = append(slices.Clip(next.GetPending()), action)
	lease := forkLease(next.GetLease())
	lease.Calls = changeCall(lease.GetCalls(), action.GetToolCallId(), func(call *conversationpb.OpenCall) {
		call.ActionId = action.GetId()
		if action.GetUnknownOutcome() {
			call.Need = conversationpb.Need_OUTCOME
		}
		forPerson(call)
	})
	next.Lease = lease
}

func turnPaused(next *conversationpb.State, event *conversationpb.Event, answer *conversationpb.Message) {
	lease := next.GetLease()
	if lease.GetAttempt() > 1 {
		next.TakenOver = lease.GetEpoch()
	}
	next.Paused = park(lease)
	next.Paused.Answer = withPending(answer, nil)
	next.Lease = nil
	next.Status = conversationpb.Status_WAITING
	next.StopReason = conversationpb.StopReason_REQUIRES_ACTION
	next.UpdatedAt = max(next.GetUpdatedAt(), event.GetCreatedAt())
	addMessage(next, event, answer)
	answered(next, answer)
}

// withPending is the stored answer of a turn with the actions that it waits for; the head has those apart.
func withPending(answer *conversationpb.Message, pending []*conversationpb.PendingAction) *conversationpb.Message {
	if answer == nil {
		return nil
	}
	shown := proto.CloneOf(answer)
	shown.Pending = pending
	return shown
}

// park is the lease as it is kept while nobody runs the turn.
func park(lease *conversationpb.Lease) *conversationpb.Lease {
	paused := forkLease(lease)
	paused.Node, paused.Epoch, paused.Cancelling, paused.ReservedNanoUsd = "", 0, false, 0
	return paused
}

// actionClosed takes an action off the pending ones. Its call has its result, or is to be run.
func (m *rules) actionClosed(next *conversationpb.State, event *conversationpb.Event, closed *conversationpb.ActionClosed) {
	next.Pending = slices.DeleteFunc(slices.Clone(next.GetPending()), func(a *conversationpb.PendingAction) bool {
		return a.GetId() == closed.GetId()
	})
	if len(next.GetPending()) == 0 {
		next.Pending = nil
	}
	next.Closed = append(slices.Clip(next.GetClosed()), &conversationpb.ClosedAction{Id: closed.GetId(), How: closed.GetHow()})
	next.Closed = next.GetClosed()[max(0, len(next.GetClosed())-maxClosed):]

	turn := forkLease(next.GetPaused())
	switch {
	case closed.GetRun():
		turn.Calls = changeCall(turn.GetCalls(), closed.GetToolCallId(), func(call *conversationpb.OpenCall) {
			call.Need, call.Args = conversationpb.Need_RUN, closed.GetArgs()
		})
	case closed.GetResult() != nil:
		turn.Steps++
		turn.Calls = changeCall(turn.GetCalls(), closed.GetToolCallId(), callDone)
	}
	next.Paused = turn

	outcome := &conversationpb.Outcome{
		CommandId: closed.GetCommandId(), RunId: event.GetRunId(), Seq: event.GetSeq(), IssuedAt: closed.GetIssuedAt(),
		IssuedBy: event.GetIssuedBy(),
	}
	if closed.GetHow() != conversationpb.HowCancelled {
		outcome.UserMessageId = turn.GetUserMessage().GetId()
	}
	m.remember(next, outcome)
}

func (m *rules) turnResumed(next *conversationpb.State, event *conversationpb.Event, resumed *conversationpb.TurnResumed) {
	given, lease := resumed.GetLease(), forkLease(next.GetPaused())
	lease.Node, lease.Epoch, lease.Mode = given.GetNode(), given.GetEpoch(), given.GetMode()
	lease.Attempt, lease.AttemptAt, lease.Quick, lease.Deaths = given.GetAttempt(), given.GetAttemptAt(), 0, 0
	lease.ResumedAt = given.GetResumedAt()
	lease.ByUser, lease.ByToken = given.GetByUser(), given.GetByToken()
	if len(given.GetRuntimeContext()) > 0 {
		lease.RuntimeContext = given.GetRuntimeContext()
	}
	next.Lease, next.Paused = lease, nil
	next.Status = conversationpb.Status_RUNNING
	next.StopReason = conversationpb.StopReason_STOP_UNSPECIFIED
	next.Continuable = false
	m.remember(next, &conversationpb.Outcome{
		CommandId: resumed.GetCommandId(), RunId: event.GetRunId(), UserMessageId: lease.GetUserMessage().GetId(),
		Seq: resumed.GetAfterSeq(), IssuedAt: resumed.GetIssuedAt(), IssuedBy: event.GetIssuedBy(),
	})
}

// doubt marks the calls that a lost attempt may have run and that must not run twice: a person decides.
func doubt(calls []*conversationpb.OpenCall) []*conversationpb.OpenCall {
	for _, call := range calls {
		if !call.GetDone() && call.GetNeed() == conversationpb.Need_RUN && !call.GetIdempotent() {
			calls = changeCall(calls, call.GetId(), func(c *conversationpb.OpenCall) { c.Need = conversationpb.Need_OUTCOME })
		}
	}
	return calls
}

// answered notes the newest answer.
func answered(next *conversationpb.State, answer *conversationpb.Message) {
	next.LastAnswer = &conversationpb.Message{
		Id: answer.GetId(), Number: answer.GetNumber(), Status: answer.GetStatus(),
		InReplyTo: answer.GetInReplyTo(), RunId: answer.GetRunId(),
	}
}

func toolRemembered(next *conversationpb.State, remembered *conversationpb.ToolRemembered) {
	tools := slices.DeleteFunc(slices.Clone(next.GetRememberedTools()), func(t string) bool { return t == remembered.GetTool() })
	if !remembered.GetForgotten() {
		tools = append(tools, remembered.GetTool())
	}
	next.RememberedTools = nil
	if len(tools) > 0 {
		next.RememberedTools = tools
	}
}
