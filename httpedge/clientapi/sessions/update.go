package sessions

import (
	"context"
	"net/http"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// updateSession changes a session's budget, and has one that the budget paused go on as a background run. Whether that can be
// is looked at first: when it cannot, nothing is changed. These are two commands, the budget first: what is cut off between them is
// a session with its new budget that is still paused, and the same request again changes nothing and resumes it.
func (a *api) updateSession(ctx context.Context, in *updateSessionIn) (*updatedSession, error) {
	state, err := a.Session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	agent := a.KnownAgent(state)
	if refused := in.Budget.May(agent); refused != nil {
		return nil, refused
	}
	if err = a.MayChangeBudget(ctx, state, in.Budget.Budget); err != nil {
		return nil, err
	}
	resumes := false
	if in.Resume == nil || *in.Resume {
		if resumes, err = a.mayResume(ctx, state, in.Budget.Budget); err != nil {
			return nil, err
		}
	}
	patch := &conversationpb.Patch{Budget: in.Budget.Budget, RemoveBudget: in.Budget.Null}
	sealed, err := a.Seal(in.ID, in.RuntimeContext)
	if err != nil {
		return nil, err
	}
	if sealed != nil {
		patch.RuntimeContext = sealed
	}
	command := a.Command(ctx, in.ID, "update")
	command.Body = &conversationpb.Command_Update{Update: &conversationpb.Update{Agent: handler.Pricing(agent), Patch: patch}}
	reply, err := a.AskUntilSettled(ctx, command)
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
func (a *api) mayResume(ctx context.Context, state *conversationpb.State, budget *conversationpb.Budget) (bool, error) {
	status, run := state.RuntimeStatus(), state.GetBackgroundRun()
	switch {
	case status == conversationpb.RuntimeRequiresAction:
		return false, nil
	case run != "":
		return false, runConflict(run)
	case status != conversationpb.RuntimeBudgetPaused:
		return false, nil
	}
	if refused := aboveSpent(budget, state); refused != nil {
		return false, refused
	}
	agent, err := a.AgentOf(ctx, state)
	if err != nil {
		return false, err
	}
	if !agent.GetBackground() {
		return false, handler.BackgroundDisabled()
	}
	return true, nil
}

// resume has a session go on where its budget cut it.
func (a *api) resume(ctx context.Context, state *conversationpb.State) (*updatedSession, error) {
	reply, err := a.NewRun(ctx, state.GetId(), &runpb.Create{
		AgentId: state.GetAgentId(), AgentVersion: state.GetPaused().GetAgentVersion(), ConversationId: state.GetId(),
		Order: &runpb.Order{Continues: true},
	})
	if handler.IsCode(err, failurepb.Code_NOTHING_TO_CONTINUE) || handler.IsCode(err, failurepb.Code_BUDGET_REACHED) {
		return &updatedSession{session: &sessionRecord{state}}, nil // somebody else went on with it, or it is still too little
	}
	if err != nil {
		return nil, err
	}
	return &updatedSession{run: render.NewRun(reply)}, nil
}

// aboveSpent refuses, before anything is changed, a budget that the rules would refuse.
func aboveSpent(budget *conversationpb.Budget, state *conversationpb.State) *failure.Failure {
	if budget == nil || budget.GetMaxCostNanoUsd() > state.GetSpentNanoUsd() {
		return nil
	}
	return handler.BadBudget(failure.BudgetAlreadySpent).In("maxCostUsd")
}

func runConflict(run string) *failure.Failure {
	return failure.New(failurepb.Code_AGENT_RUN_CONFLICT, failure.RunActive).With("active_run_id", run)
}

// updatedSession is a session, or the run that goes on with it.
type updatedSession struct {
	session *sessionRecord
	run     *render.Run
}

// HTTPStatus implements endpoint.Statuser.
func (u *updatedSession) HTTPStatus() int {
	if u.run != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (u *updatedSession) AppendJSON(dst []byte) []byte {
	if u.run != nil {
		return u.run.AppendJSON(dst)
	}
	return u.session.AppendJSON(dst)
}

// Described implements openapi.Described.
func (u *updatedSession) Described() (value any, nullable bool) { return u.session.Described() }

var _ endpoint.Appender = (*updatedSession)(nil)
