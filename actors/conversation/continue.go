package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/agentpb"
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
	if f := r.unheld(); f != nil {
		return machine.Decision{}, f
	}
	if f := r.continuable(c.GetAgent()); f != nil {
		return machine.Decision{}, f
	}
	if f := r.checkContext(r.command.GetRuntimeContext()); f != nil {
		return machine.Decision{}, f
	}
	before := r.state.GetLastSeq()
	return r.awaited(r.resume(conversationpb.Mode_CONTINUE, before, r.command), c.GetWait(), before), nil
}

// continuable refuses where nothing can be gone on with.
func (r *request) continuable(agent *agentpb.Agent) *machine.Failure {
	if r.state.GetStatus() == conversationpb.Status_WAITING {
		return r.actionPending()
	}
	if f := r.notRunning(); f != nil {
		return f
	}
	if !r.state.GetContinuable() || r.state.GetPaused() == nil {
		return failure.New(failurepb.Code_NOTHING_TO_CONTINUE, failure.NothingToContinue)
	}
	return r.affordable(agent)
}
