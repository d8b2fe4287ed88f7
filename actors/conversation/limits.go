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
	// ContextBytes is the largest runtime context, in bytes, of the conversation and of a turn. Default 16384. Sealed, it may
	// be twice as large. Part of every head write.
	ContextBytes int
	// TitleRunes is the longest title, in characters. Default 200 (document 2, "Limits").
	TitleRunes int
	// Outcomes is how many of the newest commands are remembered so that a repeat is answered instead of run.
	// Default 16. Each costs about 100 bytes in every head write; fewer shorten the time in which a repeat is safe.
	Outcomes int
	// Attempts is how many attempts of a turn may end with the process that made them before the turn is given up. Default 2.
	// A turn that itself brings processes down does so as often; more save a turn that was beside one. A planned move of its
	// shard, a restart too, is no such end.
	Attempts int
	// SettleWait is how long a cancel waits for the turn to end before it answers settled: false. Default 2s.
	SettleWait time.Duration
	// MaxSettleWait bounds what a cancel may ask for instead. Default 30s.
	MaxSettleWait time.Duration
	// CancelGrace is how long a cancelled turn may take to report before it is ended without its report. Default
	// 30s. Shorter frees a conversation whose runner hangs sooner, and loses the text of one that is only slow.
	CancelGrace time.Duration
	// TakeoverSilence is how long after this node became the owner a former one may still be heard: until then, the
	// cancel of a run that was taken over is not settled. Default 1.5s. It must be above the time for which an owner
	// streams without proof that it still is one (actors.Config.StreamLease), with room for what is on its way.
	TakeoverSilence time.Duration
	// ActionTimeout is how long a person has to decide a pending action, unless the tool's policy says otherwise.
	// Default 24h.
	ActionTimeout time.Duration
	// OnActionTimeout is what becomes of an action that nobody decided in time: "deny" (default) lets its call fail, and
	// the turn goes on when no other is pending; "cancel" ends the turn.
	OnActionTimeout string
	// PendingPolicy is what a new message does while an action is pending: "refuse" (default) refuses it, "cancel" gives
	// the action up and ends its turn.
	PendingPolicy string
	// ClientToolOutputBytes is the largest output of a client tool, and answer to a question, in bytes. Default 65536
	// (document 2, "Limits").
	ClientToolOutputBytes int
	// MaxPending is how many actions of a conversation are pending at the same time, at most. Default 32. The calls above
	// it fail: each costs up to ActionArgsBytes in every head write.
	MaxPending int
	// ActionArgsBytes is the largest arguments, with schema and details, that a person is asked about, and the largest
	// that they may put in their place. Default 65536. The actions of one pause take eight times as much together.
	ActionArgsBytes int
	// PushTimeout is after which time an attempt to tell an address of a turn counts as lost. Default 1m. It must exceed what an
	// attempt may take, waiting for room included.
	PushTimeout time.Duration
	// RememberedTools is how many approvals a conversation remembers. Default 100.
	RememberedTools int
	// Queue is how many messages may wait for their turns. Default 16. They are part of every head write, 512 KiB at most.
	Queue int
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits {
	return Limits{
		MessageBytes:  256 << 10,
		MetadataBytes: 16 << 10,
		ContextBytes:  16 << 10,
		TitleRunes:    200,
		Outcomes:      16,
		Attempts:      2,
		SettleWait:    2 * time.Second,
		MaxSettleWait: 30 * time.Second,
		CancelGrace:   30 * time.Second,

		TakeoverSilence: 1500 * time.Millisecond,

		ActionTimeout:         24 * time.Hour,
		OnActionTimeout:       onTimeoutDeny,
		PendingPolicy:         pendingRefuse,
		ClientToolOutputBytes: 64 << 10,
		MaxPending:            32,
		ActionArgsBytes:       64 << 10,
		PushTimeout:           time.Minute,
		RememberedTools:       100,
		Queue:                 16,
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
		{"takeover silence", int64(l.TakeoverSilence)},
		{"action timeout", int64(l.ActionTimeout)},
		{"client tool output bytes", int64(l.ClientToolOutputBytes)},
		{"max pending", int64(l.MaxPending)},
		{"action args bytes", int64(l.ActionArgsBytes)},
		{"push timeout", int64(l.PushTimeout)},
		{"remembered tools", int64(l.RememberedTools)},
		{"queue", int64(l.Queue)},
	} {
		if positive.value <= 0 {
			return fmt.Errorf("conversation limit %s is %d: it must be positive", positive.name, positive.value)
		}
	}
	if l.OnActionTimeout != onTimeoutDeny && l.OnActionTimeout != onTimeoutCancel {
		return fmt.Errorf("conversation limit on action timeout is %q: it must be %s or %s",
			l.OnActionTimeout, onTimeoutDeny, onTimeoutCancel)
	}
	if l.PendingPolicy != pendingRefuse && l.PendingPolicy != pendingCancel {
		return fmt.Errorf("conversation limit pending policy is %q: it must be %s or %s",
			l.PendingPolicy, pendingRefuse, pendingCancel)
	}
	return nil
}
