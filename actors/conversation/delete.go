package conversation

import (
	"cmp"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// delete ends the conversation with all that belongs to it. A running turn is stopped first and its report will find
// nothing; only_idle, the rule of bulk delete, refuses it as busy instead, and one that a background run holds, too.
func (r *request) delete(c *conversationpb.Delete) (machine.Decision, *machine.Failure) {
	if f := r.access(); f != nil {
		return machine.Decision{}, f
	}
	decision := machine.Decision{
		Delete: true,
		Reply:  &conversationpb.Reply{Body: &conversationpb.Reply_Deleted{Deleted: &conversationpb.Deleted{}}},
	}
	if c.GetOnlyIdle() {
		if f := cmp.Or(r.held(), r.notRunning()); f != nil {
			return machine.Decision{}, f
		}
	}
	lease := r.state.GetLease()
	if lease == nil {
		return decision, nil
	}
	run := lease.GetRunId()
	decision.Urgent = []machine.Effect{StopTurn{RunID: run, Reason: CauseDeleted}}
	decision.Settle = []machine.Settlement{
		{Key: run, Failure: machine.Fail(failurepb.Code_NOT_FOUND, "conversation was deleted")},
		{Key: cancelKey(run), Reply: cancelledReply(&conversationpb.Cancelled{
			Cancelled: true, RunId: run, Settled: r.loud() == 0, State: deletedState(r.state),
		})},
	}
	return decision, nil
}

// deletedState is what a cancel is told of a conversation that ended under it: idle, its turn cancelled.
func deletedState(s *conversationpb.State) *conversationpb.State {
	last := fork(s)
	last.Lease, last.Status, last.StopReason = nil, conversationpb.Status_IDLE, conversationpb.StopReason_CANCELLED
	return last
}
