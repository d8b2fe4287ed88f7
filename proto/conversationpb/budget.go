package conversationpb

import "math"

// What a turn does when its budget is reached (Budget.on_reach).
const (
	OnReachPause = "pause" // a turn that is cut short waits to be continued
	OnReachStop  = "stop"
)

// NanoUSD is US dollars as nano-dollars; ok is false when that is no amount above 0.
func NanoUSD(usd float64) (nano int64, ok bool) {
	amount := math.Round(usd * 1e9)
	if !(amount >= 1 && amount < math.MaxInt64) {
		return 0, false
	}
	return int64(amount), true
}
