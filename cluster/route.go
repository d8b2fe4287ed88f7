package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster/shard"
	"parley/proto/failurepb"
)

// errMoved ends a call to an owner that is not the owner any more. The owner may have done it all the same.
var errMoved = errors.New("the shard has another owner now")

// route makes a call to the owner of a shard until an owner answers it, and returns who did. "Not the owner" means that
// nothing was done. When the owner was lost the call may have been done: it is made again all the same, because reads
// change nothing and commands carry ids that the owner remembers.
func (r *Router) route(ctx context.Context, in shard.ID, call func(ctx context.Context, to Owner) error) (servedBy string, err error) {
	p := NewPatience(r.config.OwnerWait, r.config.RetryPause)
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
			p.Spend(time.Since(start), err)
		}
		r.metrics.retry(asked, err)
		if p.Over() {
			r.metrics.gaveUp.Inc()
			return "", r.config.Refuse(failurepb.Code_UNAVAILABLE, failure.ConversationWithoutOwner)
		}
		if err := p.Wait(ctx, now.over.Done(), asked); err != nil {
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
func again(err error) bool { return err != nil && (follow.IsNotOwner(err) || follow.IsLost(err)) }

// lostError says that a call may have been done, and that no answer will come.
type lostError struct{ error }

// Lost implements what errors of Local and Remote may say.
func (e *lostError) Lost() bool { return true }

// Unwrap returns what went wrong.
func (e *lostError) Unwrap() error { return e.error }
