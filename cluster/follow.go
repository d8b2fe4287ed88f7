package cluster

import (
	"context"
	"sync"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Subscription is a follow that has begun.
type Subscription struct {
	// Snapshot is the state at which the changes begin.
	Snapshot *conversationpb.Snapshot
	// Cancel ends the follow. It may be called more than once, and after the sink was closed.
	Cancel func()
	// Node is the owner that serves it.
	Node string
}

// Follow subscribes to a conversation at its owner. See Local for the promises. A follow is not moved: when the owner
// changes, the sink is closed, and whoever is interested follows anew.
func (r *Router) Follow(ctx context.Context, id string, sink follow.Sink) (*Subscription, error) {
	in, valid := r.config.Shards.Of(id)
	if !valid {
		return nil, r.config.Refuse(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	made := &Subscription{}
	node, err := r.route(ctx, in, func(ctx context.Context, to Owner) error {
		var err error
		if to.Node == r.config.Node {
			made.Snapshot, made.Cancel, err = r.config.Local.Follow(ctx, uint32(to.Shard), id, sink)
			return err
		}
		// Each try has its own guard, so that a subscription that was given up cannot speak any more.
		g := &guard{sink: sink}
		snapshot, cancel, err := r.config.Remote.Follow(ctx, to, id, g)
		if err != nil {
			g.silence()
			return err
		}
		made.Snapshot, made.Cancel = snapshot, g.watch(r.config.Owners.reign(in), to, cancel)
		return nil
	})
	if err != nil {
		return nil, err
	}
	made.Node = node
	return made, nil
}

// guard closes a sink when its owner is not the owner any more, which a node that is cut off or stopped does not tell.
type guard struct {
	sink follow.Sink

	mu     sync.Mutex // held while the sink is told, so that nothing comes after Closed
	closed bool
	stop   func() bool // ends the watch on the owner; nil before watch
}

// Change implements Sink.
func (g *guard) Change(change *conversationpb.Change) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.sink.Change(change)
	}
}

// Closed implements Sink.
func (g *guard) Closed(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closeLocked()
		g.sink.Closed(reason)
	}
}

func (g *guard) silence() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closeLocked()
}

func (g *guard) closeLocked() {
	g.closed = true
	if g.stop != nil {
		g.stop()
	}
}

// watch closes the sink when the reign ends, and at once if that is of another owner already. It returns what cancels
// the follow.
func (g *guard) watch(now *reign, of Owner, cancel func()) func() {
	moved := func() {
		g.Closed(&lostError{errMoved})
		cancel()
	}
	if now.owner != of {
		moved()
		return cancel
	}
	stop := context.AfterFunc(now.over, moved)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop = stop
	if g.closed {
		stop()
	}
	return func() {
		stop()
		cancel()
	}
}
