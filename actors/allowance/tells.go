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
	told := map[string]bool{}
	for _, message := range events {
		event, _ := message.(*allowancepb.Event)
		now := event.GetCreatedAt()
		for _, call := range paid(was, event) {
			for _, limit := range call.GetCaps() {
				window := limit.GetPolicy() + " " + windowText(limit.GetUnit())
				if len(limit.GetAlerts()) == 0 || told[window] {
					continue
				}
				told[window] = true
				spent := quota.Used(is, limit, now)
				for _, threshold := range quota.Crossed(limit, quota.Used(was, limit, now), spent) {
					notices = append(notices, kit.Notice{
						TenantID: call.GetTenantId(), ProjectID: limit.GetProjectId(), Type: subscription.BudgetAlert, About: limit.GetPolicy(), At: now,
						Data: alertData{limit.GetPolicy(), windowText(limit.GetUnit()), threshold, money.USD(spent), money.USD(limit.GetMost())},
					})
				}
			}
		}
	}
	return notices
}

// paid are the calls of which an event counts what they cost.
func paid(was *allowancepb.State, event *allowancepb.Event) (calls []*allowancepb.Call) {
	ids := event.GetLapsed().GetIds()
	if settled := event.GetSettled(); settled.GetCost() > 0 {
		ids = append(ids, settled.GetId())
	}
	for _, id := range ids {
		if at := find(was.GetRunning(), id); at >= 0 { // else it waited
			calls = append(calls, was.GetRunning()[at])
		}
	}
	return calls
}

func windowText(unit allowancepb.Unit) string {
	if unit == allowancepb.Unit_MONTH {
		return "perMonth"
	}
	return "perDay"
}
