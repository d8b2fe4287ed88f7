package turn

import (
	"cmp"
	"math"
	"math/bits"

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
	total.CostNanoUsd, total.Priced = cost(price, u.input, u.cached, u.output), !u.unknown
	return total
}

// cost is the price of so many tokens in nano-dollars, rounded up.
func cost(price *agentpb.Price, input, cached, output int64) int64 {
	cachedPrice := price.GetCachedInputNanoUsdPerMtok()
	if cachedPrice == 0 {
		cachedPrice = price.GetInputNanoUsdPerMtok()
	}
	var sum wide
	sum.add(input-cached, price.GetInputNanoUsdPerMtok())
	sum.add(cached, cachedPrice)
	sum.add(output, price.GetOutputNanoUsdPerMtok())
	return sum.perMillion()
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

// wide is an unsigned 128-bit sum of products: tokens times a price may leave 64 bits.
type wide struct{ high, low uint64 }

func (w *wide) add(tokens, price int64) {
	if tokens <= 0 || price <= 0 {
		return
	}
	high, low := bits.Mul64(uint64(tokens), uint64(price))
	var carry uint64
	w.low, carry = bits.Add64(w.low, low, 0)
	w.high, _ = bits.Add64(w.high, high, carry)
}

// perMillion divides by a million, rounding up, and stops at the largest amount there is.
func (w *wide) perMillion() int64 {
	const million = 1_000_000
	low, carry := bits.Add64(w.low, million-1, 0)
	high := w.high + carry
	if high >= million {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, million)
	return int64(min(quotient, math.MaxInt64))
}
