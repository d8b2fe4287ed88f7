package handler

import (
	"context"
	"slices"

	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// mayBudget asks the authorizer for a new session's budget that is above the agent's own.
func (a *API) mayBudget(ctx context.Context, id string, agent *agentpb.Agent, budget *BudgetInput) error {
	given := agent.GetDefaultBudget()
	raised := budget.Null || budget.Budget != nil && budget.Budget.GetMaxCostNanoUsd() > given.GetMaxCostNanoUsd()
	if a.Authorizer == nil || given == nil || !raised {
		return nil
	}
	return SessionFailure(a.Authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: id, AgentID: agent.GetId(), OwnerID: callerOf(ctx).GetUserId(),
		From: &conversationpb.Budget{MaxCostNanoUsd: given.GetMaxCostNanoUsd(), OnReach: given.GetOnReach()}, To: budget.Budget,
	}))
}

// MayChangeBudget asks the authorizer for a change that lets the session cost more: a higher budget, or its removal.
func (a *API) MayChangeBudget(ctx context.Context, state *conversationpb.State, to *conversationpb.Budget) error {
	from := state.GetBudget()
	if a.Authorizer == nil || from == nil || to != nil && to.GetMaxCostNanoUsd() <= from.GetMaxCostNanoUsd() {
		return nil
	}
	return SessionFailure(a.Authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		From: from, To: to, SpentNanoUSD: state.GetSpentNanoUsd(),
	}))
}

// MayResolve asks the authorizer for a decision about a pending action.
func (a *API) MayResolve(ctx context.Context, state *conversationpb.State, resolve *conversationpb.Resolve) error {
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
	return SessionFailure(a.Authorizer.AuthorizeResolve(ctx, decision))
}
