package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// recover settles a turn that was under way when the conversation was loaded. The lease says whose it is:
//
//   - of an earlier epoch: its owner is gone, or fenced. The turn is started again, with the same run id and its model
//     call repeated; one that was cancelled ends cancelled; one whose attempts ended with their processes too often, or
//     that was started too often for any reason, ends as interrupted. A runner of the earlier epoch may still be at work
//     in this very process, if it lost the shard and got it back: it is stopped first, and its report would be refused.
//   - of this epoch: this process wrote it, so only the activation was reloaded (an append whose outcome was not known,
//     say) and the runner may still be at work. Nothing is stored: the shell starts it if the runner has lost it. A
//     cancelled one is stopped and ended at once, because its timers are gone with the old activation.
//   - of a later epoch: this node no longer owns the shard. Nothing it could append would be taken.
func (r *request) recover(c *conversationpb.Recover) *machine.Failure {
	lease := r.state.GetLease()
	switch {
	case lease.GetEpoch() > r.Env.Epoch:
		return nil
	case lease.GetEpoch() < r.Env.Epoch:
		if refused := r.recoverPushes(c); refused != nil {
			return refused
		}
	}
	stop := StopTurn{RunID: lease.GetRunId(), Reason: CauseFenced}
	if lease.GetCancelling() {
		r.Urgent(stop)
		r.endNow(conversationpb.StopReason_CANCELLED, nil)
		return nil
	}
	if lease.GetEpoch() == r.Env.Epoch {
		resume := ResumeTurn{startTurn(r.state, lease, lease.GetUserMessage())}
		r.Effect(resume)
		return nil
	}
	r.Urgent(stop)
	attempt, deaths := lease.GetAttempt()+1, r.deaths(lease)
	if int64(deaths) >= int64(r.limits.Attempts) || int64(attempt) > maxStarts*int64(r.limits.Attempts) {
		r.endNow(conversationpb.StopReason_ERROR, &conversationpb.TurnError{
			Code:    errorInterrupted,
			Message: "The server was interrupted too often while it answered.",
		})
		return nil
	}
	r.emit(lease.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_TurnRecovered{
		TurnRecovered: &conversationpb.TurnRecovered{Node: r.Env.Node, Epoch: r.Env.Epoch, Attempt: attempt, Deaths: deaths},
	}})
	r.settled(lease.GetRunId(), lostCall(lease))
	after := r.State()
	start := startTurn(after, after.GetLease(), after.GetLease().GetUserMessage())
	r.Effect(start)
	return nil
}
