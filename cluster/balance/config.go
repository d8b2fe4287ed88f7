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

// Record is the stored record of a node. A node with a record belongs to the cluster.
type Record struct {
	Name string
	// Node identifies its data directory.
	Node uint64
	// Draining means that all of its leaderships and replicas are to be moved away.
	Draining bool
}

// Nodes are the stored records of nodes.
type Nodes interface {
	// Records returns all records. They may be slightly out of date.
	Records(ctx context.Context) ([]Record, error)
	// Register stores the id of a node's data directory and leaves the other fields of its record unchanged. It fails if
	// this node cannot write the directory.
	Register(ctx context.Context, name string, node uint64) error
}

// Router sends a request to a node. *cluster.Router implements it.
type Router interface {
	Call(ctx context.Context, node string, request proto.Message) (proto.Message, error)
}

// Config configures a Loop. Zero values mean the defaults; Board, Nodes, Router, Leading and Shards are required.
type Config struct {
	Board  *cluster.Board
	Nodes  Nodes
	Router Router
	// Leading reports whether this node's loop acts: it owns the directory and has caught up with its log.
	Leading func() bool
	// Shards is the number of conversation shards of the cluster.
	Shards int
	// Policy describes the wanted placement; the zero value means shard.DefaultPolicy().
	Policy shard.Policy
	// Interval is the pause between two rounds if nothing changes. After a change the next round starts after a twentieth of
	// it. A shorter interval notices sooner that a replica has caught up. Default 1 s.
	Interval time.Duration
	// StepTimeout bounds one step. Default 15 s.
	StepTimeout time.Duration
	// Silence is how long a node may send no report and still count as live. Default 5 s.
	Silence time.Duration
	// Settle is how long nothing is moved for balance after a leader change that the loop did not cause: a little longer than
	// it takes to detect a dead node. Transferring a leadership to a dead node would pause the shard. Default 3 s.
	Settle time.Duration
	// Patience is how long leaders may be spread unevenly before shards are moved whose turns run. Default 30 s.
	Patience time.Duration
	// Retry is the first pause after a failed step before its shard gets another; pauses double up to 30 times that.
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
		{&c.Patience, 30 * time.Second},
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
