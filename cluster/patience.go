package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/actors/core/follow"
)

// Patience is what a call has left of its time without an owner that answers. It is for one goroutine.
type Patience struct {
	left, whole  time.Duration
	pause, first time.Duration
	spared       bool
}

// NewPatience returns a patience of a length, with the first pause between two attempts at the same owner; pauses double up
// to twenty times that.
func NewPatience(whole, pause time.Duration) Patience {
	return Patience{left: whole, whole: whole, pause: pause, first: pause}
}

// Over says that the time is over.
func (p *Patience) Over() bool { return p.left <= 0 }

// Spend takes the time of an attempt that came to nothing. Time in which an owner worked on the call does not count; that
// is what went before a node fell silent or was lost. One that says that it is not the owner (any more) has at most kept
// the call waiting for its successor.
func (p *Patience) Spend(took time.Duration, err error) {
	var silent interface{ Silent() time.Duration }
	refused, idle := follow.IsNotOwner(err), time.Duration(0)
	switch {
	case refused:
		idle = took
	case errors.As(err, &silent):
		idle = min(took, silent.Silent())
	}
	if took-idle >= p.whole || refused && took >= p.whole {
		*p = NewPatience(p.whole, p.first) // there was an owner for long: a caller may wait through several restarts
		return
	}
	p.left -= idle
	if refused && !p.spared && took >= p.whole/4 {
		p.spared, p.left = true, max(p.left, p.whole/4) // its successor is about to be known
	}
}

// Wait returns when what is known of the owner has changed, or after a pause when there is one that can be asked again.
// The usual call does not come here: it costs no timer.
func (p *Patience) Wait(ctx context.Context, changed <-chan struct{}, askAgain bool) error {
	if ctx.Err() == nil {
		select {
		case <-changed:
			return nil // it has already
		default:
		}
	}
	most := p.left
	if askAgain {
		most = min(p.pause, p.left)
		p.pause = min(2*p.pause, 20*p.first)
	}
	start := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for an owner: %w", ctx.Err())
	}
	p.left -= time.Since(start)
	return nil
}
