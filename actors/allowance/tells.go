package allowance

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/actors/core/quota"
	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/proto/allowancepb"
)

// alertData is what webhooks are told when what was spent under a policy comes to a threshold.
type alertData struct {
	PolicyID  string  `json:"policyId"`
	Window    string  `json:"window"`    // perDay, perMonth
	Threshold float64 `json:"threshold"` // as the policy says it
	SpentUSD  float64 `json:"spentUsd"`
	LimitUSD  float64 `json:"limitUsd"`
}

// tells says what webhooks may be told of a change: the thresholds of budgets that what a call cost went beyond. It is derived from the
// amounts before and after, and told with the append that changes them: once in a window, whoever spends on whichever node.
func tells(before, after proto.Message, events []proto.Message) (notices []kit.Notice) {
	was, _ := before.(*allowancepb.State)
	is, _ := after.(*allowancepb.State)
	for _, message := range events {
		event, _ := message.(*allowancepb.Event)
		settled := event.GetSettled()
		at := find(was.GetRunning(), settled.GetId())
		if settled.GetCost() <= 0 || at < 0 {
			continue // one that waited, or did not cost anything
		}
		call, now := was.GetRunning()[at], event.GetCreatedAt()
		for _, limit := range call.GetCaps() {
			if len(limit.GetAlerts()) == 0 {
				continue
			}
			spent := quota.Used(is, limit, now)
			for _, threshold := range quota.Crossed(limit, quota.Used(was, limit, now), spent) {
				notices = append(notices, kit.Notice{
					TenantID: call.GetTenantId(), ProjectID: limit.GetProjectId(), Type: subscription.BudgetAlert, About: limit.GetPolicy(), At: now,
					Data: alertData{limit.GetPolicy(), windowText(limit.GetUnit()), threshold, money.USD(spent), money.USD(limit.GetMost())},
				})
			}
		}
	}
	return notices
}

func windowText(unit allowancepb.Unit) string {
	if unit == allowancepb.Unit_MONTH {
		return "perMonth"
	}
	return "perDay"
}
