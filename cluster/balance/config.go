package balance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/shard"
)

// Record is what is stored of a node: that it belongs to the cluster, which data it has, and whether it is to be
// emptied.
type Record struct {
	Name string
	// Node names its data.
	Node     uint64
	Draining bool
}

// Nodes are the stored records of nodes.
type Nodes interface {
	// Records returns all of them, as of a moment not long ago.
	Records(ctx context.Context) ([]Record, error)
	// Register stores which data a node has, and leaves everything else of its record as it is. It is an error when
	// this node cannot write.
	Register(ctx context.Context, name string, node uint64) error
}

// Router makes a call to a node; *cluster.Router is one.
type Router interface {
	Call(ctx context.Context, node string, request proto.Message) (proto.Message, error)
}

// Config is what a Loop needs. Zero values mean the defaults; Board, Nodes, Router, Leading and Shards are required.
type Config struct {
	Board  *cluster.Board
	Nodes  Nodes
	Router Router
	// Leading says whether this node is the one that acts: it owns the directory, and has all of it.
	Leading func() bool
	// Shards is the number of conversation shards of the cluster.
	Shards int
	// Policy says how the cluster should look; its zero value means shard.DefaultPolicy().
	Policy shard.Policy
	// Interval is the pause between two looks when nothing happens. A change is looked at after a twentieth of it.
	// Shorter finds out sooner that a copy has caught up. Default 1 s.
	Interval time.Duration
	// StepTimeout bounds one step. Default 15 s.
	StepTimeout time.Duration
	// Silence is how long a node may say nothing and still count as there. Default 5 s.
	Silence time.Duration
	// Settle is for how long nothing is moved only to be even after leaders changed by themselves: a little longer than
	// it takes until a dead node is known to be. Handing leaders to one would cost their shards a pause. Default 3 s.
	Settle time.Duration
	// Retry is the first pause before a shard is touched again whose step failed; pauses double up to 30 times that.
	// Default 1 s.
	Retry      time.Duration
	Logger     *slog.Logger          // nil = none
	Registerer prometheus.Registerer // nil = none
}

func (c *Config) complete() error {
	if c.Board == nil || c.Nodes == nil || c.Router == nil || c.Leading == nil || c.Shards < 1 {
		return errors.New("balance: Board, Nodes, Router, Leading and Shards are required")
	}
	if c.Policy.Replication == 0 {
		c.Policy = shard.DefaultPolicy()
	}
	if c.Policy.Replication < 1 || c.Policy.Replication%2 == 0 {
		return errors.New("balance: replication must be an odd number")
	}
	for _, d := range []struct {
		value   *time.Duration
		without time.Duration
	}{
		{&c.Interval, time.Second},
		{&c.StepTimeout, 15 * time.Second},
		{&c.Silence, 5 * time.Second},
		{&c.Settle, 3 * time.Second},
		{&c.Retry, time.Second},
	} {
		switch {
		case *d.value < 0:
			return errors.New("balance: durations must not be negative")
		case *d.value == 0:
			*d.value = d.without
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
