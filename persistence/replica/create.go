package replica

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3/raftpb"
)

// fromLeader reports whether only the leader of a group sends such a message, and only to members.
func fromLeader(m *raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		return true
	default:
		return false
	}
}

// createFor creates the replica that a leader expects here: without state or members, and not allowed to campaign,
// until the leader sends a snapshot. It returns nil for a message that is no reason to create one. Runs in the raft
// loop.
func (d *Driver) createFor(id GroupID, m *raftpb.Message) *group {
	if d.loop.dropping[id] || !fromLeader(m) || uint64(id) >= uint64(len(d.table)) {
		return nil
	}
	g := d.newGroup(id)
	row, err := d.get(g.keys.row(kindHardState))
	if err == nil && row != nil {
		// The vote of a replica that was dropped, or never got its state.
		g.log.hard, err = parseHardState(row)
		g.log.hard.commit = 0
	}
	if err == nil && m.GetTerm() < g.log.hard.term {
		return nil
	}
	if err == nil {
		err = d.startNode(g)
	}
	if err != nil {
		d.Fail(fmt.Errorf("create replica of group %d: %w", id, err))
		return nil
	}
	d.logger.Info("new replica", slog.Uint64("shard", uint64(id)), slog.Uint64("leader", m.GetFrom()), slog.Uint64("epoch", m.GetTerm()))
	d.add(g)
	return g
}

// ensure returns the replica that a snapshot is for, and creates it if necessary.
func (d *Driver) ensure(ctx context.Context, id GroupID, m *raftpb.Message) (*group, error) {
	g := d.table.get(id)
	if g != nil {
		return g, nil
	}
	err := d.ask(ctx, func(reply chan<- error) {
		if g = d.table.get(id); g == nil {
			g = d.createFor(id, m)
		}
		if g == nil {
			reply <- fmt.Errorf("%w %d", ErrUnknownGroup, id)
			return
		}
		d.touch(g)
		reply <- nil
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}
