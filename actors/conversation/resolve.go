package conversation

import (
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// resolve decides a pending action (document 2, "States": waiting, resolve action). The turn goes on once none is left.
// Each action is decided once: who comes second finds it no longer pending.
func (r *request) resolve(c *conversationpb.Resolve) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if first := r.outcome(); first != nil {
		return resumedAgain(r, first, c)
	}
	if f := r.checkCommandID(); f != nil {
		return f
	}
	action, f := r.pendingAction(c.GetActionId())
	if f != nil {
		if forgotten := r.forgotten(); forgotten != nil { // it may have been this command that decided it
			f = forgotten
		}
		return f
	}
	if action.GetExpiresAt() <= r.Now {
		r.resolveTooLate(action)
		return nil
	}
	decided, f := r.decide(action, c)
	if f != nil {
		return f
	}
	if f = r.checkContext(r.Command.GetRuntimeContext()); f != nil {
		return f
	}
	return r.resolved(c, action, decided)
}

// pendingAction finds the action, or says why it cannot be decided any more (document 2, "Errors": 409, 410).
func (r *request) pendingAction(id string) (*conversationpb.PendingAction, *machine.Failure) {
	for _, action := range r.state.GetPending() {
		if action.GetId() == id {
			return action, nil
		}
	}
	expired := slices.ContainsFunc(r.state.GetClosed(), func(closed *conversationpb.ClosedAction) bool {
		return closed.GetId() == id && closed.GetHow() == conversationpb.HowExpired
	})
	if expired {
		return nil, actionExpired()
	}
	return nil, failure.New(failurepb.Code_ACTION_NOT_PENDING, failure.ActionNotPending)
}

func actionExpired() *machine.Failure {
	return failure.New(failurepb.Code_ACTION_EXPIRED, failure.ActionExpired)
}

// resolveTooLate carries out the lapse that the sweep has not got to yet, and refuses: what is stored comes first, so
// the sender is settled rather than refused at once.
func (r *request) resolveTooLate(action *conversationpb.PendingAction) {
	key := "expired:" + action.GetId()
	r.lapse()
	r.Await(key)
	r.SettleRefused(key, actionExpired())
}

func (r *request) resolved(
	c *conversationpb.Resolve, action *conversationpb.PendingAction, closed *conversationpb.ActionClosed,
) *machine.Failure {
	run, before := action.GetRunId(), r.state.GetLastSeq()
	if f := r.push(run, c.GetPush()); f != nil {
		return f
	}
	closed.Id, closed.How, closed.ToolCallId = action.GetId(), conversationpb.HowResolved, action.GetToolCallId()
	closed.By = r.by()
	last := len(r.state.GetPending()) == 1
	if !last {
		closed.CommandId, closed.IssuedAt = r.Command.GetCommandId(), r.Command.GetIssuedAt()
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ActionClosed{ActionClosed: closed}})
	if c.GetApproval().GetAllow() && c.GetApproval().GetRemember() && !action.GetUnknownOutcome() {
		r.rememberTool(run, action.GetToolName())
	}
	if !last {
		return r.reply(turnReply(pausedResult(r.State())))
	}
	r.resume(conversationpb.Mode_RESOLVE, before, r.Command)
	r.awaited(c.GetWait(), before)
	return nil
}

// resumedAgain answers a command that came before, and with which the turn went on.
func resumedAgain[B interface{ GetWait() bool }](r *request, first *conversationpb.Outcome, body B) *machine.Failure {
	run := first.GetRunId()
	switch {
	case first.GetUserMessageId() == "":
		return r.usedOtherwise()
	case r.state.GetLease().GetRunId() != run:
		return r.reply(r.knownResult(run))
	case body.GetWait():
		return r.wait(run)
	}
	return r.reply(r.acceptedReply(run, r.state.GetLease().GetUserMessage(), first.GetSeq()))
}
