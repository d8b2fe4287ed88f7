package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// usageService is the service of the Client API to which the turns of conversations are put down.
const usageService = "agents"

// projectUsage adds what model calls used to the rows of their hour: once, with the event that charges them (charge,
// turnEnded, updated). was is nil only where nothing can have been used yet.
func projectUsage(was *conversationpb.State, events []proto.Message, into *logpb.Append) {
	turn, rows := turnOf(was), usageRows{was, into}
	priced := false // what the turn ends with: of that, and of nothing else in its append, a priced usage was told before
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		switch body := event.GetBody().(type) {
		case *conversationpb.Event_ToolUse:
			rows.add(event, turn, body.ToolUse.GetUsage())
		case *conversationpb.Event_Partial:
			if body.Partial.GetCharged() {
				rows.add(event, turn, body.Partial.GetUsage())
			}
		case *conversationpb.Event_TurnRecovered:
			lost := addUsage(&conversationpb.Usage{Model: turn.GetUsage().GetModel()}, lostCall(turn))
			rows.add(event, turn, lost)
		case *conversationpb.Event_Updated:
			by := &conversationpb.Lease{ByUser: body.Updated.GetByUser(), ByToken: body.Updated.GetByToken()}
			rows.add(event, by, body.Updated.GetUsage())
		case *conversationpb.Event_SessionUsage:
			priced = true
		case *conversationpb.Event_TurnEnded:
			rows.add(event, turn, usedSince(turn.GetUsage(), body.TurnEnded.GetUsage(), priced))
		}
	}
}

// usedSince is what a turn used beyond what it had used by a time.
func usedSince(then, now *conversationpb.Usage, priced bool) *conversationpb.Usage {
	return &conversationpb.Usage{
		InputTokens:       now.GetInputTokens() - then.GetInputTokens(),
		OutputTokens:      now.GetOutputTokens() - then.GetOutputTokens(),
		CachedInputTokens: now.GetCachedInputTokens() - then.GetCachedInputTokens(),
		CostNanoUsd:       now.GetCostNanoUsd() - then.GetCostNanoUsd(),
		Priced:            priced,
		ModelCalls:        now.GetModelCalls() - then.GetModelCalls(),
		Model:             now.GetModel(),
	}
}

// usageRows raises the rows of a conversation's usage.
type usageRows struct {
	of   *conversationpb.State
	into *logpb.Append
}

// add puts usage down to whose turn it was of. A turn that failed is an error beside a request, also when it did not reach
// a model.
func (r usageRows) add(event *conversationpb.Event, turn *conversationpb.Lease, usage *conversationpb.Usage) {
	calls, failed := int64(usage.GetModelCalls()), int64(0)
	if event.GetTurnEnded().GetStopReason() == conversationpb.StopReason_ERROR {
		failed = 1
	}
	numbers := machine.UsageNumbers{
		machine.UsageRequests:          max(calls, failed),
		machine.UsageErrors:            failed,
		machine.UsageInputTokens:       usage.GetInputTokens(),
		machine.UsageOutputTokens:      usage.GetOutputTokens(),
		machine.UsageCachedInputTokens: usage.GetCachedInputTokens(),
		machine.UsageCostNanoUSD:       usage.GetCostNanoUsd(),
	}
	if !usage.GetPriced() {
		numbers[machine.UsageUnpriced] = calls
	}
	sum := machine.UsageSum(r.of.GetTenantId(), r.of.GetProjectId(), event.GetCreatedAt(), machine.UsageKey{
		Model: usage.GetModel(), User: turn.GetByUser(), Token: turn.GetByToken(), Service: usageService, Agent: r.of.GetAgentId(),
	}, numbers)
	if sum != nil {
		r.into.Sums = append(r.into.Sums, sum)
	}
}
