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
func (r *request) resolve(c *conversationpb.Resolve) (machine.Decision, *machine.Failure) {
	if f := r.access(); f != nil {
		return machine.Decision{}, f
	}
	if first := r.outcome(); first != nil {
		return r.repeatResumed(first, c.GetWait())
	}
	if f := r.checkCommandID(); f != nil {
		return machine.Decision{}, f
	}
	action, f := r.pendingAction(c.GetActionId())
	if f != nil {
		if forgotten := r.forgotten(); forgotten != nil { // it may have been this command that decided it
			f = forgotten
		}
		return machine.Decision{}, f
	}
	if action.GetExpiresAt() <= r.now {
		return r.resolveTooLate(action), nil
	}
	decided, f := r.decide(action, c)
	if f != nil {
		return machine.Decision{}, f
	}
	if f = r.checkContext(r.command.GetRuntimeContext()); f != nil {
		return machine.Decision{}, f
	}
	return r.resolved(c, action, decided), nil
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
func (r *request) resolveTooLate(action *conversationpb.PendingAction) machine.Decision {
	key := "expired:" + action.GetId()
	decision := r.lapse()
	decision.Wait = key
	decision.Settle = append(decision.Settle, machine.Settlement{Key: key, Failure: actionExpired()})
	return decision
}

func (r *request) resolved(
	c *conversationpb.Resolve, action *conversationpb.PendingAction, closed *conversationpb.ActionClosed,
) machine.Decision {
	run, before := action.GetRunId(), r.state.GetLastSeq()
	closed.Id, closed.How, closed.ToolCallId = action.GetId(), conversationpb.HowResolved, action.GetToolCallId()
	closed.By = r.by()
	last := len(r.state.GetPending()) == 1
	if !last {
		closed.CommandId, closed.IssuedAt = r.command.GetCommandId(), r.command.GetIssuedAt()
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_ActionClosed{ActionClosed: closed}})
	if c.GetApproval().GetAllow() && c.GetApproval().GetRemember() && !action.GetUnknownOutcome() {
		r.rememberTool(run, action.GetToolName())
	}
	if !last {
		return machine.Decision{Events: r.events, Reply: turnReply(pausedResult(r.after()))}
	}
	return r.awaited(r.resume(conversationpb.Mode_RESOLVE, before, r.command), c.GetWait(), before)
}

// repeatResumed answers a resolve or a continue that came before.
func (r *request) repeatResumed(first *conversationpb.Outcome, wait bool) (machine.Decision, *machine.Failure) {
	run := first.GetRunId()
	switch {
	case first.GetUserMessageId() == "":
		return r.usedOtherwise()
	case r.state.GetLease().GetRunId() != run:
		return machine.Decision{Reply: r.knownResult(run)}, nil
	case wait:
		return machine.Decision{Wait: run}, nil
	}
	return machine.Decision{Reply: r.acceptedReply(run, r.state.GetLease().GetUserMessage(), first.GetSeq())}, nil
}
