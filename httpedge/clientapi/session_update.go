package clientapi

import (
	"context"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// updateSession changes a session's budget, and has one that the budget paused go on as a background run. Whether that can be
// is looked at first: when it cannot, nothing is changed. These are two commands, the budget first: what is cut off between them is
// a session with its new budget that is still paused, and the same request again changes nothing and resumes it.
func (a *API) updateSession(ctx context.Context, in *updateSessionIn) (*updatedSession, error) {
	state, err := a.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	agent := a.knownAgent(state)
	if failure := in.Budget.may(agent); failure != nil {
		return nil, failure
	}
	if err = a.mayChangeBudget(ctx, state, in.Budget.budget); err != nil {
		return nil, err
	}
	resumes := false
	if in.Resume == nil || *in.Resume {
		if resumes, err = a.mayResume(ctx, state, in.Budget.budget); err != nil {
			return nil, err
		}
	}
	patch := &conversationpb.Patch{Budget: in.Budget.budget, RemoveBudget: in.Budget.Null}
	sealed, err := a.seal(in.ID, in.RuntimeContext)
	if err != nil {
		return nil, err
	}
	if sealed != nil {
		patch.RuntimeContext = sealed
	}
	command := a.command(ctx, in.ID, "update")
	command.Body = &conversationpb.Command_Update{Update: &conversationpb.Update{Agent: pricing(agent), Patch: patch}}
	reply, err := a.askUntilSettled(ctx, command)
	if err != nil {
		return nil, err
	}
	state = reply.GetState()
	if !resumes {
		return &updatedSession{session: &sessionRecord{state}}, nil
	}
	return a.resume(ctx, state)
}

// mayResume says whether a session is paused by its budget, and refuses one that could not go on: a run is queued or running
// on it (one that waits for a person is neither), the budget is still too low, or its agent may not run in the background.
func (a *API) mayResume(ctx context.Context, state *conversationpb.State, budget *conversationpb.Budget) (bool, error) {
	status, run := state.RuntimeStatus(), state.GetBackgroundRun()
	switch {
	case status == conversationpb.RuntimeRequiresAction:
		return false, nil
	case run != "":
		return false, runConflict(run)
	case status != conversationpb.RuntimeBudgetPaused:
		return false, nil
	}
	if failure := aboveSpent(budget, state); failure != nil {
		return false, failure
	}
	agent, err := a.agentOf(ctx, state)
	if err != nil {
		return false, err
	}
	if !agent.GetBackground() {
		return false, backgroundDisabled()
	}
	return true, nil
}

// resume has a session go on where its budget cut it.
func (a *API) resume(ctx context.Context, state *conversationpb.State) (*updatedSession, error) {
	reply, err := a.newRun(ctx, state.GetId(), &runpb.Create{
		AgentId: state.GetAgentId(), AgentVersion: state.GetPaused().GetAgentVersion(), ConversationId: state.GetId(),
		Order: &runpb.Order{Continues: true},
	})
	if isCode(err, failurepb.Code_NOTHING_TO_CONTINUE) || isCode(err, failurepb.Code_BUDGET_REACHED) {
		return &updatedSession{session: &sessionRecord{state}}, nil // somebody else went on with it, or it is still too little
	}
	if err != nil {
		return nil, err
	}
	return &updatedSession{run: newRunRecord(reply)}, nil
}

// aboveSpent refuses, before anything is changed, a budget that the rules would refuse.
func aboveSpent(budget *conversationpb.Budget, state *conversationpb.State) *machine.Failure {
	if budget == nil || budget.GetMaxCostNanoUsd() > state.GetSpentNanoUsd() {
		return nil
	}
	return badBudget("max_cost_usd must be above what was spent")
}

// pricing is the part of an agent that the rules of budgets read. The rest, which holds secrets, does not leave the process. The
// agent's switches apply to users of the conversation server only.
func pricing(agent *agentpb.Agent) *agentpb.Agent {
	if agent == nil {
		return nil
	}
	return &agentpb.Agent{Id: agent.GetId(), Model: &agentpb.Model{Price: agent.GetModel().GetPrice()}}
}

func runConflict(run string) *machine.Failure {
	return machine.Fail(failurepb.Code_AGENT_RUN_CONFLICT, "a run is active on the session").With("active_run_id", run)
}

func backgroundDisabled() *machine.Failure {
	return machine.Fail(failurepb.Code_AGENT_BACKGROUND_DISABLED, "background execution is not enabled for this agent")
}

// updatedSession is a session, or the run that goes on with it.
type updatedSession struct {
	session *sessionRecord
	run     *runRecord
}

// HTTPStatus implements endpoint.Statuser.
func (u *updatedSession) HTTPStatus() int {
	if u.run != nil {
		return statusAccepted
	}
	return statusOK
}

// AppendJSON implements endpoint.Appender.
func (u *updatedSession) AppendJSON(dst []byte) []byte {
	if u.run != nil {
		return u.run.AppendJSON(dst)
	}
	return u.session.AppendJSON(dst)
}

// Described implements openapi.Described.
func (u *updatedSession) Described() (value any, nullable bool) { return sessionSchema{}, false }

var _ endpoint.Appender = (*updatedSession)(nil)
