package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// cancelTimeout says that a cancelled turn has not ended in time. First the cancel is answered settled: false; a
// turn that does not even report within the grace time is ended without its report, which will be refused.
func (r *request) cancelTimeout(c *conversationpb.CancelTimeout) (machine.Decision, *machine.Failure) {
	lease, run := r.state.GetLease(), c.GetRunId()
	if lease.GetRunId() != run || !lease.GetCancelling() {
		return machine.Decision{}, nil
	}
	if c.GetFinal() {
		decision := r.endNow(conversationpb.StopReason_CANCELLED, nil)
		decision.Urgent = []machine.Effect{StopTurn{RunID: run, Reason: CauseFenced}}
		return decision, nil
	}
	told := &conversationpb.Cancelled{Cancelled: true, RunId: run, State: r.state}
	return machine.Decision{Settle: []machine.Settlement{{Key: cancelKey(run), Reply: cancelledReply(told)}}}, nil
}
