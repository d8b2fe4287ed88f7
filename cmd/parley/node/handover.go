package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/cluster"
	"parley/cluster/balance"
	"parley/cluster/shard"
	"parley/persistence"
)

// handing is how a leadership is handed over.
type handing struct {
	// atRest: it stays when turns of the shard still run.
	atRest bool
	// anyDisk: the successor's disk may be slow at the moment.
	anyDisk bool
}

// handOver transfers the leadership of a shard to another of its voters, once that has shown that it is up to date and its disk quick: new
// commands are held, running turns get some time, then the log's leadership moves and the held commands go to the new owner. A failed
// transfer changes nothing.
func (n *Node) handOver(ctx context.Context, group uint32, to uint64, how handing) error {
	if err := n.store.TryLeader(ctx, group, to, n.patienceWith(to, how)); err != nil {
		return err // before anything waits for a transfer that cannot succeed
	}
	if shard.ID(group) == shard.Directory {
		return n.store.TransferLeader(ctx, group, to)
	}
	quiet, cancel := context.WithTimeout(ctx, n.config.Cluster.HandoverWait)
	err := n.shell.system.Drain(quiet, group)
	cancel()
	if err != nil {
		return fmt.Errorf("hand over shard %d: %w", group, err)
	}
	if running := n.shell.system.Underway(group); how.atRest && running > 0 {
		n.shell.system.Undrain(group) //nolint:contextcheck // as below
		return fmt.Errorf("%w: %d turns of shard %d run", errTurnsRun, running, group)
	}
	if err := n.store.TransferLeader(ctx, group, to); err != nil {
		n.shell.system.Undrain(group) //nolint:contextcheck // it has its own bound, also when ctx has ended
		return err
	}
	return nil // the log reports the lost leadership, see leaderChanged
}

// slowestDisk bounds what patienceWith takes for usual: a disk that is slower leads nothing, see balance.Slow.
const slowestDisk = 200 * time.Millisecond

// patienceWith is how long a successor may take to store an entry: as long as others, or twice as long as it usually takes.
func (n *Node) patienceWith(to uint64, how handing) time.Duration {
	if how.anyDisk {
		return leaveTimeout
	}
	for _, m := range n.links.board.Snapshot().Nodes {
		if m.Node == to {
			return min(2*logDelay(&m), slowestDisk)
		}
	}
	return 0
}

// logDelay is how long a node's log took of late, 0 = it does not say.
func logDelay(n *cluster.NodeView) time.Duration {
	return time.Duration(n.Report.GetLogDelayMs()) * time.Millisecond
}

// errTurnsRun refuses a transfer that was to wait for them.
var errTurnsRun = errors.New("the shard is not at rest")

// How long a leaving node tries to hand over one shard, and the pause between two attempts.
const (
	leaveTimeout = 3 * time.Second
	leavePause   = 50 * time.Millisecond
)

// leave announces that this node stops, and hands over the shards that it leads.
func (n *Node) leave(ctx context.Context) {
	if n.links == nil {
		return
	}
	n.links.reporter.Load().Leave()
	n.links.gossip.Load().SetLeaving()
	n.handAllOver(ctx)
}

// handAllOver hands over, in parallel, every shard that this node leads and that has another voter.
func (n *Node) handAllOver(ctx context.Context) {
	held, err := n.store.Replicas(ctx)
	if err != nil {
		n.log.Warn("shards are not handed over", slog.Any("err", err))
		return
	}
	var leaving sync.WaitGroup
	for i := range held {
		if held[i].Leading && len(held[i].Members.Voters) > 1 {
			leaving.Go(func() { n.leaveShard(ctx, &held[i]) })
		}
	}
	leaving.Wait()
}

func (n *Node) leaveShard(ctx context.Context, s *persistence.ReplicaStatus) {
	ctx, cancel := context.WithTimeout(ctx, n.config.Cluster.HandoverWait+leaveTimeout)
	defer cancel()
	var tried error
	for how := (handing{}); ctx.Err() == nil; how.anyDisk = true { // at first the moment may be bad for one of them
		for _, to := range successors(s, n.links.board.Snapshot().Nodes) {
			err := n.handOver(ctx, s.Group, to, how)
			if err == nil || errors.Is(err, persistence.ErrNotLeader) {
				return
			}
			tried = err
		}
		timer := time.NewTimer(leavePause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	n.log.Warn("shard was not handed over: another node takes it once this one is gone",
		slog.Uint64("shard", uint64(s.Group)), slog.Any("err", tried))
}

// unfitAfter is how long this node must have been unable to write before it hands over its shards.
const unfitAfter = 2 * time.Second

// watchFitness hands over the shards of this node while it cannot write, for example because its disk is full. Meanwhile it
// reports as leaving, so that the placement loop gives nothing back.
func (n *Node) watchFitness(ctx context.Context) {
	report := n.links.reporter.Load()
	ticker := time.NewTicker(unfitAfter / 2)
	defer ticker.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := n.store.Writable()
		switch {
		case err == nil && report.SetUnfit(false):
			n.log.Info("this node can write again")
			fallthrough
		case err == nil:
			since = time.Time{}
			continue
		case since.IsZero():
			since = time.Now()
			continue
		case time.Since(since) < unfitAfter/2:
			continue
		case !report.SetUnfit(true):
			n.log.Warn("this node cannot write: its shards are handed over", slog.Any("err", err))
		}
		n.handAllOver(ctx)
	}
}

// successors are the live voters of a shard that are not leaving: those with slow logs last, else those that lead the fewest shards
// first, then those that are the least behind.
func successors(s *persistence.ReplicaStatus, nodes []cluster.NodeView) []uint64 {
	type candidate struct {
		persistence.Lag
		leads int
		slow  int
	}
	var found []candidate
	quick := 0
	for _, lag := range s.Lags {
		at := slices.IndexFunc(nodes, func(m cluster.NodeView) bool { return m.Node == lag.Node && !m.Leaving && !m.Gone })
		if at < 0 || !lag.Active || !slices.Contains(s.Members.Voters, lag.Node) {
			continue
		}
		var others []time.Duration
		for i := range nodes {
			if i != at && !nodes[i].Gone {
				others = append(others, logDelay(&nodes[i]))
			}
		}
		c := candidate{Lag: lag, leads: nodes[at].Leads}
		if balance.Slow(logDelay(&nodes[at]), others) {
			c.slow = 1
		} else {
			quick++
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.slow, b.slow), cmp.Compare(a.leads, b.leads), cmp.Compare(a.Entries, b.Entries))
	})
	// Rotated by shard, so that one node does not get them all.
	if quick > 1 {
		at := int(s.Group) % quick
		found = slices.Concat(found[at:quick], found[:at], found[quick:])
	}
	order := make([]uint64, len(found))
	for i, c := range found {
		order[i] = c.Node
	}
	return order
}
