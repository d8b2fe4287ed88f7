package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"
)

// ErrTransferFailed answers a transfer to a node that is down or far behind, or one that raft aborted, usually because
// the other node did not catch up within an election timeout.
var ErrTransferFailed = errors.New("leadership was not taken over")

// transfer is one call waiting for a change of leader.
type transfer struct {
	to    NodeID
	reply chan<- error
}

// Leader returns the leader of a group and its term, as far as this node knows. It returns this node only once this
// node can serve reads and proposals.
func (d *Driver) Leader(group GroupID) (node NodeID, term uint64, ok bool) {
	g := d.table.get(group)
	if g == nil {
		return 0, 0, false
	}
	v := g.shared.view.Load()
	if v == nil {
		return 0, 0, false
	}
	return v.node, v.term, true
}

// announce makes this node the leader for callers once it has applied everything from before its term.
func (d *Driver) announce(g *group) {
	if g.role.state != raft.StateLeader || g.role.ownFirst == 0 || g.applied.index < g.role.ownFirst || g.shared.leading.Load() {
		return
	}
	g.shared.leading.Store(true)
	g.publish()
	d.logger.Debug("leading", slog.Uint64("shard", uint64(g.id)), slog.Uint64("epoch", g.role.term))
	d.cfg.OnLeader(g.id, g.role.term, true)
}

// loseLeadership fails everything that depended on the leadership.
func (d *Driver) loseLeadership(g *group, cause error) {
	g.role.ownFirst = 0
	term := g.role.term
	if v := g.shared.view.Load(); v != nil && v.node == g.self {
		term = v.term
	}
	if g.shared.leading.Swap(false) {
		d.logger.Info("no longer leading", slog.Uint64("shard", uint64(g.id)), slog.Uint64("epoch", term))
		d.cfg.OnLeader(g.id, term, false)
	}
	g.publish()
	d.answerAll(g.proposals.waiting, cause)
	g.proposals.waiting = nil
	g.reads.fail(g.notLeader())
	g.failTrials(g.notLeader())
	g.cancelSends(nobody)
}

// TransferLeader transfers the leadership of a group to another voter and returns when this node knows of it. Proposals
// are refused with ErrNotLeader meanwhile.
func (d *Driver) TransferLeader(ctx context.Context, group GroupID, to NodeID) error {
	g := d.table.get(group)
	if g == nil {
		return fmt.Errorf("%w %d", ErrUnknownGroup, group)
	}
	return d.ask(ctx, func(reply chan<- error) {
		if err := d.mayLead(g, to); err != nil || to == g.self {
			reply <- err
			return
		}
		g.moves.transfers = append(g.moves.transfers, transfer{to: to, reply: reply})
		g.node.TransferLeader(uint64(to))
		d.touch(g)
	})
}

// mayLead returns why a node cannot get the leadership of a group from this one, nil if it can.
func (d *Driver) mayLead(g *group, to NodeID) error {
	switch {
	case !g.shared.leading.Load():
		return g.notLeader()
	case to == g.self:
		return nil
	case !slices.Contains(g.shared.members.Load().Voters, to):
		return fmt.Errorf("node %d is not a voter of group %d", to, g.id)
	case !d.active(g, to) || g.lag(to) > maxLag:
		// This node would refuse proposals for an election timeout, and then go on leading.
		return fmt.Errorf("%w: node %d does not answer or is far behind", ErrTransferFailed, to)
	}
	return nil
}

// ask runs f in the raft loop and waits for its one answer on reply.
func (d *Driver) ask(ctx context.Context, f func(reply chan<- error)) error {
	reply := make(chan error, 1)
	if !d.running.Load() || !d.inbox.call(func() { f(reply) }) {
		return d.closedErr()
	}
	select {
	case err := <-reply:
		return err
	case <-d.life.loopDone:
		return d.closedErr()
	case <-d.failed:
		return d.closedErr()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkTransfers answers transfers that have been decided: there is a leader, or raft has given up.
func (d *Driver) checkTransfers(g *group) {
	if len(g.moves.transfers) == 0 {
		return
	}
	givenUp := g.role.state == raft.StateLeader && g.node.BasicStatus().LeadTransferee == raft.None
	g.moves.transfers = slices.DeleteFunc(g.moves.transfers, func(t transfer) bool {
		switch {
		case g.role.leader == t.to:
			t.reply <- nil
		case givenUp, g.role.leader != 0 && g.role.leader != g.self:
			t.reply <- ErrTransferFailed
		default:
			return false
		}
		return true
	})
}

// ReportUnreachable reports that messages to a node were lost. It never blocks.
func (d *Driver) ReportUnreachable(node NodeID) {
	if d.running.Load() {
		d.inbox.reportUnreachable(node)
	}
}

func (d *Driver) stepUnreachable(node NodeID) {
	for _, g := range d.loop.order {
		if g.role.state == raft.StateLeader {
			g.node.ReportUnreachable(uint64(node))
			d.touch(g)
		}
	}
}
