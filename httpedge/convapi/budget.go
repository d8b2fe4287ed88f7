package convapi

import (
	"context"

	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// mayBudget has a new conversation's budget permitted where it is above what the agent gives by itself.
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

// mayChangeBudget has a change permitted after which the conversation may cost more: a higher budget, or none any
// more. To give one to a conversation that had none only limits it.
func (a *API) mayChangeBudget(ctx context.Context, state *conversationpb.State, change budgetInput) error {
	from, to := state.GetBudget(), change.budget
	if a.authorizer == nil || !change.Set || from == nil || to != nil && to.GetMaxCostNanoUsd() <= from.GetMaxCostNanoUsd() {
		return nil
	}
	return a.authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		From: from, To: to, SpentNanoUSD: state.GetSpentNanoUsd(),
	})
}
