package conversation

import (
	"fmt"
	"time"
)

// Limits bounds what a conversation takes and how long its rules wait. They must be alike on all nodes.
type Limits struct {
	// MessageBytes is the longest message text, in bytes. Default 262144. A running conversation writes it three
	// times (event, message row, head), so large values cost log.
	MessageBytes int
	// MetadataBytes is the largest metadata object, of a conversation or a message, in bytes. Default 16384. The
	// conversation's own is part of every head write.
	MetadataBytes int
	// ContextBytes is the largest runtime context, in bytes. Default 16384. Part of every head write.
	ContextBytes int
	// TitleRunes is the longest title, in characters. Default 200 (document 2, "Limits").
	TitleRunes int
	// Outcomes is how many of the newest commands are remembered so that a repeat is answered instead of run.
	// Default 16. Each costs about 100 bytes in every head write; fewer shorten the time in which a repeat is safe.
	Outcomes int
	// Attempts is how often a turn is started before it is given up as interrupted. Default 3. More survive more
	// crashes, and a turn that itself crashes the process does so as often.
	Attempts int
	// SettleWait is how long a cancel waits for the turn to end before it answers settled: false. Default 2s.
	SettleWait time.Duration
	// MaxSettleWait bounds what a cancel may ask for instead. Default 30s.
	MaxSettleWait time.Duration
	// CancelGrace is how long a cancelled turn may take to report before it is ended without its report. Default
	// 30s. Shorter frees a conversation whose runner hangs sooner, and loses the text of one that is only slow.
	CancelGrace time.Duration
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits {
	return Limits{
		MessageBytes:  256 << 10,
		MetadataBytes: 16 << 10,
		ContextBytes:  16 << 10,
		TitleRunes:    200,
		Outcomes:      16,
		Attempts:      3,
		SettleWait:    2 * time.Second,
		MaxSettleWait: 30 * time.Second,
		CancelGrace:   30 * time.Second,
	}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	for _, positive := range []struct {
		name  string
		value int64
	}{
		{"message bytes", int64(l.MessageBytes)},
		{"metadata bytes", int64(l.MetadataBytes)},
		{"context bytes", int64(l.ContextBytes)},
		{"title runes", int64(l.TitleRunes)},
		{"outcomes", int64(l.Outcomes)},
		{"attempts", int64(l.Attempts)},
		{"settle wait", int64(l.SettleWait)},
		{"max settle wait", int64(l.MaxSettleWait)},
		{"cancel grace", int64(l.CancelGrace)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("conversation limit %s is %d: it must be positive", positive.name, positive.value)
		}
	}
	return nil
}
