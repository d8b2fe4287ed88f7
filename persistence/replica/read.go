package replica

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
)

// read is one call waiting for a read point.
type read struct {
	group *group
	// done has room for the one answer.
	done chan error
}

// readBatch is the reads of one round: they share one read index.
type readBatch struct {
	seq       uint64
	index     uint64
	confirmed bool
	reads     []*read
}

// ReadBarrier returns nil once a read of this node's state sees everything acknowledged before the call. Only the leader can give it. On a node that is
// the only member it costs two atomic loads: what was acknowledged is applied, and nobody else can lead.
func (d *Driver) ReadBarrier(ctx context.Context, group GroupID) error {
	r, err := d.askRead(group)
	if r == nil {
		return err
	}
	return d.awaitRead(ctx, r)
}

// ReadBarriers is ReadBarrier for several groups: it asks for all of them before it waits, so that it takes one round trip and not one for each.
func (d *Driver) ReadBarriers(ctx context.Context, groups []GroupID) error {
	var asked []*read
	var first error
	for _, group := range groups {
		r, err := d.askRead(group)
		if err != nil {
			first = err
			break
		}
		if r != nil {
			asked = append(asked, r)
		}
	}
	for _, r := range asked {
		if first != nil {
			r.group.asked.Add(-1) // its answer has room, and nobody reads it
			continue
		}
		first = d.awaitRead(ctx, r)
	}
	return first
}

// askRead asks the loop for a read point. Without error and read there is nothing to wait for.
func (d *Driver) askRead(group GroupID) (*read, error) {
	g := d.table.get(group)
	switch {
	case g == nil:
		return nil, fmt.Errorf("%w %d", ErrUnknownGroup, group)
	case g.aloneLead.Load():
		return nil, nil
	case d.Err() != nil:
		return nil, d.Err()
	case !d.running.Load():
		return nil, ErrStopped
	case !g.leading.Load():
		return nil, g.notLeader()
	}
	if g.asked.Add(1) > int64(d.cfg.MaxPending) {
		g.asked.Add(-1)
		return nil, ErrBusy
	}
	r := &read{group: g, done: make(chan error, 1)}
	if !d.inbox.read(r) {
		g.asked.Add(-1)
		return nil, d.closedErr()
	}
	return r, nil
}

func (d *Driver) awaitRead(ctx context.Context, r *read) error {
	defer r.group.asked.Add(-1)
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.failed:
		return d.closedErr()
	}
}

// stepReads asks raft for one read index for all reads of this round.
func (d *Driver) stepReads(g *group) {
	if len(g.asking) == 0 {
		return
	}
	reads := g.asking
	g.asking = nil
	if !g.leading.Load() {
		answerReads(reads, g.notLeader())
		return
	}
	g.readSeq++
	g.reads = append(g.reads, readBatch{seq: g.readSeq, reads: reads})
	g.node.ReadIndex(binary.BigEndian.AppendUint64(nil, g.readSeq))
}

func (g *group) confirmReads(rs raft.ReadState) {
	if len(rs.RequestCtx) != 8 {
		return
	}
	seq := binary.BigEndian.Uint64(rs.RequestCtx)
	for i := range g.reads {
		if g.reads[i].seq == seq {
			g.reads[i].index, g.reads[i].confirmed = rs.Index, true
		}
	}
}

// answerReads answers the batches whose read index is confirmed and applied. They are confirmed in order.
func (d *Driver) answerReads(g *group) {
	n := 0
	for n < len(g.reads) && g.reads[n].confirmed && g.reads[n].index <= g.applied.index {
		answerReads(g.reads[n].reads, nil)
		g.reads[n] = readBatch{}
		n++
	}
	g.reads = g.reads[n:]
	if len(g.reads) == 0 {
		g.reads = nil
	}
}

func (g *group) answerAllReads(err error) {
	answerReads(g.asking, err)
	for _, b := range g.reads {
		answerReads(b.reads, err)
	}
	g.asking, g.reads = nil, nil
}

func answerReads(reads []*read, err error) {
	for _, r := range reads {
		if r != nil {
			r.done <- err
		}
	}
}
