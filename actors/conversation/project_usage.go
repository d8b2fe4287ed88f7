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
	turn := turnOf(was)
	priced := false // what the turn ends with: of that, and of nothing else in its append, a priced usage was told before
	for _, message := range events {
		event, _ := message.(*conversationpb.Event)
		switch body := event.GetBody().(type) {
		case *conversationpb.Event_ToolUse:
			addSum(was, turn, event, body.ToolUse.GetUsage(), 0, into)
		case *conversationpb.Event_TurnRecovered:
			lost := addUsage(&conversationpb.Usage{Model: turn.GetUsage().GetModel()}, lostCall(turn))
			addSum(was, turn, event, lost, 0, into)
		case *conversationpb.Event_Updated:
			by := &conversationpb.Lease{ByUser: body.Updated.GetByUser(), ByToken: body.Updated.GetByToken()}
			addSum(was, by, event, body.Updated.GetUsage(), 0, into)
		case *conversationpb.Event_SessionUsage:
			priced = true
		case *conversationpb.Event_TurnEnded:
			failed := int64(0)
			if body.TurnEnded.GetStopReason() == conversationpb.StopReason_ERROR {
				failed = 1
			}
			addSum(was, turn, event, usedSince(turn.GetUsage(), body.TurnEnded.GetUsage(), priced), failed, into)
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

// addSum puts usage down to those whose turn it was of. An error stands beside a request, also when no model was reached.
func addSum(
	s *conversationpb.State, turn *conversationpb.Lease, event *conversationpb.Event, usage *conversationpb.Usage, failed int64,
	into *logpb.Append,
) {
	calls := int64(usage.GetModelCalls())
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
	sum := machine.UsageSum(s.GetTenantId(), s.GetProjectId(), event.GetCreatedAt(), machine.UsageKey{
		Model: usage.GetModel(), User: turn.GetByUser(), Token: turn.GetByToken(), Service: usageService, Agent: s.GetAgentId(),
	}, numbers)
	if sum != nil {
		into.Sums = append(into.Sums, sum)
	}
}
