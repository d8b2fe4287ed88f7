package replica

import (
	"context"
	"io"
)

// Driver runs the raft groups of one node.
type Driver struct{ cfg Config }

// Open recovers the groups from cfg.DB, or creates them in an empty one. It refuses a store that does not fit with ErrInconsistent. Nothing runs before Start.
func Open(cfg Config) (*Driver, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg}, nil
}

// Start starts the goroutines. Groups whose only voter is this node elect it at once.
func (d *Driver) Start() {}

// Stop answers what is waiting, finishes what is queued for the disk and waits for every goroutine. Safe twice and before Start.
func (d *Driver) Stop() {}

// Fail marks the store as failed, as a failed commit does: for a Pebble logger whose Fatalf must not end the process.
func (d *Driver) Fail(error) {}

// Err is why the store failed, nil while it has not.
func (d *Driver) Err() error { return nil }

// Propose replicates data in the log of a group and returns what the StateMachine made of it here. data must not change after the call. Errors:
// ErrNotLeader, ErrBusy, ErrTooLarge, ErrFailed, ErrStopped, ErrUnknownGroup or that of Writable mean nothing was written;
// ErrOutcomeUnknown means it may have been.
func (d *Driver) Propose(context.Context, GroupID, []byte) (any, error) { return nil, ErrStopped }

// ReadBarrier returns nil once a read of this node's state sees everything acknowledged before the call. Only the leader can give it.
func (d *Driver) ReadBarrier(context.Context, GroupID) error { return ErrStopped }

// Leader is the node that leads a group and its term, as far as this node knows. This node is named only once it may be read and proposed to.
func (d *Driver) Leader(GroupID) (node NodeID, term uint64, ok bool) { return 0, 0, false }

// Ready is true once every group has a known leader and this node has applied what it knew to be committed when it started.
func (d *Driver) Ready() bool { return false }

// TransferLeader hands the leadership of a group to another voter and returns when this node knows of it.
func (d *Driver) TransferLeader(context.Context, GroupID, NodeID) error { return ErrStopped }

// Deliver takes messages from other nodes. It never blocks; what does not fit is dropped.
func (d *Driver) Deliver(...Message) {}

// ReceiveSnapshot takes the stream of a snapshot, makes it durable and hands it to the group.
func (d *Driver) ReceiveSnapshot(context.Context, Message, io.Reader) error { return ErrStopped }

// ReportUnreachable tells that messages to a node were lost.
func (d *Driver) ReportUnreachable(NodeID) {}
