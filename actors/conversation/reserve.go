package conversation

import (
	"parley/actors/core/money"
	"parley/proto/conversationpb"
)

// reserve grants money to the model call under way, in all as much as it asks for or as the budget has left. What was
// granted before is not taken back. Without a budget there is nothing to grant: the call may cost what it costs.
func (r *request) reserve(asked *conversationpb.Reserve) {
	lease, budget, spent := r.state.GetLease(), r.state.GetBudget(), r.state.GetSpentNanoUsd()
	progressed := &conversationpb.Progressed{Steps: lease.GetSteps(), Calls: lease.GetCalls()}
	r.Decision.Reply = &conversationpb.Reply{Body: &conversationpb.Reply_Progressed{Progressed: progressed}}
	if budget == nil {
		progressed.Unlimited = true
		return
	}
	left := max(0, budget.GetMaxCostNanoUsd()-spent)
	progressed.LeftNanoUsd, progressed.LimitNanoUsd = left, budget.GetMaxCostNanoUsd()
	progressed.GrantedNanoUsd = max(lease.GetReservedNanoUsd(), min(asked.GetUptoNanoUsd(), left))
	if progressed.GetGrantedNanoUsd() > lease.GetReservedNanoUsd() {
		r.emit(lease.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_Reserved{Reserved: &conversationpb.Reserved{
			ReservedNanoUsd: progressed.GetGrantedNanoUsd(), SpentNanoUsd: spent,
		}}})
	}
}

// settled tells in the log what model calls with a price came to. The event that brought them has charged them.
func (r *request) settled(run string, usage *conversationpb.Usage) {
	if !usage.GetPriced() {
		return
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_SessionUsage{SessionUsage: &conversationpb.SessionUsage{
		Usage: usage, SpentNanoUsd: money.Add(r.state.GetSpentNanoUsd(), usage.GetCostNanoUsd()),
		TurnCostNanoUsd: money.Add(turnOf(r.state).GetUsage().GetCostNanoUsd(), usage.GetCostNanoUsd()),
	}}})
}

// reached tells in the log that the budget is used up: it is spent, or the turn found too little left of it. What a turn
// found of a budget that was raised since says nothing of the one in force.
func (r *request) reached(run string, reason conversationpb.StopReason, spent int64) {
	budget := r.state.GetBudget()
	short := reason == conversationpb.StopReason_BUDGET_REACHED && (r.limit == 0 || r.limit >= budget.GetMaxCostNanoUsd())
	if budget == nil || !short && spent < budget.GetMaxCostNanoUsd() {
		return
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_BudgetReached{
		BudgetReached: &conversationpb.BudgetReached{SpentNanoUsd: spent, Budget: budget},
	}})
}
