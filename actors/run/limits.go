package run

import (
	"errors"
	"fmt"
	"time"

	"parley/actors/delivery"
)

// Limits are the limits of a run. They must be the same on all nodes.
type Limits struct {
	// InputBytes is the longest message. It must not exceed the limit of a conversation's message. Default 262144.
	InputBytes int
	// ContextBytes is the largest sealed runtime context. Default 65536.
	ContextBytes int
	// MetadataBytes is the largest metadata object. Default 16384.
	MetadataBytes int
	// Calls is how many callbacks of one run may be in progress; a newer one replaces the oldest. Default 16.
	Calls int
	// CheckEvery is the first interval at which a waiting run checks what it waits for, in case the notification was lost. It
	// doubles with each check. Default 15s.
	CheckEvery time.Duration
	// MaxCheckEvery bounds that interval. It must be well below the time after which a place in the queue expires. Default 2m.
	MaxCheckEvery time.Duration
	// CallbackTimeout is the time after which a callback attempt counts as lost. It must exceed the time limit of an attempt.
	// Default 1m.
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

// Validate returns an error for an invalid limit.
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
