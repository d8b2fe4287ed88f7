package run

import (
	"errors"
	"fmt"
	"time"

	"parley/actors/delivery"
)

// Limits bounds what a run takes. They must be alike on all nodes.
type Limits struct {
	// InputBytes is the longest message. It must not be above what a conversation's message may be. Default 262144.
	InputBytes int
	// ContextBytes is the largest sealed runtime context. Default 65536.
	ContextBytes int
	// MetadataBytes is the largest metadata object. Default 16384.
	MetadataBytes int
	// Calls is how many callbacks of one run may be under way; a newer one takes the place of the oldest. Default 16.
	Calls int
	// CheckEvery is when a run that waits looks for the first time what it waits for, should it not be told. The time
	// doubles with each look. Default 15s.
	CheckEvery time.Duration
	// MaxCheckEvery bounds that. It must be well below the time after which a place in the queue lapses. Default 2m.
	MaxCheckEvery time.Duration
	// CallbackTimeout is after which time an attempt to call back counts as lost. It must be above what an attempt may
	// take. Default 1m.
	CallbackTimeout time.Duration
	// Keep is how long a run can be read after its end. Default 30 days.
	Keep time.Duration
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits {
	return Limits{
		InputBytes: 256 << 10, ContextBytes: 64 << 10, MetadataBytes: 16 << 10, Calls: 16, CheckEvery: 15 * time.Second,
		MaxCheckEvery: 2 * time.Minute, CallbackTimeout: time.Minute, Keep: 30 * 24 * time.Hour,
	}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	for _, positive := range []struct {
		name  string
		value int64
	}{
		{"input bytes", int64(l.InputBytes)},
		{"context bytes", int64(l.ContextBytes)},
		{"metadata bytes", int64(l.MetadataBytes)},
		{"calls", int64(l.Calls)},
		{"check every", int64(l.CheckEvery)},
		{"max check every", int64(l.MaxCheckEvery)},
		{"callback timeout", int64(l.CallbackTimeout)},
		{"keep", int64(l.Keep)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("run limit %s is %d: it must be positive", positive.name, positive.value)
		}
	}
	if l.CheckEvery > l.MaxCheckEvery {
		return errors.New("run limit check every is above max check every")
	}
	return nil
}

// maxAttempts is how often a callback is tried (document 1, "Run callbacks").
const maxAttempts = 5

func (l Limits) callbacks() delivery.Policy {
	return delivery.Policy{Attempts: maxAttempts, Timeout: l.CallbackTimeout}
}
