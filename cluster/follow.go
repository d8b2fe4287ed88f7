package cluster

import (
	"context"
	"sync"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Subscription is an established follow.
type Subscription struct {
	// Snapshot is the state at which the changes begin.
	Snapshot *conversationpb.Snapshot
	// Cancel ends the follow. It may be called more than once, also after the sink was closed.
	Cancel func()
	// Node is the owner that serves it.
	Node string
}

// Follow subscribes to a conversation at its owner, with the guarantees of Local.Follow. A follow does not move: when the owner
// changes the sink is closed, and the subscriber follows again.
func (r *Router) Follow(ctx context.Context, id string, sink follow.Sink) (*Subscription, error) {
	in, valid := r.config.Shards.Of(id)
	if !valid {
		return nil, r.config.Refuse(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	return r.FollowIn(ctx, in, id, sink)
}

// FollowIn is Follow for something that is in a shard whatever its name says, such as a feed of it (follow.Feed).
func (r *Router) FollowIn(ctx context.Context, in shard.ID, id string, sink follow.Sink) (*Subscription, error) {
	made := &Subscription{}
	node, err := r.route(ctx, in, func(ctx context.Context, to Owner) error {
		var err error
		if to.Node == r.config.Node {
			made.Snapshot, made.Cancel, err = r.config.Local.Follow(ctx, uint32(to.Shard), id, sink)
			return err
		}
		// Each attempt has its own guard, so that an abandoned subscription can no longer reach the sink.
		g := &guard{sink: sink}
		snapshot, cancel, err := r.config.Remote.Follow(ctx, to, id, g)
		if err != nil {
			g.silence()
			return err
		}
		made.Snapshot, made.Cancel = snapshot, g.watch(r.config.Owners.term(in), to, cancel)
		return nil
	})
	if err != nil {
		return nil, err
	}
	made.Node = node
	return made, nil
}

// guard closes a sink when the shard changes owners. A previous owner that is cut off or stopped would not do so.
type guard struct {
	sink follow.Sink

	mu     sync.Mutex // held while the sink is called, so that nothing follows Closed
	closed bool
	stop   func() bool // ends the watch for the end of the term; nil before watch
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

// watch closes the sink when the term ends, or at once if the term is already another owner's. It returns the function that
// cancels the follow.
func (g *guard) watch(now *term, of Owner, cancel func()) func() {
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
