package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
)

// Drop deletes the replica of a group that this node is no longer a member of: its state and its log. Term and vote are
// kept, so that a later replica does not vote twice. asOf is an index up to which the leader had applied the log when
// this node was not among its members: a replica whose log goes further has been added again since, or can be dropped
// with a later asOf. Drop returns nil once the deletion is durable, or when there is no replica; ErrStillMember
// refuses. It goes on when ctx ends first. One call per group at a time: ErrBusy.
func (d *Driver) Drop(ctx context.Context, group GroupID, asOf uint64) error {
	return d.ask(ctx, func(reply chan<- error) {
		g := d.table.get(group)
		switch {
		case d.loop.dropping[group]:
			reply <- ErrBusy
		case g == nil:
			reply <- nil
		default:
			if err := d.mayDrop(g, asOf); err != nil {
				reply <- err
				return
			}
			d.remove(g)
			if !d.appends.push(appendItem{group: g, drop: reply}) {
				reply <- d.closedErr()
			}
		}
	})
}

// mayDrop refuses while this node may still be a member. A leader that adds it again may rely on its responses before
// it has applied anything, so a replica that hears from a leader counts as a member, whatever it has applied.
func (d *Driver) mayDrop(g *group, asOf uint64) error {
	switch silence := d.electionTimeout(); {
	case g.role.state == raft.StateLeader:
		return fmt.Errorf("%w: node %d leads group %d", ErrStillMember, g.self, g.id)
	case g.log.last.index > asOf:
		return fmt.Errorf("%w: the log of group %d goes to %d, beyond %d", ErrStillMember, g.id, g.log.last.index, asOf)
	case d.loop.now-g.role.leaderSeen < silence, g.shared.receiving.Load():
		return fmt.Errorf("%w: the leader of group %d sends to node %d", ErrStillMember, g.id, g.self)
	}
	return nil
}

func (d *Driver) electionTimeout() time.Duration {
	return time.Duration(d.cfg.ElectionTicks) * d.cfg.TickInterval
}

// remove takes a replica out of the raft loop: it cannot be found or stepped any more, and no other can be created
// before its rows are gone.
func (d *Driver) remove(g *group) {
	g.gone = true
	d.loop.dropping[g.id] = true
	d.forget(g)
	d.answerAll(g.proposals.incoming, g.notLeader())
	d.answerAll(g.proposals.stepped, ErrOutcomeUnknown)
	d.answerAll(g.proposals.waiting, ErrOutcomeUnknown)
	g.proposals.incoming, g.proposals.stepped, g.proposals.waiting = nil, nil, nil
	g.reads.fail(g.notLeader())
	for _, t := range g.moves.transfers {
		t.reply <- ErrTransferFailed
	}
	g.moves.transfers = nil
	g.failTrials(g.notLeader())
	g.cancelSends(nobody)
	d.dropSpool(g)
	d.loop.changed = true
}

// startDestroy deletes the rows of a replica, after everything that the apply goroutine still writes for it. The append
// goroutine has finished with it.
func (d *Driver) startDestroy(g *group, hard hardState, reply chan<- error) {
	d.background(func(context.Context) {
		if !d.applyBarrier() {
			return
		}
		err := d.destroy(g, hard)
		switch {
		case d.Err() != nil:
			return
		case err != nil:
			d.Fail(fmt.Errorf("drop replica of group %d: %w", g.id, err))
			return
		}
		d.logger.Info("replica dropped", slog.Uint64("shard", uint64(g.id)))
		d.inbox.call(func() {
			delete(d.loop.dropping, g.id)
			reply <- nil
		})
	})
}

// applyBarrier waits until everything handed to the apply goroutine is committed. It is false if that will not happen.
func (d *Driver) applyBarrier() bool {
	barrier := make(chan struct{})
	if !d.applies.push(applyItem{barrier: barrier}) {
		return false
	}
	<-barrier
	return d.Err() == nil
}

func (d *Driver) destroy(g *group, hard hardState) error {
	hard.commit = 0
	start, end := d.cfg.Machine.Span(g.id)
	batch := d.cfg.DB.NewBatch()
	err := errors.Join(
		batch.DeleteRange(start, end, nil),
		batch.DeleteRange(g.keys.prefix, prefixEnd(g.keys.prefix), nil),
		batch.Set(g.keys.row(kindHardState), encodeHardState(hard), nil),
	)
	if err != nil {
		return fmt.Errorf("stage drop: %w", err)
	}
	if !d.commit("drop replica", batch, pebble.Sync) {
		return errCommit
	}
	return nil
}
