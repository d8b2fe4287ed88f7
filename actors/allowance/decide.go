package allowance

import (
	"math"

	"parley/actors/core/money"
	"parley/actors/core/quota"
	"parley/proto/allowancepb"
)

// verdict is what becomes of a call: it is let in with what it holds, it waits, or a limit is reached.
type verdict struct {
	held    int64
	waits   bool
	reached *allowancepb.Cap
	amount  int64 // what is used of it
}

func (v verdict) reply() *allowancepb.Reply {
	return &allowancepb.Reply{LetIn: v.reached == nil && !v.waits, Held: v.held, Reached: v.reached, Amount: v.amount}
}

// decide says what becomes of a call, in the order of its limits. next says that nobody before it in line waits for the same money.
func decide(state *allowancepb.State, call *allowancepb.Call, now int64, next bool) verdict {
	left := int64(math.MaxInt64) // of the limit of which there is least
	var scarce *allowancepb.Cap
	var spent int64
	for _, limit := range call.GetCaps() {
		if limit.GetCounts() {
			continue
		}
		used := quota.Used(state, limit, now)
		switch limit.GetMeasure() {
		case allowancepb.Measure_REQUESTS:
			if used >= limit.GetMost() {
				return verdict{reached: limit, amount: money.Add(used, 1)}
			}
		case allowancepb.Measure_TOKENS:
			if amount := money.Add(used, call.GetTokens()); used >= limit.GetMost() || amount > limit.GetMost() {
				return verdict{reached: limit, amount: amount}
			}
		case allowancepb.Measure_COST:
			remains := limit.GetMost() - used
			if remains < left {
				left, scarce, spent = remains, limit, used
			}
		case allowancepb.Measure_NOTHING:
		}
	}
	if scarce == nil {
		return verdict{held: call.GetWant()}
	}
	if left <= 0 || call.GetNeed() > left {
		return verdict{reached: scarce, amount: spent}
	}
	if !next {
		return verdict{waits: true}
	}
	want, free := min(call.GetWant(), left), freeFor(state, call, now)
	switch {
	case free >= want:
		return verdict{held: want}
	case call.GetHurried() && free > 0 && free >= call.GetNeed():
		return verdict{held: free}
	}
	return verdict{waits: true}
}

// freeFor is the money that nobody holds, of the limit of which there is least.
func freeFor(state *allowancepb.State, call *allowancepb.Call, now int64) int64 {
	free := int64(math.MaxInt64)
	for _, limit := range call.GetCaps() {
		if !limit.GetCounts() && limit.GetMeasure() == allowancepb.Measure_COST {
			free = min(free, limit.GetMost()-quota.Used(state, limit, now)-heldOf(state, limit.GetPolicy(), now))
		}
	}
	return free
}

// heldOf is what running calls hold of a policy's money.
func heldOf(state *allowancepb.State, policy string, now int64) (held int64) {
	for _, call := range state.GetRunning() {
		if call.GetExpiresAt() <= now {
			continue
		}
		for _, limit := range call.GetCaps() {
			if limit.GetMeasure() == allowancepb.Measure_COST && limit.GetPolicy() == policy {
				held = money.Add(held, call.GetHeld())
				break
			}
		}
	}
	return held
}
