package quota

import (
	"math"

	"parley/proto/allowancepb"
)

// Crossed are the thresholds of a limit of money that what was spent in its window came to when it went from one amount to another, in the
// order in which they were written. A threshold of at most 1 is a share of the limit, a larger one a percentage of it. Amounts only grow
// within a window, so each is crossed once in it; of no limit, and of none that lets anything be spent, there are no shares.
func Crossed(limit *allowancepb.Cap, before, after int64) (crossed []float64) {
	if limit.GetMeasure() != allowancepb.Measure_COST || limit.GetMost() <= 0 {
		return nil
	}
	for _, threshold := range limit.GetAlerts() {
		at := threshold * float64(limit.GetMost())
		if threshold > 1 {
			at /= 100
		}
		if at = math.Round(at); float64(before) < at && float64(after) >= at {
			crossed = append(crossed, threshold)
		}
	}
	return crossed
}
