package conversation

import (
	"time"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// cancel stops the running turn, or gives up what a person should decide (document 2, "States": running, cancel).
// The runner is told before the append: stopping is always safe. Whether the cancel settled is answered when the
// runner reports, or when the settle time is over.
func (r *request) cancel(c *conversationpb.Cancel) (machine.Decision, *machine.Failure) {
	first, f := r.admit()
	switch {
	case f != nil:
		return machine.Decision{}, f
	case first != nil:
		return r.repeatCancel(first, c)
	}
	if r.state.GetLease() != nil {
		return r.cancelRunning(c), nil
	}
	if r.state.GetStatus() == conversationpb.Status_WAITING {
		return r.cancelWaiting(c), nil
	}
	return r.whenSilent(c, r.state.GetLastRunId(), &conversationpb.Cancelled{State: r.state}), nil
}

// repeatCancel answers a cancel that came before. It is about the run that was cancelled then, whatever runs now.
func (r *request) repeatCancel(first *conversationpb.Outcome, c *conversationpb.Cancel) (machine.Decision, *machine.Failure) {
	run := first.GetRunId()
	switch {
	case run == "" || first.GetUserMessageId() != "":
		return r.usedOtherwise()
	case r.state.GetLease().GetRunId() == run:
		return r.cancelRunning(c), nil
	}
	told := &conversationpb.Cancelled{Cancelled: !first.GetMissed(), State: r.state}
	if told.Cancelled {
		told.RunId = run
	}
	return r.whenSilent(c, run, told), nil
}

// settleWait is how long a cancel waits to be settled.
func (r *request) settleWait(c *conversationpb.Cancel) time.Duration {
	switch asked := c.GetSettleWaitMs(); {
	case asked <= 0:
		return r.limits.SettleWait
	case asked > r.limits.MaxSettleWait.Milliseconds():
		return r.limits.MaxSettleWait
	default:
		return time.Duration(asked) * time.Millisecond
	}
}

func (r *request) cancelRunning(c *conversationpb.Cancel) machine.Decision {
	lease := r.state.GetLease()
	run := lease.GetRunId()
	decision := machine.Decision{
		Urgent: []machine.Effect{StopTurn{RunID: run, Reason: CauseCancelled}},
		Wait:   cancelKey(run),
	}
	decision.Effects = append(decision.Effects, r.cancelTimer(r.settleWait(c), &conversationpb.CancelTimeout{RunId: run}))
	if lease.GetCancelling() {
		return decision
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_CancelRequested{
		CancelRequested: &conversationpb.CancelRequested{CommandId: r.command.GetCommandId(), IssuedAt: r.command.GetIssuedAt()},
	}})
	decision.Events = r.events
	// The turn is stopped even when nothing can be written, say on a full disk: accepted, and not yet settled.
	decision.IfUnwritten = cancelledReply(&conversationpb.Cancelled{Cancelled: true, RunId: run, State: r.state})
	final := r.cancelTimer(r.limits.CancelGrace, &conversationpb.CancelTimeout{RunId: run, Final: true})
	final.Key = finalTimer
	decision.Effects = append(decision.Effects, final)
	return decision
}

// finalTimer ends a cancelled turn that does not report. There is one turn at a time, so an older timer has nothing to say.
const finalTimer = "cancel/final"

func (r *request) cancelTimer(after time.Duration, timeout *conversationpb.CancelTimeout) machine.Timer {
	return machine.Timer{After: after, Command: &conversationpb.Command{
		ConversationId: r.state.GetId(),
		Body:           &conversationpb.Command_CancelTimeout{CancelTimeout: timeout},
	}}
}

// cancelWaiting ends a paused turn. No runner is at work, so it is settled with the append, unless a former owner of the
// run may still be heard.
func (r *request) cancelWaiting(c *conversationpb.Cancel) machine.Decision {
	run, pending := r.state.GetPaused().GetRunId(), r.state.GetPending()
	for i, action := range pending {
		closed := &conversationpb.ActionClosed{By: r.by()}
		if i == len(pending)-1 { // the cancel is remembered with the last one
			closed.CommandId, closed.IssuedAt = r.command.GetCommandId(), r.command.GetIssuedAt()
		}
		r.close(action, conversationpb.HowCancelled, closed)
	}
	r.endPaused()
	decision := r.whenSilent(c, run, &conversationpb.Cancelled{
		Cancelled: true, RunId: run, CancelledActionIds: pendingIDs(r.state), State: r.after(),
	})
	decision.Events = r.events
	return decision
}
