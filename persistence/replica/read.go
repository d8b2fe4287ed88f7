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

// readQueue holds the reads of a group that wait for a read index.
type readQueue struct {
	// asking are the reads of this round.
	asking  []*read
	batches []readBatch
	// seq numbers the batches.
	seq uint64
}

// readBatch is the reads of one round. They share one read index.
type readBatch struct {
	seq       uint64
	index     uint64
	confirmed bool
	reads     []*read
}

// ReadBarrier returns nil once a read of this node's state sees everything acknowledged before the call. Only the
// leader can do that. On a node that is the only member it costs two atomic loads: everything acknowledged has been
// applied, and no other node can lead.
func (d *Driver) ReadBarrier(ctx context.Context, group GroupID) error {
	r, err := d.askRead(group)
	if r == nil {
		return err
	}
	return d.awaitRead(ctx, r)
}

// ReadBarriers is ReadBarrier for several groups. It asks for all of them before it waits, so it takes one round trip
// in all.
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
			r.group.shared.pendingReads.Add(-1) // the answer is buffered, and not read
			continue
		}
		first = d.awaitRead(ctx, r)
	}
	return first
}

// askRead asks the loop for a read point. If both results are nil there is nothing to wait for.
func (d *Driver) askRead(group GroupID) (*read, error) {
	g := d.table.get(group)
	switch {
	case g == nil:
		return nil, fmt.Errorf("%w %d", ErrUnknownGroup, group)
	case g.shared.aloneLead.Load():
		return nil, nil
	case d.Err() != nil:
		return nil, d.Err()
	case !d.running.Load():
		return nil, ErrStopped
	case !g.shared.leading.Load():
		return nil, g.notLeader()
	}
	if g.shared.pendingReads.Add(1) > int64(d.cfg.MaxPending) {
		g.shared.pendingReads.Add(-1)
		return nil, ErrBusy
	}
	r := &read{group: g, done: make(chan error, 1)}
	if !d.inbox.read(r) {
		g.shared.pendingReads.Add(-1)
		return nil, d.closedErr()
	}
	return r, nil
}

func (d *Driver) awaitRead(ctx context.Context, r *read) error {
	defer r.group.shared.pendingReads.Add(-1)
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
	if len(g.reads.asking) == 0 {
		return
	}
	reads := g.reads.asking
	g.reads.asking = nil
	if !g.shared.leading.Load() {
		answerReads(reads, g.notLeader())
		return
	}
	g.reads.seq++
	g.reads.batches = append(g.reads.batches, readBatch{seq: g.reads.seq, reads: reads})
	g.node.ReadIndex(binary.BigEndian.AppendUint64(nil, g.reads.seq))
}

// confirm notes the read index that raft has given one of the batches.
func (q *readQueue) confirm(rs raft.ReadState) {
	if len(rs.RequestCtx) != 8 {
		return
	}
	seq := binary.BigEndian.Uint64(rs.RequestCtx)
	for i := range q.batches {
		if q.batches[i].seq == seq {
			q.batches[i].index, q.batches[i].confirmed = rs.Index, true
		}
	}
}

// answer ends the batches whose read index is confirmed and applied. Raft confirms them in order.
func (q *readQueue) answer(applied uint64) {
	n := 0
	for n < len(q.batches) && q.batches[n].confirmed && q.batches[n].index <= applied {
		answerReads(q.batches[n].reads, nil)
		q.batches[n] = readBatch{}
		n++
	}
	q.batches = q.batches[n:]
	if len(q.batches) == 0 {
		q.batches = nil
	}
}

// fail ends all reads with an error.
func (q *readQueue) fail(err error) {
	answerReads(q.asking, err)
	for _, b := range q.batches {
		answerReads(b.reads, err)
	}
	q.asking, q.batches = nil, nil
}

func answerReads(reads []*read, err error) {
	for _, r := range reads {
		if r != nil {
			r.done <- err
		}
	}
}
