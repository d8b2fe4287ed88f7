package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/cluster/shard"
	"parley/proto/failurepb"
)

// errMoved ends a call to an owner that is not the owner any more. The owner may have done it all the same.
var errMoved = errors.New("the shard has another owner now")

// route makes a call to the owner of a shard until an owner answers it, and returns who did. "Not the owner" means that
// nothing was done. When the owner was lost the call may have been done: it is made again all the same, because reads
// change nothing and commands carry ids that the owner remembers.
func (r *Router) route(ctx context.Context, in shard.ID, call func(ctx context.Context, to Owner) error) (servedBy string, err error) {
	p := r.patience()
	for {
		now := r.config.Owners.reign(in)
		asked := now.known() && r.reachable(now.owner.Node)
		if asked {
			start := time.Now()
			err = r.try(ctx, now, call)
			if !again(err) {
				r.metrics.call(now.owner.Node == r.config.Node)
				return now.owner.Node, err
			}
			r.learn(err, in)
			p.spend(time.Since(start), err)
		}
		r.metrics.retry(asked, err)
		if p.left <= 0 {
			r.metrics.gaveUp.Inc()
			return "", r.config.Refuse(failurepb.Code_UNAVAILABLE, "the conversation has no owner right now")
		}
		if err := p.wait(ctx, now, asked); err != nil {
			return "", err
		}
	}
}

// try makes the call to one owner. A call to another node ends when the owner changes: that node may be cut off or
// stopped, and would let the caller wait.
func (r *Router) try(ctx context.Context, now *reign, call func(ctx context.Context, to Owner) error) error {
	if now.owner.Node == r.config.Node {
		return call(ctx, now.owner)
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(now.over, func() { cancel(errMoved) })() //nolint:contextcheck // the reign's end is what it waits for
	err := call(bounded, now.owner)
	if err != nil && errors.Is(context.Cause(bounded), errMoved) {
		return &lostError{fmt.Errorf("%w: %w", errMoved, err)}
	}
	return err
}

// learn takes from "not the owner" who is. What is said of shards that were not asked for is not listened to.
func (r *Router) learn(err error, asked ...shard.ID) {
	var notOwner interface{ NotOwner() (uint32, uint64) }
	var named interface{ Owner() string }
	if !errors.As(err, &notOwner) || !errors.As(err, &named) {
		return
	}
	in, epoch := notOwner.NotOwner()
	if slices.Contains(asked, shard.ID(in)) {
		r.config.Owners.hint(Owner{Node: named.Owner(), Shard: shard.ID(in), Epoch: shard.Epoch(epoch)})
	}
}

func (r *Router) reachable(node string) bool { return node == r.config.Node || r.config.Remote != nil }

// again says that the call can be made again.
func again(err error) bool { return err != nil && (isNotOwner(err) || isLost(err)) }

func isNotOwner(err error) bool {
	var notOwner interface{ NotOwner() (uint32, uint64) }
	return errors.As(err, &notOwner)
}

func isLost(err error) bool {
	var lost interface{ Lost() bool }
	return errors.As(err, &lost) && lost.Lost()
}

// lostError says that a call may have been done, and that no answer will come.
type lostError struct{ error }

// Lost implements what errors of Local and Remote may say.
func (e *lostError) Lost() bool { return true }

// Unwrap returns what went wrong.
func (e *lostError) Unwrap() error { return e.error }

// patience is what a call has left of its time without an owner that answers.
type patience struct {
	left, whole    time.Duration
	pause, longest time.Duration
	spared         bool
}

func (r *Router) patience() patience {
	return patience{left: r.config.OwnerWait, whole: r.config.OwnerWait, pause: r.config.RetryPause, longest: 20 * r.config.RetryPause}
}

// spend takes the time of an attempt that came to nothing. Time in which an owner worked on the call does not count; that
// is what went before a node fell silent or was lost. One that says that it is not the owner (any more) has at most kept
// the call waiting for its successor.
func (p *patience) spend(took time.Duration, err error) {
	var silent interface{ Silent() time.Duration }
	idle := took
	switch {
	case isNotOwner(err):
	case errors.As(err, &silent):
		idle = min(took, silent.Silent())
	default:
		idle = 0
	}
	if took-idle >= p.whole || isNotOwner(err) && took >= p.whole {
		// There was an owner for long: a caller may wait through several restarts.
		*p = patience{left: p.whole, whole: p.whole, pause: p.longest / 20, longest: p.longest}
		return
	}
	p.left -= idle
	if !p.spared && took >= p.whole/4 && isNotOwner(err) {
		p.spared, p.left = true, max(p.left, p.whole/4) // its successor is about to be known
	}
}

// wait returns when something else is known of the owner, or after a pause when there is one that can be asked again.
// The usual call does not come here: it costs no timer.
func (p *patience) wait(ctx context.Context, now *reign, askAgain bool) error {
	if ctx.Err() == nil && now.over.Err() != nil {
		return nil // something is already
	}
	most := p.left
	if askAgain {
		most = min(p.pause, p.left)
		p.pause = min(2*p.pause, p.longest)
	}
	start := time.Now()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-now.over.Done():
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for an owner: %w", ctx.Err())
	}
	p.left -= time.Since(start)
	return nil
}
