package conversation

import (
	"cmp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// delete ends the conversation with all that belongs to it. A running turn is stopped first, and its report is
// dropped; with only_idle a running turn refuses the command as busy.
func (r *request) delete(c *conversationpb.Delete) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	if c.GetOnlyIdle() {
		if f := r.atRest(); f != nil {
			return f
		}
	}
	r.Remove()
	for _, q := range r.state.GetQueue() {
		r.SettleRefused(q.GetMessage().GetRunId(), failure.New(failurepb.Code_NOT_FOUND, failure.ConversationDeleted))
	}
	if lease := r.state.GetLease(); lease != nil {
		run := lease.GetRunId()
		r.Urgent(StopTurn{RunID: run, Reason: CauseDeleted})
		r.SettleRefused(run, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationDeleted))
		r.Settle(cancelKey(run), cancelledReply(&conversationpb.Cancelled{
			Cancelled: true, RunId: run, Settled: r.loud() == 0, State: deletedState(r.state),
		}))
	}
	return r.reply(deletedReply())
}

// deleteAgain handles delete for a conversation that does not exist. Nothing is kept of a deleted one, so the command is taken for
// a repeat of the one that deleted it.
func (r *request) deleteAgain(*conversationpb.Delete) *machine.Failure {
	if !r.Command.GetRepeated() {
		return conversationNotFound()
	}
	return r.reply(deletedReply())
}

func deletedReply() *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_Deleted{Deleted: &conversationpb.Deleted{}}}
}

// atRest refuses a conversation in which a turn runs, or one of a background run is about to. One that waits for a person is
// at rest, whoever's turn it is.
func (r *request) atRest() *machine.Failure {
	if r.state.GetLease() == nil && r.state.GetStatus() == conversationpb.Status_WAITING {
		return nil
	}
	return cmp.Or(r.held(), r.notRunning())
}

// deletedState answers a cancel whose conversation was deleted meanwhile: idle, the turn cancelled.
func deletedState(s *conversationpb.State) *conversationpb.State {
	last := fork(s)
	last.Lease, last.Status, last.StopReason = nil, conversationpb.Status_IDLE, conversationpb.StopReason_CANCELLED
	return last
}
