package conversation

import (
	"cmp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// delete ends the conversation with all that belongs to it. A running turn is stopped first and its report will find
// nothing; only_idle refuses it as busy instead. Nothing is kept of a conversation that is gone: a repeat of the command that
// finds none is taken for the second half of one that was carried out.
func (r *request) delete(c *conversationpb.Delete) (machine.Decision, *machine.Failure) {
	deleted := &conversationpb.Reply{Body: &conversationpb.Reply_Deleted{Deleted: &conversationpb.Deleted{}}}
	if r.state == nil && r.command.GetRepeated() {
		return machine.Decision{Reply: deleted}, nil // the first time has done it, and its answer was lost
	}
	if f := r.access(); f != nil {
		return machine.Decision{}, f
	}
	decision := machine.Decision{Delete: true, Reply: deleted}
	if c.GetOnlyIdle() {
		if f := r.atRest(); f != nil {
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
		{Key: run, Failure: failure.New(failurepb.Code_NOT_FOUND, failure.ConversationDeleted)},
		{Key: cancelKey(run), Reply: cancelledReply(&conversationpb.Cancelled{
			Cancelled: true, RunId: run, Settled: r.loud() == 0, State: deletedState(r.state),
		})},
	}
	return decision, nil
}

// atRest refuses a conversation in which a turn runs, or one of a background run is about to. One that waits for a person is
// at rest, whoever's turn it is.
func (r *request) atRest() *machine.Failure {
	if r.state.GetLease() == nil && r.state.GetStatus() == conversationpb.Status_WAITING {
		return nil
	}
	return cmp.Or(r.held(), r.notRunning())
}

// deletedState is what a cancel is told of a conversation that ended under it: idle, its turn cancelled.
func deletedState(s *conversationpb.State) *conversationpb.State {
	last := fork(s)
	last.Lease, last.Status, last.StopReason = nil, conversationpb.Status_IDLE, conversationpb.StopReason_CANCELLED
	return last
}
