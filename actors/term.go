package actors

import (
	"context"
	"sync/atomic"
	"time"
)

// term is one epoch of a shard on this node: from when the node heard that it owns the shard until it heard that it
// does not. Everything that is done under it looks at it again at the moment it matters.
type term struct {
	epoch uint64
	since time.Time // when the node heard of it
	// ctx ends soon after the term is over: nothing is waited for that was begun under it.
	ctx  context.Context //nolint:containedctx // a term is a life, not a request
	end  context.CancelFunc
	over atomic.Bool

	past    []uint64      // epochs of the shard in which this process owned it before
	handed  atomic.Uint64 // epoch that a former owner gave up in order, 0 = it is not known of any
	learned atomic.Bool   // that has been read

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

// epochOf is the epoch of a term, 0 of none.
func epochOf(t *term) uint64 {
	if t == nil {
		return 0
	}
	return t.epoch
}

// prove notes that whatever began at start has shown that the node owned the shard then or later.
func (t *term) prove(start time.Time) {
	at := int64(start.Sub(t.since))
	for known := t.proven.Load(); known < at && !t.proven.CompareAndSwap(known, at); known = t.proven.Load() {
	}
}

// unproven is how long the newest proof is ago.
func (t *term) unproven() time.Duration {
	return time.Since(t.since) - time.Duration(t.proven.Load())
}

// within is a context that ends with the term too.
func (t *term) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(t.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// bound is a context that ends with the term too, and after a timeout.
func (t *term) bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stop := context.AfterFunc(t.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// mayPublish says that no other owner can have been in office for longer than lease: what runs here may still be heard.
func (t *term) mayPublish(lease time.Duration) bool {
	return !t.over.Load() && t.unproven() < lease
}
