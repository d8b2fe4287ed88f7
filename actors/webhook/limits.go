package webhook

import (
	"fmt"
	"time"

	"parley/actors/delivery"
)

// Limits bounds what an endpoint takes. They must be alike on all nodes.
type Limits struct {
	// Waits are the pauses after failed attempts: one attempt more is made.
	Waits []time.Duration
	// FailAfter is after how long of continuous failure an endpoint is disabled.
	FailAfter time.Duration
	// Keep is how long a settled delivery can be read.
	Keep time.Duration
	// Pending is how many deliveries wait at most; further ones fail at once.
	Pending uint64
}

// DefaultLimits returns the limits in force unless configured otherwise (document 1, "Limits").
func DefaultLimits() Limits {
	return Limits{
		Waits: []time.Duration{
			time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
		},
		FailAfter: 72 * time.Hour, Keep: 30 * 24 * time.Hour, Pending: 100_000,
	}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	for _, wait := range l.Waits {
		if wait <= 0 {
			return fmt.Errorf("webhook limit waits has %s: each must be positive", wait)
		}
	}
	if l.FailAfter <= 0 || l.Keep <= 0 || l.Pending == 0 {
		return fmt.Errorf("webhook limits %+v: each must be positive", l)
	}
	return nil
}

func (l Limits) policy() delivery.Policy {
	waits := l.Waits
	if waits == nil {
		waits = []time.Duration{} // one attempt
	}
	return delivery.Policy{Attempts: uint32(len(waits)) + 1, Waits: waits}
}

// trimEvery is how often old deliveries are looked for.
func (l Limits) trimEvery() int64 { return min(l.Keep, 24*time.Hour).Milliseconds() }

// Bounds of what a command may carry.
const (
	maxBatch      = 512     // messages
	maxBody       = 8 << 10 // bytes, of a message
	maxName       = 256     // bytes
	maxRemembered = 4096    // events of one shard, of which the rows may still be there
)

const (
	textFull   = "Too many deliveries are waiting"
	textGaveUp = "Gave up after %d attempts"
)
