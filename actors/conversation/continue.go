package conversation

import (
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// continueTurn goes on with a turn that the budget cut (document 2, "States": budget-stopped, continue).
func (r *request) continueTurn(c *conversationpb.Continue) (machine.Decision, *machine.Failure) {
	first, f := r.admit()
	switch {
	case f != nil:
		return machine.Decision{}, f
	case first != nil:
		return r.repeatResumed(first, c.GetWait())
	}
	if r.state.GetStatus() == conversationpb.Status_WAITING {
		return machine.Decision{}, r.actionPending()
	}
	if f := r.notRunning(); f != nil {
		return machine.Decision{}, f
	}
	if !r.state.GetContinuable() || r.state.GetPaused() == nil {
		return refuse(failurepb.Code_NOTHING_TO_CONTINUE, "no turn waits to be continued")
	}
	if f := r.affordable(c.GetAgent()); f != nil {
		return machine.Decision{}, f
	}
	before := r.state.GetLastSeq()
	return r.awaited(r.resume(conversationpb.Mode_CONTINUE, before, r.command), c.GetWait(), before), nil
}
