package clientapi

import (
	"context"
	"slices"

	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// mayBudget has a new session's budget permitted where it is above what the agent gives by itself.
func (a *API) mayBudget(ctx context.Context, id string, agent *agentpb.Agent, budget *budgetInput) error {
	given := agent.GetDefaultBudget()
	raised := budget.Null || budget.budget != nil && budget.budget.GetMaxCostNanoUsd() > given.GetMaxCostNanoUsd()
	if a.Authorizer == nil || given == nil || !raised {
		return nil
	}
	return sessionFailure(a.Authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: id, AgentID: agent.GetId(), OwnerID: callerOf(ctx).GetUserId(),
		From: &conversationpb.Budget{MaxCostNanoUsd: given.GetMaxCostNanoUsd(), OnReach: given.GetOnReach()}, To: budget.budget,
	}))
}

// mayChangeBudget has a change permitted after which the session may cost more: a higher budget, or none any more.
func (a *API) mayChangeBudget(ctx context.Context, state *conversationpb.State, to *conversationpb.Budget) error {
	from := state.GetBudget()
	if a.Authorizer == nil || from == nil || to != nil && to.GetMaxCostNanoUsd() <= from.GetMaxCostNanoUsd() {
		return nil
	}
	return sessionFailure(a.Authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		From: from, To: to, SpentNanoUSD: state.GetSpentNanoUsd(),
	}))
}

func (a *API) mayResolve(ctx context.Context, state *conversationpb.State, resolve *conversationpb.Resolve) error {
	if a.Authorizer == nil {
		return nil
	}
	decision := &endpoint.ActionDecision{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		ActionID: resolve.GetActionId(), Resolution: resolve,
	}
	at := slices.IndexFunc(state.GetPending(), func(p *conversationpb.PendingAction) bool { return p.GetId() == resolve.GetActionId() })
	if at >= 0 {
		decision.Action = state.GetPending()[at]
	}
	return sessionFailure(a.Authorizer.AuthorizeResolve(ctx, decision))
}
