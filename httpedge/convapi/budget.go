package convapi

import (
	"context"

	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// mayBudget asks the Authorizer to permit a new conversation's budget when it exceeds the agent's default.
func (a *API) mayBudget(
	ctx context.Context, command *conversationpb.Command, agent *agentpb.Agent, budget *conversationpb.Budget,
) error {
	given := agent.GetDefaultBudget()
	if a.authorizer == nil || given == nil || budget == nil || budget.GetMaxCostNanoUsd() <= given.GetMaxCostNanoUsd() {
		return nil
	}
	return a.authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: command.GetConversationId(), AgentID: agent.GetId(), OwnerID: command.GetCaller().GetUserId(),
		From: &conversationpb.Budget{MaxCostNanoUsd: given.GetMaxCostNanoUsd(), OnReach: given.GetOnReach()}, To: budget,
	})
}

// mayChangeBudget asks the Authorizer to permit a change that lets the conversation cost more: a higher budget, or its removal.
// A budget for a conversation without one only limits it and needs no permission.
func (a *API) mayChangeBudget(ctx context.Context, state *conversationpb.State, change body.BudgetInput) error {
	from, to := state.GetBudget(), change.Budget
	if a.authorizer == nil || !change.Set || from == nil || to != nil && to.GetMaxCostNanoUsd() <= from.GetMaxCostNanoUsd() {
		return nil
	}
	return a.authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		From: from, To: to, SpentNanoUSD: state.GetSpentNanoUsd(),
	})
}
