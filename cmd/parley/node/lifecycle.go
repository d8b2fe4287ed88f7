package node

import (
	"context"
	"errors"
	"sync"
)

// lifecycle is how far a node is between its start and its end, and what undoes its start.
type lifecycle struct {
	failed chan error // a reason to end the process; holds one
	undo   []func(context.Context)

	mu       sync.Mutex
	ready    bool
	stopping bool
	retiring bool // told to stop, and still serving
}

// later registers what stops a part that was started. The parts are stopped in reverse order.
func (l *lifecycle) later(stop func(context.Context)) { l.undo = append(l.undo, stop) }

// unwind stops what was started.
func (l *lifecycle) unwind(ctx context.Context) {
	for i := len(l.undo) - 1; i >= 0; i-- {
		l.undo[i](ctx)
	}
	l.undo = nil
}

// fail ends the process for a reason that a part found while running.
func (l *lifecycle) fail(err error) {
	select {
	case l.failed <- err:
	default: // one reason is enough
	}
}

func (l *lifecycle) started() {
	l.mu.Lock()
	l.ready = true
	l.mu.Unlock()
}

// beginStop reports whether this call is the first to stop the node.
func (l *lifecycle) beginStop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.stopping
	l.stopping = true
	return first
}

// retire has the node say that it is not ready. It goes on serving.
func (l *lifecycle) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retiring = true
}

// serving returns an error while the node is starting or stopping.
func (l *lifecycle) serving() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopping || l.retiring:
		return errors.New("stopping")
	case !l.ready:
		return errors.New("starting")
	}
	return nil
}
