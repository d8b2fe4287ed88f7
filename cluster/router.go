package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Local is the shell of this node. It serves a call or answers "not the owner"; it never forwards one. Its errors may carry
// more information, by methods anywhere in their chain:
//
//	NotOwner() (shard uint32, epoch uint64)  nothing was done: this node does not own the shard
//	Owner() string                           with NotOwner: the owner under that epoch, "" = not known
//	Lost() bool                              true: it may have been carried out, and no answer will come
type Local interface {
	// Ask sends a command to an entity.
	Ask(ctx context.Context, in uint32, id string, command proto.Message) (proto.Message, error)
	// Read answers a query of a shard.
	Read(ctx context.Context, in uint32, query proto.Message) (proto.Message, error)
	// Call carries out a request about this node itself. from is the requesting node.
	Call(ctx context.Context, from string, request proto.Message) (proto.Message, error)
	// Follow subscribes to an entity. The changes continue the state in the snapshot. ctx bounds the call only; the follow
	// lasts until it is cancelled or its sink is closed.
	Follow(ctx context.Context, in uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error)
}

// Remote reaches the shells of the other nodes over the network. It answers as Local does. A node that cannot be reached at all
// counts as "not the owner", because nothing was done.
type Remote interface {
	Ask(ctx context.Context, to Owner, id string, command proto.Message) (proto.Message, error)
	Read(ctx context.Context, to Owner, query proto.Message) (proto.Message, error)
	Call(ctx context.Context, node string, request proto.Message) (proto.Message, error)
	Follow(ctx context.Context, to Owner, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error)
}

// Config configures a Router. Zero values mean the defaults; Node, Shards, Local, Owners and Refuse are required.
type Config struct {
	// Node is the name of this node.
	Node string
	// Shards maps ids to shards.
	Shards shard.Map
	Local  Local
	// Remote reaches the other nodes; nil on a cluster of one.
	Remote Remote
	Owners *Owners
	// Refuse builds the failure that the edge returns to its caller.
	Refuse func(code failurepb.Code, reason failure.Reason) error
	// OwnerWait bounds the total time that a call waits for its shard to have an owner that answers, within the caller's own
	// deadline. Time in which an owner works on the call does not count. A longer wait survives slower elections, a shorter one
	// answers the client sooner. Default 2 s.
	OwnerWait time.Duration
	// RetryPause is the first pause before asking the same node again, when the table has it as the owner but it denies that or
	// cannot be reached. Pauses double up to twenty times that. A new owner is asked at once. Default 5 ms.
	RetryPause time.Duration
	Registerer prometheus.Registerer // nil = none
}

// DefaultOwnerWait is the default of Config.OwnerWait.
const DefaultOwnerWait = 2 * time.Second

// Router routes calls to the owners of shards. It is safe for concurrent use and starts no goroutines of its own.
type Router struct {
	config  Config
	metrics *metrics
}

// New returns a router.
func New(config Config) (*Router, error) {
	if config.Node == "" || config.Local == nil || config.Owners == nil || config.Refuse == nil || config.Shards.Count() == 0 {
		return nil, errors.New("cluster: Node, Shards, Local, Owners and Refuse are required")
	}
	if config.OwnerWait < 0 || config.RetryPause < 0 {
		return nil, errors.New("cluster: OwnerWait and RetryPause must not be negative")
	}
	if config.OwnerWait == 0 {
		config.OwnerWait = DefaultOwnerWait
	}
	if config.RetryPause == 0 {
		config.RetryPause = 5 * time.Millisecond
	}
	return &Router{config: config, metrics: newMetrics(config.Registerer)}, nil
}

// Shard returns the shard of an id; false if the text is not a valid id.
func (r *Router) Shard(id string) (shard.ID, bool) { return r.config.Shards.Of(id) }

// Ask sends a command to the owner of an entity and returns the reply and the name of the node that gave it. A command is sent
// again if its owner was lost before it answered, so it must carry an id that the entity remembers. A command with a method
// Repeat is sent again in the form that Repeat returns.
func (r *Router) Ask(ctx context.Context, id string, command proto.Message) (reply proto.Message, servedBy string, err error) {
	in, valid := r.config.Shards.Of(id)
	if !valid {
		return nil, "", r.config.Refuse(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	servedBy, err = r.route(ctx, in, func(ctx context.Context, to Owner) (failed error) {
		if to.Node == r.config.Node {
			reply, failed = r.config.Local.Ask(ctx, uint32(to.Shard), id, command)
		} else {
			reply, failed = r.config.Remote.Ask(ctx, to, id, command)
		}
		if again(failed) || failed != nil && ctx.Err() != nil {
			command = repeat(command)
		}
		return failed
	})
	return reply, servedBy, err
}

// repeat returns a command in the form in which it is sent again. An owner that loses the shard while it handles a command also
// answers "not the owner", so every repeated command counts as possibly carried out.
func repeat(command proto.Message) proto.Message {
	if c, ok := command.(interface{ Repeat() proto.Message }); ok {
		return c.Repeat()
	}
	return command
}

// Read sends a query to the owner of a shard and returns the answer and the name of the node that gave it.
func (r *Router) Read(ctx context.Context, in shard.ID, query proto.Message) (answer proto.Message, servedBy string, err error) {
	servedBy, err = r.route(ctx, in, func(ctx context.Context, to Owner) (failed error) {
		answer, failed = r.read(ctx, to, query)
		return failed
	})
	return answer, servedBy, err
}

func (r *Router) read(ctx context.Context, to Owner, query proto.Message) (proto.Message, error) {
	if to.Node == r.config.Node {
		return r.config.Local.Read(ctx, uint32(to.Shard), query)
	}
	return r.config.Remote.Read(ctx, to, query)
}

// Call sends a request about one node to that node. It is never repeated.
func (r *Router) Call(ctx context.Context, node string, request proto.Message) (proto.Message, error) {
	switch {
	case node == r.config.Node:
		return r.config.Local.Call(ctx, node, request)
	case r.config.Remote == nil:
		return nil, r.config.Refuse(failurepb.Code_UNAVAILABLE, failure.NodeAlone)
	}
	return r.config.Remote.Call(ctx, node, request)
}
