package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/actors/core/follow"
)

// Patience is the remaining time that a call may spend without an owner that answers. It is not safe for concurrent use.
type Patience struct {
	left, whole  time.Duration
	pause, first time.Duration
	spared       bool
}

// NewPatience returns a Patience of the given length. pause is the first pause between two attempts at the same owner; pauses
// double up to twenty times that.
func NewPatience(whole, pause time.Duration) Patience {
	return Patience{left: whole, whole: whole, pause: pause, first: pause}
}

// Over reports whether the time is used up.
func (p *Patience) Over() bool { return p.left <= 0 }

// Spend deducts the time of a failed attempt. Time in which an owner worked on the call does not count, that is, the time
// before the node went silent or was lost. All of the time counts if the node answered that it is not the owner: it can only
// have been waiting for its successor.
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
		*p = NewPatience(p.whole, p.first) // there was an owner for a long time: a call may outlast several restarts
		return
	}
	p.left -= idle
	if refused && !p.spared && took >= p.whole/4 {
		p.spared, p.left = true, max(p.left, p.whole/4) // its successor will be known soon
	}
}

// Wait returns when the known owner changes, or after a pause if the present one can be asked again. Calls that succeed at
// once never get here, so they cost no timer.
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
