package task

import (
	"fmt"
	"time"
)

// Limits bounds what a task takes. They must be alike on all nodes.
type Limits struct {
	// InputBytes is the longest input, and the longest text of the comments that are said at once. It must not be above
	// what a conversation's message may be. Default 262144.
	InputBytes int
	// CommentBytes is the longest comment. Default 65536.
	CommentBytes int
	// MetadataBytes is the largest metadata object, of a task or a comment. Default 16384.
	MetadataBytes int
	// Comments is how many a task takes, the agent's included. Default 1000.
	Comments int
	// Outcomes is how many of the newest commands are remembered, so that a repeat is answered instead of run. Default 16.
	Outcomes int
	// CheckEvery is when it is looked for the first time whether a task that waits goes on without a comment, because
	// somebody acted on its conversation. The time doubles with each look. Default 15s.
	CheckEvery time.Duration
	// MaxCheckEvery bounds that. Default 10m.
	MaxCheckEvery time.Duration
	// CallbackTimeout is after which time an attempt to call back counts as lost. It must be above what an attempt may
	// take. Default 1m.
	CallbackTimeout time.Duration
	// CallbackAttempts is how often a callback is tried. Default 6.
	CallbackAttempts int
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits {
	return Limits{
		InputBytes: 256 << 10, CommentBytes: 64 << 10, MetadataBytes: 16 << 10, Comments: 1000, Outcomes: 16,
		CheckEvery: 15 * time.Second, MaxCheckEvery: 10 * time.Minute, CallbackTimeout: time.Minute,
		CallbackAttempts: 6,
	}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	for _, positive := range []struct {
		name  string
		value int64
	}{
		{"input bytes", int64(l.InputBytes)},
		{"comment bytes", int64(l.CommentBytes)},
		{"metadata bytes", int64(l.MetadataBytes)},
		{"comments", int64(l.Comments)},
		{"outcomes", int64(l.Outcomes)},
		{"check every", int64(l.CheckEvery)},
		{"max check every", int64(l.MaxCheckEvery)},
		{"callback timeout", int64(l.CallbackTimeout)},
		{"callback attempts", int64(l.CallbackAttempts)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("task limit %s is %d: it must be positive", positive.name, positive.value)
		}
	}
	return nil
}
