package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	onReachPause = conversationpb.OnReachPause
	onReachStop  = conversationpb.OnReachStop
)

// checkBudget completes and checks a budget against what was spent and against what the agent can price.
func checkBudget(budget *conversationpb.Budget, spent int64, agent *agentpb.Agent) (*conversationpb.Budget, *machine.Failure) {
	onReach := budget.GetOnReach()
	if onReach == "" {
		onReach = onReachPause
	}
	if onReach != onReachPause && onReach != onReachStop {
		return nil, failure.New(failurepb.Code_INVALID_BUDGET, failure.BadOnReach).In("onReach")
	}
	limit := budget.GetMaxCostNanoUsd()
	if limit <= 0 {
		return nil, failure.New(failurepb.Code_INVALID_BUDGET, failure.NotPositive).In("maxCostUsd")
	}
	if limit <= spent {
		return nil, failure.New(failurepb.Code_INVALID_BUDGET, failure.BudgetAlreadySpent).In("maxCostUsd").
			With("spentUsd", money.USD(spent)).With("maxCostUsd", money.USD(limit))
	}
	if f := priced(agent); f != nil {
		return nil, f
	}
	return &conversationpb.Budget{MaxCostNanoUsd: limit, OnReach: onReach}, nil
}

// priced refuses an agent that cannot keep a budget. An agent that is not given is not judged.
func priced(agent *agentpb.Agent) *machine.Failure {
	if agent == nil || agent.GetModel().GetPrice() != nil {
		return nil
	}
	return failure.New(failurepb.Code_BUDGET_UNAVAILABLE, failure.ModelWithoutPrice)
}

// affordable refuses a new turn once the budget is used up (document 2, "Errors", 402): spent, or reached by a turn that
// found too little left for its next model call.
func (r *request) affordable(agent *agentpb.Agent) *machine.Failure {
	budget, spent := r.state.GetBudget(), r.state.GetSpentNanoUsd()
	if budget == nil {
		return nil
	}
	if limit := budget.GetMaxCostNanoUsd(); spent >= limit || r.state.GetReachedNanoUsd() >= limit {
		return failure.New(failurepb.Code_BUDGET_REACHED, failure.BudgetUsedUp).
			With("spentUsd", money.USD(spent)).
			With("maxCostUsd", money.USD(budget.GetMaxCostNanoUsd())).
			With("onReach", budget.GetOnReach())
	}
	return priced(agent)
}
