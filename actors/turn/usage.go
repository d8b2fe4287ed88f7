package turn

import (
	"cmp"
	"math"

	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// usage adds up calls of one model.
type usage struct {
	input, cached, output int64
	calls                 int32
	unknown               bool // a call did not say what it consumed
}

func (u *usage) add(call model.Usage) {
	u.calls++
	u.unknown = u.unknown || !call.Known
	u.input += max(call.InputTokens, 0)
	u.cached += min(max(call.CachedInputTokens, 0), max(call.InputTokens, 0))
	u.output += max(call.OutputTokens, 0)
}

// priced is the usage of the turn with its cost: the sum over the turn, in whole nano-dollars, rounded up once, so
// that what is charged is never below what was consumed. Cached input counts as part of the input; a price without one
// for cached input charges it like the rest. Where it is not known what a call consumed, not even about, the cost is a
// lower bound and the turn is not marked as priced.
func (u *usage) priced(by *agentpb.Model) *conversationpb.Usage {
	if u.calls == 0 {
		return nil
	}
	total := &conversationpb.Usage{
		InputTokens: u.input, OutputTokens: u.output, CachedInputTokens: u.cached, ModelCalls: u.calls,
		Model: cmp.Or(by.GetKey(), by.GetName()),
	}
	price := by.GetPrice()
	if price == nil {
		return total
	}
	total.CostNanoUsd, total.Priced = provider.Cost(price, u.input, u.cached, u.output), !u.unknown
	return total
}

// plus adds two usages; nil is none. The sum is put down to the first one's model.
func plus(a, b *conversationpb.Usage) *conversationpb.Usage {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &conversationpb.Usage{
		InputTokens:       a.GetInputTokens() + b.GetInputTokens(),
		OutputTokens:      a.GetOutputTokens() + b.GetOutputTokens(),
		CachedInputTokens: a.GetCachedInputTokens() + b.GetCachedInputTokens(),
		CostNanoUsd:       sumCosts(a.GetCostNanoUsd(), b.GetCostNanoUsd()),
		Priced:            a.GetPriced() && b.GetPriced(),
		ModelCalls:        a.GetModelCalls() + b.GetModelCalls(),
		Model:             cmp.Or(a.GetModel(), b.GetModel()),
	}
}

// sumCosts adds amounts that are not negative and stays at the largest number rather than wrap.
func sumCosts(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
