package records

import (
	"context"
	"sync"
)

// turns is a mutex for each name. The zero value is ready. A wait is bounded by its context, the number of waiters by the number
// of requests in flight.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the mutex of one name.
type line struct {
	turn  chan struct{} // holds a value while locked
	users int           // holder and waiters; guarded by turns.mu
}

// take locks a name; leave unlocks it.
func (t *turns) take(ctx context.Context, name string) (leave func(), err error) {
	t.mu.Lock()
	if t.lines == nil {
		t.lines = map[string]*line{}
	}
	l := t.lines[name]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		t.lines[name] = l
	}
	l.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.lines, name)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
