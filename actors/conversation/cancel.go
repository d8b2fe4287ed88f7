package conversation

import (
	"cmp"
	"time"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// cancelAgain answers a repeated cancel. It refers to the run that was cancelled then, not to the one that is active now.
func (r *request) cancelAgain(first *conversationpb.Outcome, c *conversationpb.Cancel) *machine.Failure {
	run := first.GetRunId()
	switch {
	case run == "" || first.GetUserMessageId() != "", c.GetRunId() != "" && c.GetRunId() != run:
		return r.usedOtherwise()
	case r.state.GetLease().GetRunId() == run:
		return r.cancelRunning(c)
	}
	told := &conversationpb.Cancelled{Cancelled: !first.GetMissed(), State: r.state}
	if told.Cancelled {
		told.RunId = run
	}
	return r.whenSilent(c, run, told)
}

// ofTurn keeps a cancel that names a turn away from the ones that came after it: its sender had read the state before. A node of the
// release before cancels whichever turn is open, as it did for senders of its own release.
func ofTurn(rule rule[*conversationpb.Cancel]) rule[*conversationpb.Cancel] {
	return func(r *request, c *conversationpb.Cancel) *machine.Failure {
		open := cmp.Or(r.state.GetLease().GetRunId(), r.state.GetPaused().GetRunId())
		if meant := c.GetRunId(); meant != "" && meant != open {
			if q := r.queued(meant); q != nil {
				return r.dequeue(q)
			}
			return r.cancelNothing(c)
		}
		return rule(r, c)
	}
}

// cancelNothing answers a cancel of a conversation in which no turn is open, or not the one that is meant.
func (r *request) cancelNothing(c *conversationpb.Cancel) *machine.Failure {
	run := cmp.Or(c.GetRunId(), r.state.GetLastRunId())
	return r.whenSilent(c, run, &conversationpb.Cancelled{State: r.state})
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

// cancelRunning stops the running turn (document 2, "States": running, cancel). The runner is told before the append: stopping
// is always safe. Whether the cancel settled is answered when the runner reports, or when the settle time is over.
func (r *request) cancelRunning(c *conversationpb.Cancel) *machine.Failure {
	lease := r.state.GetLease()
	run := lease.GetRunId()
	r.Await(cancelKey(run))
	r.Effect(r.cancelTimer(r.settleWait(c), &conversationpb.CancelTimeout{RunId: run}))
	if lease.GetCancelling() {
		r.Urgent(StopTurn{RunID: run, Reason: CauseCancelled})
		return nil
	}
	r.stop(&conversationpb.CancelRequested{CommandId: r.Command.GetCommandId(), IssuedAt: r.Command.GetIssuedAt()})
	// The turn is stopped even when nothing can be written, say on a full disk: accepted, and not yet settled.
	r.Decision.IfUnwritten = cancelledReply(&conversationpb.Cancelled{Cancelled: true, RunId: run, State: r.state})
	return nil
}

// stop has the running turn end, with its report or without.
func (r *request) stop(why *conversationpb.CancelRequested) {
	run := r.state.GetLease().GetRunId()
	r.Urgent(StopTurn{RunID: run, Reason: CauseCancelled})
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_CancelRequested{CancelRequested: why}})
	final := r.cancelTimer(r.limits.CancelGrace, &conversationpb.CancelTimeout{RunId: run, Final: true})
	final.Key = finalTimer
	r.Effect(final)
}

// finalTimer ends a cancelled turn that does not report. There is one turn at a time, so an older timer has nothing to say.
const finalTimer = "cancel/final"

func (r *request) cancelTimer(after time.Duration, timeout *conversationpb.CancelTimeout) machine.Timer {
	return machine.Timer{After: after, Command: &conversationpb.Command{
		ConversationId: r.state.GetId(),
		Body:           &conversationpb.Command_CancelTimeout{CancelTimeout: timeout},
	}}
}

// cancelWaiting ends a paused turn and cancels its pending actions. No runner is at work, so the cancel settles with the append,
// unless a former owner of the run may still be streaming.
func (r *request) cancelWaiting(c *conversationpb.Cancel) *machine.Failure {
	run, pending := r.state.GetPaused().GetRunId(), r.state.GetPending()
	for i, action := range pending {
		closed := &conversationpb.ActionClosed{By: r.by()}
		if i == len(pending)-1 { // the cancel is remembered with the last one
			closed.CommandId, closed.IssuedAt = r.Command.GetCommandId(), r.Command.GetIssuedAt()
		}
		r.close(action, conversationpb.HowCancelled, closed)
	}
	r.endPaused()
	r.next()
	return r.whenSilent(c, run, &conversationpb.Cancelled{
		Cancelled: true, RunId: run, CancelledActionIds: pendingIDs(r.state), State: r.State(),
	})
}
