package quota

import (
	"time"

	"parley/proto/allowancepb"
)

// Allowance is the prefix of the ids of allowances: a tenant's is made of its id.
const Allowance = "allow"

// Window is where the window of a time begins, in Unix milliseconds.
func Window(unit allowancepb.Unit, at int64) int64 {
	var length int64
	switch unit {
	case allowancepb.Unit_SECOND:
		length = 1000
	case allowancepb.Unit_MINUTE:
		length = 60_000
	case allowancepb.Unit_HOUR:
		length = 3_600_000
	case allowancepb.Unit_DAY:
		length = 86_400_000
	case allowancepb.Unit_MONTH:
		year, month, _ := time.UnixMilli(at).UTC().Date()
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	default:
		return 0
	}
	return at - at%length
}

// ends is where the window of a time ends.
func ends(unit allowancepb.Unit, at int64) int64 {
	start := Window(unit, at)
	if unit == allowancepb.Unit_MONTH {
		return time.UnixMilli(start).UTC().AddDate(0, 1, 0).UnixMilli()
	}
	for _, length := range []int64{1000, 60_000, 3_600_000, 86_400_000} {
		if Window(unit, start+length) != start {
			return start + length
		}
	}
	return at
}

// Used is what was used under a limit in the window of a time.
func Used(state *allowancepb.State, limit *allowancepb.Cap, now int64) int64 {
	start := Window(limit.GetUnit(), now)
	for _, used := range state.GetUsed() {
		if used.GetPolicy() == limit.GetPolicy() && used.GetMeasure() == limit.GetMeasure() && used.GetUnit() == limit.GetUnit() && used.GetStart() == start {
			return used.GetAmount()
		}
	}
	return 0
}
