package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Sink hears what happens on a followed conversation.
type Sink = interface {
	Change(change *conversationpb.Change)
	Closed(reason error)
}

// Local is the shell of this node. "Not the owner" is an error with a method NotOwner() (shard uint32, epoch uint64)
// in its chain.
type Local interface {
	Ask(ctx context.Context, in uint32, id string, command proto.Message) (proto.Message, error)
	Follow(ctx context.Context, in uint32, id string, sink Sink) (*conversationpb.Snapshot, func(), error)
}

// Remote is the shell of another node, reached over the network. Same answers as Local.
type Remote interface {
	Ask(ctx context.Context, to Owner, id string, command proto.Message) (proto.Message, error)
	Follow(ctx context.Context, to Owner, id string, sink Sink) (*conversationpb.Snapshot, func(), error)
}

// Leaders knows who owns a shard.
type Leaders interface {
	// Owner returns the newest known owner, false when none is known. It does not block.
	Owner(in shard.ID) (Owner, bool)
}

// Owner is a node that owns a shard under an epoch.
type Owner struct {
	Node  string
	Shard shard.ID
	Epoch shard.Epoch
}

// Config is what a Router needs. Zero values mean the defaults; Node, Shards, Local, Leaders and Refuse are required.
type Config struct {
	// Node is the name of this node.
	Node string
	// Shards is the map of the cluster.
	Shards shard.Map
	Local  Local
	// Remote reaches the other nodes; nil on a cluster of one.
	Remote  Remote
	Leaders Leaders
	// Refuse makes the refusal that the edge understands.
	Refuse func(code failurepb.Code, message string) error
	// OwnerWait bounds how long a call waits for a shard to get an owner, within the caller's own deadline. Longer
	// rides out an election, shorter tells the client sooner. Default 2 s.
	OwnerWait time.Duration
	// OwnerPoll is the first pause before it looks again; pauses double up to twenty times that. Default 5 ms.
	OwnerPoll time.Duration
}

// Router takes calls to owners. It is safe for concurrent use and owns no goroutines.
type Router struct {
	config Config
}

// New returns a router.
func New(config Config) (*Router, error) {
	if config.Node == "" || config.Local == nil || config.Leaders == nil || config.Refuse == nil || config.Shards.Count() == 0 {
		return nil, errors.New("cluster: Node, Shards, Local, Leaders and Refuse are required")
	}
	if config.OwnerWait < 0 || config.OwnerPoll < 0 {
		return nil, errors.New("cluster: OwnerWait and OwnerPoll must not be negative")
	}
	if config.OwnerWait == 0 {
		config.OwnerWait = 2 * time.Second
	}
	if config.OwnerPoll == 0 {
		config.OwnerPoll = 5 * time.Millisecond
	}
	return &Router{config: config}, nil
}

// Ask sends a command to the owner of an entity and returns the reply.
func (r *Router) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	var reply proto.Message
	err := r.route(ctx, id, func(to Owner) error {
		var err error
		if to.Node == r.config.Node {
			reply, err = r.config.Local.Ask(ctx, uint32(to.Shard), id, command)
			return err
		}
		reply, err = r.config.Remote.Ask(ctx, to, id, command)
		return err
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// Follow subscribes to a conversation at its owner. See Local for the promises; when the owner changes, the sink is
// closed and whoever is interested follows anew.
func (r *Router) Follow(ctx context.Context, id string, sink Sink) (*conversationpb.Snapshot, func(), error) {
	var (
		snapshot *conversationpb.Snapshot
		cancel   func()
	)
	err := r.route(ctx, id, func(to Owner) error {
		var err error
		if to.Node == r.config.Node {
			snapshot, cancel, err = r.config.Local.Follow(ctx, uint32(to.Shard), id, sink)
			return err
		}
		snapshot, cancel, err = r.config.Remote.Follow(ctx, to, id, sink)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return snapshot, cancel, nil
}

// route makes a call to the owner, and again only as long as it is told "not the owner".
func (r *Router) route(ctx context.Context, id string, call func(to Owner) error) error {
	in, valid := r.config.Shards.Of(id)
	if !valid {
		return r.config.Refuse(failurepb.Code_NOT_FOUND, "not found")
	}
	var deadline time.Time // set when the first owner was not to be had: the usual path needs no clock
	wait := r.config.OwnerPoll
	for {
		if to, known := r.config.Leaders.Owner(in); known && r.reachable(to) {
			to.Shard = in
			if err := call(to); !isNotOwner(err) {
				return err
			}
		}
		if deadline.IsZero() {
			deadline = time.Now().Add(r.config.OwnerWait)
		}
		if time.Now().After(deadline) {
			return r.config.Refuse(failurepb.Code_UNAVAILABLE, "the conversation has no owner right now")
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, 20*r.config.OwnerPoll)
	}
}

// isNotOwner says that nothing was done, because the node does not own the shard (or has not heard of it yet).
func isNotOwner(err error) bool {
	var notOwner interface {
		NotOwner() (uint32, uint64)
	}
	return errors.As(err, &notOwner)
}

func (r *Router) reachable(to Owner) bool { return to.Node == r.config.Node || r.config.Remote != nil }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for an owner: %w", ctx.Err())
	}
}

// Shard returns the shard of an id; false for a text that is no id of ours.
func (r *Router) Shard(id string) (shard.ID, bool) { return r.config.Shards.Of(id) }
