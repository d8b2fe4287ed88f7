package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// cancelTimeout handles a cancelled turn that has not ended in time. First the cancel is answered with settled: false; a turn that
// does not report within the grace time either is ended without its report, which is refused if it comes.
func (r *request) cancelTimeout(c *conversationpb.CancelTimeout) *machine.Failure {
	run := c.GetRunId()
	switch {
	case r.state.GetLease().GetRunId() != run:
		return r.tooLate(c)
	case c.GetFinal():
		r.Urgent(StopTurn{RunID: run, Reason: CauseFenced})
		r.endNow(conversationpb.StopReason_CANCELLED, nil)
		return nil
	}
	r.Settle(cancelKey(run), cancelledReply(&conversationpb.Cancelled{Cancelled: true, RunId: run, State: r.state}))
	return nil
}

// tooLate is a time-out of a turn that has ended, but whose former owner might still have been streaming. It answers the callers
// who waited for that to be over: TakeoverSilence has passed.
func (r *request) tooLate(c *conversationpb.CancelTimeout) *machine.Failure {
	run := c.GetRunId()
	if run == "" || c.GetFinal() || r.state.GetLease().GetRunId() == run {
		return nil
	}
	cancelled := c.GetCancelled() ||
		r.state.GetLastRunId() == run && r.state.GetStopReason() == conversationpb.StopReason_CANCELLED
	told := &conversationpb.Cancelled{Cancelled: cancelled, Settled: c.GetSilent(), State: r.state}
	if cancelled {
		told.RunId = run
	}
	r.Settle(cancelKey(run), cancelledReply(told))
	return nil
}
