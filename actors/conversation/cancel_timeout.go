package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// cancelTimeout says that a cancelled turn has not ended in time, or that it has ended but a former owner of it might
// still be heard. First the cancel is answered settled: false; a turn that does not even report within the grace time is
// ended without its report, which will be refused. Of a run that has ended only those are left to be answered who wait
// for the silence of a former owner: that is the case by now, or they would not wait any longer.
func (r *request) cancelTimeout(c *conversationpb.CancelTimeout) (machine.Decision, *machine.Failure) {
	lease, run := r.state.GetLease(), c.GetRunId()
	running := run != "" && lease.GetRunId() == run
	if run == "" || c.GetFinal() && !running || running && !lease.GetCancelling() {
		return machine.Decision{}, nil
	}
	if !running {
		cancelled := c.GetCancelled() ||
			r.state.GetLastRunId() == run && r.state.GetStopReason() == conversationpb.StopReason_CANCELLED
		told := &conversationpb.Cancelled{Cancelled: cancelled, Settled: c.GetSilent(), State: r.state}
		if cancelled {
			told.RunId = run
		}
		return machine.Decision{Settle: []machine.Settlement{{Key: cancelKey(run), Reply: cancelledReply(told)}}}, nil
	}
	if c.GetFinal() {
		decision := r.endNow(conversationpb.StopReason_CANCELLED, nil)
		decision.Urgent = []machine.Effect{StopTurn{RunID: run, Reason: CauseFenced}}
		return decision, nil
	}
	told := &conversationpb.Cancelled{Cancelled: true, RunId: run, State: r.state}
	return machine.Decision{Settle: []machine.Settlement{{Key: cancelKey(run), Reply: cancelledReply(told)}}}, nil
}
