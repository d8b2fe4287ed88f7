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

	"parley/cluster/shard"
	"parley/persistence"
)

// handOver transfers the leadership of a shard to another of its voters: new commands are held, running turns get some time,
// then the log's leadership moves and the held commands go to the new owner. atRest: it does not move when turns are still running. A
// failed transfer changes nothing.
func (n *Node) handOver(ctx context.Context, group uint32, to uint64, atRest bool) error {
	if shard.ID(group) == shard.Directory {
		return n.store.TransferLeader(ctx, group, to)
	}
	quiet, cancel := context.WithTimeout(ctx, n.config.Cluster.HandoverWait)
	err := n.shell.system.Drain(quiet, group)
	cancel()
	if err != nil {
		return fmt.Errorf("hand over shard %d: %w", group, err)
	}
	if running := n.shell.system.Underway(group); atRest && running > 0 {
		n.shell.system.Undrain(group) //nolint:contextcheck // as below
		return fmt.Errorf("%w: %d turns of shard %d run", errTurnsRun, running, group)
	}
	if err := n.store.TransferLeader(ctx, group, to); err != nil {
		n.shell.system.Undrain(group) //nolint:contextcheck // it has its own bound, also when ctx has ended
		return err
	}
	return nil // the log reports the lost leadership, see leaderChanged
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
	for ctx.Err() == nil {
		for _, to := range n.successors(s) {
			err := n.handOver(ctx, s.Group, to, false)
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

// successors are the live voters of a shard that are not leaving, ordered by how many shards they lead, then by how far they
// are behind.
func (n *Node) successors(s *persistence.ReplicaStatus) []uint64 {
	leads := make(map[uint64]int)
	for _, m := range n.links.board.Snapshot().Nodes {
		leads[m.Node] = m.Leads
		if m.Leaving || m.Gone {
			leads[m.Node] = -1
		}
	}
	var found []persistence.Lag
	for _, lag := range s.Lags {
		if known, ok := leads[lag.Node]; lag.Active && slices.Contains(s.Members.Voters, lag.Node) && ok && known >= 0 {
			found = append(found, lag)
		}
	}
	slices.SortFunc(found, func(a, b persistence.Lag) int {
		return cmp.Or(cmp.Compare(leads[a.Node], leads[b.Node]), cmp.Compare(a.Entries, b.Entries))
	})
	nodes := make([]uint64, len(found))
	for i, lag := range found {
		nodes[i] = lag.Node
	}
	// Rotated by shard, so that one node does not get them all.
	if len(nodes) > 1 {
		at := int(s.Group) % len(nodes)
		nodes = append(nodes[at:], nodes[:at]...)
	}
	return nodes
}
