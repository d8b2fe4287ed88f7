package allowance

import (
	"math"
	"slices"

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
	again   bool  // what there is may have been counted twice, or too early; or it is there for a moment only
}

func (v verdict) reply() *allowancepb.Reply {
	return &allowancepb.Reply{LetIn: v.reached == nil && !v.waits, Held: v.held, Reached: v.reached, Amount: v.amount, Again: v.again}
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
			if full := tooMany(state, limit, now); full != nil {
				return *full
			}
		case allowancepb.Measure_TOKENS:
			if amount := money.Add(used, call.GetTokens()); used >= limit.GetMost() || amount > limit.GetMost() {
				return verdict{reached: limit, amount: amount}
			}
		case allowancepb.Measure_FILES, allowancepb.Measure_STORAGE, allowancepb.Measure_SESSIONS:
			if full := exceeds(state, limit, call, nil, now); full != nil {
				return *full
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

// tooMany says whether one more request is beyond a limit; nil = it is not.
func tooMany(state *allowancepb.State, limit *allowancepb.Cap, now int64) *verdict {
	used, moment := quota.Used(state, limit, now), limit.GetUnit() == allowancepb.Unit_MOMENT
	if moment {
		used = atOnce(state, limit.GetPolicy(), now)
	}
	if used < limit.GetMost() {
		return nil
	}
	return &verdict{reached: limit, amount: money.Add(used, 1), again: moment && limit.GetMost() > 0}
}

// atOnce is how many calls are on their way that a policy bounds in that.
func atOnce(state *allowancepb.State, policy string, now int64) (calls int64) {
	for _, call := range state.GetRunning() {
		if call.GetExpiresAt() > now && slices.ContainsFunc(call.GetCaps(), func(c *allowancepb.Cap) bool {
			return c.GetUnit() == allowancepb.Unit_MOMENT && c.GetPolicy() == policy
		}) {
			calls++
		}
	}
	return calls
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
				held = money.Add(held, max(call.GetHeld()-call.GetBooked(), 0))
				break
			}
		}
	}
	return held
}

// brings is what a call counts of a measure of what is kept.
func brings(call *allowancepb.Call, measure allowancepb.Measure) int64 {
	switch measure {
	case allowancepb.Measure_FILES:
		return call.GetFiles()
	case allowancepb.Measure_STORAGE:
		return call.GetBytes()
	case allowancepb.Measure_SESSIONS:
		return call.GetSessions()
	default:
		return 0
	}
}

// adds is by how much a call's files raise what is used under a limit: by those of which it does not count yet. A file that comes counts
// whole in the window in which it has come, as if its size had been known before.
func adds(limit *allowancepb.Cap, call, before *allowancepb.Call, now int64) int64 {
	if before != nil && quota.Window(limit.GetUnit(), before.GetLetInAt()) == quota.Window(limit.GetUnit(), now) {
		return brings(call, limit.GetMeasure()) - brings(before, limit.GetMeasure())
	}
	return brings(call, limit.GetMeasure())
}

// exceeds says whether there is no room under a limit for what a call brings, or what came of it; nil = there is.
func exceeds(state *allowancepb.State, limit *allowancepb.Cap, call, before *allowancepb.Call, now int64) *verdict {
	if limit.GetUnit() == allowancepb.Unit_FOREVER {
		return overfills(state, limit, call, now)
	}
	more := adds(limit, call, before, now)
	if amount := money.Add(quota.Used(state, limit, now), more); more > 0 && amount > limit.GetMost() {
		return &verdict{reached: limit, amount: amount}
	}
	return nil
}

// overfills says whether what a call brings is more than may be kept: beside what was there when its node counted it, what other calls
// bring, and have brought since. Some of that may have been there already: then it is to be counted again before the call is refused.
func overfills(state *allowancepb.State, limit *allowancepb.Cap, call *allowancepb.Call, now int64) *verdict {
	there, more := limit.GetThere(), brings(call, limit.GetMeasure())
	others := func(other *allowancepb.Call) {
		for _, c := range other.GetCaps() {
			if c.GetPolicy() == limit.GetPolicy() && c.GetMeasure() == limit.GetMeasure() && c.GetUnit() == limit.GetUnit() && other.GetId() != call.GetId() {
				there = money.Add(there, brings(other, limit.GetMeasure()))
			}
		}
	}
	for _, other := range state.GetRunning() {
		if other.GetExpiresAt() > now { // what a node that died has stored is there by now
			others(other)
		}
	}
	for _, kept := range state.GetKept() {
		if kept.GetSeq() > call.GetAsOf() {
			others(kept.GetCall())
		}
	}
	if more == 0 || money.Add(there, more) <= limit.GetMost() {
		return nil
	}
	return &verdict{reached: limit, amount: there, again: money.Add(limit.GetThere(), more) <= limit.GetMost()}
}

// fills says whether a call brings what is kept, in no window.
func fills(call *allowancepb.Call) bool {
	return slices.ContainsFunc(call.GetCaps(), func(c *allowancepb.Cap) bool { return c.GetUnit() == allowancepb.Unit_FOREVER })
}

// grow decides on a call of whose file more came.
func grow(state *allowancepb.State, call, before *allowancepb.Call, now int64) verdict {
	for _, limit := range call.GetCaps() {
		if limit.GetCounts() {
			continue
		}
		if full := exceeds(state, limit, call, before, now); full != nil {
			return *full
		}
	}
	return verdict{}
}
