package node

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
	"parley/persistence"
	"parley/proto/nodepb"
)

// TestTransferAtRest: a transfer that is to wait for turns is refused while one runs, which then ends where it began. Nothing waits for a
// successor that does not answer.
func TestTransferAtRest(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleetWith(t, func(_ string, c *config.Config) { c.Cluster.HandoverWait = time.Millisecond }, "n1", "n2", "n3")
	f.grown()
	for _, n := range f.nodes {
		n.links.loop.Load().Stop() // nothing else is moved
	}
	id, _ := f.conversation("n1")
	in, valid := f.nodes["n1"].shards.Of(id)
	require.True(t, valid)
	type answer struct {
		status int
		by     string
		body   map[string]any
		err    error
	}
	came := make(chan answer, 1)
	go func() {
		var a answer
		a.status, a.by, a.body, a.err = f.call("n1", http.MethodPost, "/conversations/"+id+"/messages", map[string]any{"message": "How do I start?"})
		came <- a
	}()
	var owner string
	f.eventually("the turn runs", 30*time.Second, func() bool {
		for name, n := range f.nodes {
			if n.shell.system.Underway(uint32(in)) > 0 {
				owner = name
			}
		}
		return owner != ""
	})
	node := f.nodes[owner]
	var to uint64
	for _, m := range node.links.board.Snapshot().Nodes {
		if m.Name != owner {
			to = m.Node
		}
	}
	require.ErrorIs(t, node.handOver(t.Context(), uint32(in), to, handing{atRest: true}), errTurnsRun)
	a := <-came
	require.NoError(t, a.err)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, owner, a.by)
	require.Equal(t, "end_turn", a.body["stopReason"])
	status, _, page, err := f.call(owner, http.MethodGet, "/conversations/"+id+"/events?types=session.recovered", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, page)
	require.Empty(t, page["events"])

	drained := drains(t, node)
	for other := range f.nodes {
		if other != owner && f.nodes[other].links.origin.node == to {
			f.network.Isolate(other, slices.DeleteFunc([]string{"n1", "n2", "n3"}, func(n string) bool { return n == other })...)
		}
	}
	f.eventually("it is missed", 30*time.Second, func() bool {
		held, err := node.store.Replicas(t.Context())
		return err == nil && slices.ContainsFunc(held, func(s persistence.ReplicaStatus) bool {
			return s.Group == uint32(in) && slices.ContainsFunc(s.Lags, func(l persistence.Lag) bool { return l.Node == to && !l.Active })
		})
	})
	require.ErrorIs(t, node.handOver(t.Context(), uint32(in), to, handing{}), persistence.ErrTransferFailed)
	require.Equal(t, drained, drains(t, node))
	f.network.Heal()
}

// TestDrainWhileTheDirectoryMoves: a node's state is set through any node while the directory goes from one to the next.
func TestDrainWhileTheDirectoryMoves(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	numbers := make(map[string]uint64)
	for name, n := range f.nodes {
		held, share := n.Copies()
		require.Equal(t, 6, share, "of six shards, three copies on three nodes")
		require.Equal(t, share, held)
		n.links.loop.Load().Stop() // nothing else is moved
		numbers[name] = n.links.origin.node
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	moving, stopMoving := context.WithCancel(ctx)
	var moved atomic.Int64
	var mover sync.WaitGroup
	mover.Go(func() {
		next := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}
		for moving.Err() == nil {
			owner, known := f.nodes["n1"].owners.Owner(shard.Directory)
			if known && f.nodes[owner.Node].handOver(moving, uint32(shard.Directory), numbers[next[owner.Node]], handing{}) == nil {
				moved.Add(1)
			}
		}
	})
	for round := 0; round < 30 || moved.Load() < 10 && ctx.Err() == nil; round++ {
		for _, n := range f.nodes {
			require.NoError(t, n.drain(ctx, "n1", round%2 == 0), "round %d, after %d moves", round, moved.Load())
			record, _, err := n.nodeRecord("n1")
			require.NoError(t, err)
			require.Equal(t, round%2 == 0, record.State == stateDraining)
		}
	}
	stopMoving()
	mover.Wait()
	require.GreaterOrEqual(t, moved.Load(), int64(10))
}

// drains is how often a node has held the commands of a shard.
func drains(t *testing.T, n *Node) (count uint64) {
	t.Helper()
	families, err := n.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "parley_actors_drain_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	require.Fail(t, "no metric")
	return 0
}

// TestSuccessors: who takes a shard over from a node that leaves.
func TestSuccessors(t *testing.T) {
	s := &persistence.ReplicaStatus{
		Group: 3, Members: persistence.Members{Voters: []uint64{1, 2, 3, 4, 5, 6}, Learners: []uint64{7}},
		Lags: []persistence.Lag{
			{Node: 2, Active: true}, {Node: 3, Active: true, Entries: 10}, {Node: 4, Active: true}, {Node: 5}, {Node: 6, Active: true}, {Node: 7, Active: true},
		},
	}
	node := func(id uint64, leads int, delay uint32) cluster.NodeView {
		return cluster.NodeView{Node: id, Leads: leads, Report: &nodepb.Report{LogDelayMs: delay}}
	}
	nodes := []cluster.NodeView{node(1, 9, 0), node(2, 4, 3), node(3, 4, 4), node(4, 0, 600), node(5, 0, 0), node(6, 7, 0), node(7, 0, 0)}
	require.Equal(t, []uint64{2, 3, 6, 4}, successors(s, nodes), "a slow log last, however little it leads")
	s.Group = 4 // another shard begins with another
	require.Equal(t, []uint64{3, 6, 2, 4}, successors(s, nodes))
	nodes[5].Leaving, nodes[2].Gone = true, true
	require.Equal(t, []uint64{2, 4}, successors(s, nodes))
	nodes[1].Report.LogDelayMs = 500
	require.Equal(t, []uint64{4, 2}, successors(s, nodes), "where all are slow none is")
}
