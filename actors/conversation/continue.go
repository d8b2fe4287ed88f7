package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// continueTurn resumes a turn that the budget cut (document 2, "States": budget-stopped, continue).
func (r *request) continueTurn(c *conversationpb.Continue) *machine.Failure {
	if f := r.unheld(); f != nil {
		return f
	}
	if f := r.continuable(c.GetAgent()); f != nil {
		return f
	}
	if f := r.checkContext(r.Command.GetRuntimeContext()); f != nil {
		return f
	}
	before := r.state.GetLastSeq()
	r.resume(conversationpb.Mode_CONTINUE, before, r.Command)
	r.awaited(c.GetWait(), before)
	return nil
}

// continuable refuses when there is no turn to resume.
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
