package actors

import (
	"context"
	"sync/atomic"
	"time"
)

// term is an ownership term: the time during which this node owns a shard under one epoch, from Own to Disown. Work
// that belongs to a term checks it again right before each visible action.
type term struct {
	epoch uint64
	since time.Time // when Own was called
	// ctx is cancelled right after the term has ended, so that nobody waits for a call that was started under it.
	ctx  context.Context //nolint:containedctx // the lifetime of a term, not of a request
	end  context.CancelFunc
	over atomic.Bool

	past    []uint64      // earlier epochs in which this process owned the shard
	handed  atomic.Uint64 // epoch that a former owner recorded as handed over, 0 = none is known
	learned atomic.Bool   // handed has been read from the shard

	proven   atomic.Int64 // when the newest proof of ownership began, in ns after since; before the first: never
	streams  atomic.Int64 // runs that stream under it
	textHeld atomic.Bool  // a run has text that waits for a proof
	proving  atomic.Bool  // a proof is under way
}

const neverProven = -1 << 62

func newTerm(life context.Context, epoch uint64, past []uint64) *term {
	t := &term{epoch: epoch, since: time.Now(), past: past}
	t.ctx, t.end = context.WithCancel(life)
	t.proven.Store(neverProven)
	return t
}

// epochOf returns the epoch of a term, 0 when t is nil.
func epochOf(t *term) uint64 {
	if t == nil {
		return 0
	}
	return t.epoch
}

// prove records a proof of ownership: an operation that began at start has shown that the node owned the shard then or
// later.
func (t *term) prove(start time.Time) {
	at := int64(start.Sub(t.since))
	for known := t.proven.Load(); known < at && !t.proven.CompareAndSwap(known, at); known = t.proven.Load() {
	}
}

// unproven returns the age of the newest proof of ownership.
func (t *term) unproven() time.Duration {
	return time.Since(t.since) - time.Duration(t.proven.Load())
}

// within derives a context that is also cancelled when the term ends.
func (t *term) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// bound derives a context that is also cancelled when the term ends or the timeout has passed.
func (t *term) bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stop := context.AfterFunc(t.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// mayPublish says that no other owner can have been in office for longer than lease: what runs here may still be heard.
func (t *term) mayPublish(lease time.Duration) bool {
	return !t.over.Load() && t.unproven() < lease
}
