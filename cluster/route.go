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

// errMoved ends a call whose shard has changed owners. The previous owner may still have carried it out.
var errMoved = errors.New("the shard has another owner now")

// route calls the owner of a shard, and the next owner if need be, until one of them answers, and returns that node's name.
// "Not the owner" means that nothing was done. If the owner was lost, the call may have been carried out. It is repeated anyway:
// reads change nothing, and commands carry ids by which the next owner recognises them.
func (r *Router) route(ctx context.Context, in shard.ID, call func(ctx context.Context, to Owner) error) (servedBy string, err error) {
	p := NewPatience(r.config.OwnerWait, r.config.RetryPause)
	for {
		now := r.config.Owners.term(in)
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

// try calls one owner. A call to another node is cancelled when the owner changes, because a node that is cut off or stopped
// would never answer.
func (r *Router) try(ctx context.Context, now *term, call func(ctx context.Context, to Owner) error) error {
	if now.owner.Node == r.config.Node {
		return call(ctx, now.owner)
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(now.over, func() { cancel(errMoved) })() //nolint:contextcheck // it waits for the end of the term
	err := call(bounded, now.owner)
	if err != nil && errors.Is(context.Cause(bounded), errMoved) {
		return &lostError{fmt.Errorf("%w: %w", errMoved, err)}
	}
	return err
}

// learn takes the owner that a "not the owner" answer names. It ignores shards that were not asked for.
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

// again reports whether a call that failed like this may be repeated.
func again(err error) bool { return err != nil && (follow.IsNotOwner(err) || follow.IsLost(err)) }

// lostError means that a call may have been carried out and that no answer will come.
type lostError struct{ error }

// Lost implements the method that Local documents.
func (e *lostError) Lost() bool { return true }

// Unwrap returns the cause.
func (e *lostError) Unwrap() error { return e.error }
