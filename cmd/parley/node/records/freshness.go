package records

import (
	"context"
	"fmt"
	"sync"
	"time"

	"parley/persistence"
)

// freshness confirms that a record which this node does not have really does not exist. All waiting callers share one
// confirmation, and one is under way at a time, so that requests with invented tokens cannot flood the directory's leader. A
// confirmed miss is remembered for a second.
type freshness struct {
	confirm func(ctx context.Context) error // reads after it include everything acknowledged before it
	limit   time.Duration                   // bounds a confirmation
	ctx     context.Context                 //nolint:containedctx // its own lifetime, not a request's
	cancel  context.CancelFunc

	mu      sync.Mutex
	next    *question // starts when the one under way has ended; nil = nobody waits
	asking  bool
	stopped bool
	misses  map[missed]time.Time
	running sync.WaitGroup
}

// question is a confirmation shared by all who asked before it started. err is set before done is closed.
type question struct {
	done chan struct{}
	err  error
}

type missed struct{ collection, key string }

const (
	// missKept is how long a confirmed miss is remembered, maxMisses how many are.
	missKept  = time.Second
	maxMisses = 4096
)

func (f *freshness) start(confirm func(context.Context) error, limit time.Duration) {
	f.confirm, f.limit = confirm, limit
	f.ctx, f.cancel = context.WithCancel(context.Background())
}

// missed reports whether a record was confirmed missing a moment ago.
func (f *freshness) missed(collection, key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.misses[missed{collection, key}]
	if known && time.Since(at) < missKept {
		return true
	}
	delete(f.misses, missed{collection, key})
	return false
}

// miss remembers that a record is confirmed missing.
func (f *freshness) miss(collection, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.misses == nil || len(f.misses) >= maxMisses {
		f.misses = make(map[missed]time.Time)
	}
	f.misses[missed{collection, key}] = time.Now()
}

// pass returns once a confirmation that started after the call has ended.
func (f *freshness) pass(ctx context.Context) error {
	f.mu.Lock()
	if f.stopped {
		f.mu.Unlock()
		return persistence.ErrStopped
	}
	if f.next == nil {
		f.next = &question{done: make(chan struct{})}
	}
	mine := f.next
	if !f.asking {
		f.asking = true
		f.running.Go(f.ask)
	}
	f.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the directory: %w", ctx.Err())
	}
}

// ask runs confirmations as long as somebody waits.
func (f *freshness) ask() {
	for {
		f.mu.Lock()
		now := f.next
		f.next = nil
		if now == nil {
			f.asking = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(f.ctx, f.limit)
		now.err = f.confirm(ctx)
		cancel()
		close(now.done)
	}
}

func (f *freshness) stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.cancel()
	f.running.Wait()
}
