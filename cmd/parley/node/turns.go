package node

import (
	"context"
	"sync"
)

// turns lets one at a time do what belongs to a name. The zero value is ready. Who waits is bounded by its context; how many
// wait, by the requests that are let in.
type turns struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is who has the turn and who waits for it.
type line struct {
	turn  chan struct{} // holds a value while somebody has the turn
	users int           // guarded by turns.mu
}

// take waits for the turn; leave ends it.
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
