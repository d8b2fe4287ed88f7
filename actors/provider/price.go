package provider

import (
	"math"
	"math/bits"

	"parley/proto/agentpb"
)

// Cost is the price of so many tokens in nano-dollars, rounded up. Cached input counts as part of the input; a price without one
// for cached input charges it like the rest.
func Cost(price *agentpb.Price, input, cached, output int64) int64 {
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

// Portion is so many units at a price for a million of them, in nano-dollars.
type Portion struct{ Units, PerMillion int64 }

// CostOf is the price of portions in nano-dollars, rounded up.
func CostOf(portions ...Portion) int64 {
	var sum wide
	for _, one := range portions {
		sum.add(one.Units, one.PerMillion)
	}
	return sum.perMillion()
}

// wide is an unsigned 128-bit sum of products: units times a price may leave 64 bits.
type wide struct{ high, low uint64 }

func (w *wide) add(units, price int64) {
	if units <= 0 || price <= 0 {
		return
	}
	high, low := bits.Mul64(uint64(units), uint64(price))
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

// WorthOutput is the output without which a call is not worth its input, in tokens.
const WorthOutput = 16

// Outlay is what a call may cost before it is made: so many tokens of input, as estimated, and at most so many of output for each choice.
type Outlay struct {
	Price                  *agentpb.Price
	Input, Output, Choices int64
}

// Need is the cost below which the call is not worth being made.
func (o *Outlay) Need() int64 {
	return Cost(o.Price, o.Input, 0, o.Choices*min(o.Output, WorthOutput))
}

// Want is the most that the call may cost: the estimate of its input may be too low.
func (o *Outlay) Want() int64 { return Cost(o.Price, 2*o.Input, 0, o.Choices*o.Output) }

// Afforded is how many tokens of output each choice may have of a call that got so much: what is missing goes into the output.
func (o *Outlay) Afforded(got int64) int64 {
	rate := o.Price.GetOutputNanoUsdPerMtok()
	if got >= o.Want() || rate <= 0 {
		return o.Output
	}
	room := max(got-Cost(o.Price, o.Input, 0, 0), 0)
	return min(o.Output, max(buys(room, rate)/o.Choices, 1))
}

// buys is how many tokens an amount buys at a rate above 0, in nano-dollars for a million.
func buys(amount, rate int64) int64 {
	if amount/rate > math.MaxInt64/2_000_000 {
		return math.MaxInt64 / 2
	}
	return amount/rate*1_000_000 + amount%rate*1_000_000/rate
}
