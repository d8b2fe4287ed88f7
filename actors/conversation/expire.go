package conversation

import (
	"slices"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// What happens when nobody decides an action in time (Limits.OnActionTimeout).
const (
	onTimeoutDeny   = "deny"   // the call fails, and the turn goes on when none is left
	onTimeoutCancel = "cancel" // the turn ends cancelled
)

// due does what the time has come for: files that are kept no longer, actions that nobody decided (document 2, "States":
// waiting, action lapses), addresses that are to be told again. A conversation for which there is nothing to do is left as it is.
func (r *request) due(*conversationpb.Due) *machine.Failure {
	r.expireFiles()
	r.lapse()
	r.pushesDue()
	return nil
}

// lapse closes the actions whose time is over, as the limits say.
func (r *request) lapse() {
	var expired, rest []*conversationpb.PendingAction
	for _, action := range r.state.GetPending() {
		if action.GetExpiresAt() <= r.Now {
			expired = append(expired, action)
			continue
		}
		rest = append(rest, action)
	}
	if len(expired) == 0 {
		return
	}
	// Nobody is there any more who would use the answer of a turn whose caller has left its own calls open.
	left := slices.ContainsFunc(expired, (*conversationpb.PendingAction).GetOfCaller)
	before, cancel := r.state.GetLastSeq(), left || r.limits.OnActionTimeout == onTimeoutCancel
	for _, action := range expired {
		closed := &conversationpb.ActionClosed{}
		if !cancel {
			closed = closedWith(action, resolution{}, "", tellLate(action))
			closed.Resolution = nil
		}
		r.close(action, conversationpb.HowExpired, closed)
	}
	switch {
	case cancel:
		r.closeAll(rest)
		r.endPaused()
		r.next()
		return
	case len(rest) > 0:
		return
	}
	r.resume(conversationpb.Mode_RESOLVE, before, nil) // a resolve that came too late is not what did it
}

func tellLate(action *conversationpb.PendingAction) string {
	switch {
	case action.GetUnknownOutcome():
		return tellLateUnknown
	case action.GetKind() == conversationpb.KindQuestion:
		return tellLateAnswer
	case action.GetKind() == conversationpb.KindClient:
		return tellLateClient
	default:
		return tellLateApprove
	}
}

func (r *request) close(action *conversationpb.PendingAction, how string, closed *conversationpb.ActionClosed) {
	closed.Id, closed.How, closed.ToolCallId = action.GetId(), how, action.GetToolCallId()
	r.emit(action.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_ActionClosed{ActionClosed: closed}})
}

func (r *request) closeAll(actions []*conversationpb.PendingAction) {
	for _, action := range actions {
		r.close(action, conversationpb.HowCancelled, &conversationpb.ActionClosed{})
	}
}

// giveUp ends a turn that waits for a person, cancelled, to make way: for a new message where the policy says so.
// It returns the answer that is left there, nil if nothing was given up.
func (r *request) giveUp() *conversationpb.Message {
	if r.state.GetStatus() != conversationpb.Status_WAITING {
		return nil
	}
	r.closeAll(r.state.GetPending())
	left := r.endPaused()
	r.made = r.LastSeq()
	return left
}

// endPaused ends the turn that waits, cancelled, and returns the answer that is left: what it had said, as the answer of a
// cancelled turn, or the one that it was to replace.
func (r *request) endPaused() *conversationpb.Message {
	paused := r.state.GetPaused()
	return r.end(paused, &conversationpb.TurnEnded{
		StopReason: conversationpb.StopReason_CANCELLED, Usage: paused.GetUsage(), TakenOver: r.takeover(),
	}, nil, r.cutAnswer(paused, conversationpb.StopReason_CANCELLED)).GetResponse()
}
