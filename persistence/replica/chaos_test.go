package replica_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

const chaosGroups = 3

// shortLogs makes cuts and snapshots frequent.
func shortLogs(c *replica.Config) {
	c.Groups = []replica.GroupID{0, 1, 2}
	c.SnapshotEntries, c.KeepEntries, c.TailBytes = 120, 20, 2<<10
}

// acks are the writes that were acknowledged by a node that had not crashed by then.
type acks struct {
	mu   sync.Mutex
	keys [chaosGroups]map[string]string
}

func (a *acks) add(group replica.GroupID, key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys[group] == nil {
		a.keys[group] = make(map[string]string)
	}
	a.keys[group][key] = value
}

// check fails for every acknowledged write that a node does not have.
func (a *acks) check(tb testing.TB, id replica.NodeID, m *replicatest.Machine) {
	tb.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for g, keys := range a.keys {
		missing := 0
		for key, value := range keys {
			got, err := m.Value(replica.GroupID(g), key)
			require.NoError(tb, err)
			if got != value {
				missing++
				tb.Errorf("node %d group %d: acknowledged %s is %q, not %q", id, g, key, got, value)
			}
			if missing > 5 {
				tb.Fatal("and more")
			}
		}
	}
}

func (a *acks) total() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, keys := range a.keys {
		n += len(keys)
	}
	return n
}

// writers propose to whatever nodes there are, until stop.
type writers struct {
	mu    sync.Mutex
	nodes map[replica.NodeID]*node
	acks  acks
	wg    sync.WaitGroup
	stop  chan struct{}
}

func (w *writers) set(id replica.NodeID, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n == nil {
		delete(w.nodes, id)
		return
	}
	w.nodes[id] = n
}

func (w *writers) pick(group replica.GroupID, rng *rand.Rand) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	var any *node
	for id, n := range w.nodes {
		if leader, _, ok := n.driver.Leader(group); ok && leader == id && rng.IntN(4) > 0 {
			return n
		}
		any = n
	}
	return any
}

func (w *writers) run(tb testing.TB, number int, rng *rand.Rand) {
	tb.Helper()
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return
		default:
		}
		group := replica.GroupID(rng.IntN(chaosGroups))
		n := w.pick(group, rng)
		if n == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		key, value := fmt.Sprintf("%d-%d", number, i), strings.Repeat("v", rng.IntN(300))+fmt.Sprint(i)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err := n.driver.Propose(ctx, group, replicatest.Put(key, value))
		if err == nil && rng.IntN(8) == 0 {
			w.checkRead(ctx, tb, n, group, key, value)
		}
		cancel()
		if err == nil && !n.dead.Load() {
			w.acks.add(group, key, value)
		}
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
}

// checkRead reads what was just acknowledged from whichever node gives a read barrier.
func (w *writers) checkRead(ctx context.Context, tb testing.TB, wrote *node, group replica.GroupID, key, value string) {
	tb.Helper()
	w.mu.Lock()
	nodes := maps.Clone(w.nodes)
	w.mu.Unlock()
	for id, n := range nodes {
		if leader, _, ok := n.driver.Leader(group); !ok || leader != id {
			continue
		}
		if n.driver.ReadBarrier(ctx, group) != nil || wrote.dead.Load() || n.dead.Load() {
			continue
		}
		got, err := n.machine.Value(group, key)
		if err != nil || got != value {
			tb.Errorf("node %d behind a read barrier: %s is %q (%v), not %q", id, key, got, err, value)
		}
	}
}

func TestChaosThreeNodes(t *testing.T) {
	seed := seedOf(t)
	synctest.Test(t, func(t *testing.T) { chaos(t, seed, 60) })
}

func chaos(t *testing.T, seed uint64, rounds int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var snapshots atomic.Int64
	c := newCluster(t, seed, 3, shortLogs, func(cfg *replica.Config) {
		cfg.OnSnapshot = func(replica.GroupID) { snapshots.Add(1) }
	})
	defer c.close()
	c.waitReady()
	w := &writers{nodes: make(map[replica.NodeID]*node), stop: make(chan struct{})}
	for id, n := range c.stores {
		w.set(id, n)
	}
	for i := range 8 {
		own := rand.New(rand.NewPCG(seed, uint64(i+2)))
		w.wg.Go(func() { w.run(t, i, own) })
	}
	down := make(map[replica.NodeID]*vfs.MemFS)
	crash := func(id replica.NodeID) {
		if down[id] == nil {
			w.set(id, nil)
			down[id] = c.crash(id, rng)
		}
	}
	revive := func() {
		for id, mem := range down {
			c.start(id, mem)
			w.set(id, c.stores[id])
		}
		clear(down)
	}
	for range rounds {
		victim := replica.NodeID(rng.IntN(3) + 1)
		switch rng.IntN(8) {
		case 0:
			c.network.Isolate(victim)
		case 1:
			c.network.Cut(victim, victim%3+1)
		case 2:
			crash(victim)
		case 3:
			for _, id := range c.peers {
				crash(id)
			}
			revive()
		case 4:
			c.network.Disturb(float64(rng.IntN(20))/100, time.Duration(rng.IntN(100)+1)*time.Millisecond)
		case 5:
			if n := c.stores[victim]; n != nil {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = n.driver.TransferLeader(ctx, replica.GroupID(rng.IntN(chaosGroups)), victim%3+1)
				cancel()
			}
		case 6:
			c.network.Heal()
			c.network.Disturb(0, 0)
		case 7:
			revive()
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if rng.IntN(3) == 0 {
			c.network.Heal()
			revive()
		}
	}
	close(w.stop)
	w.wg.Wait()
	c.network.Heal()
	c.network.Disturb(0, 0)
	revive()
	c.waitReady()
	for g := range replica.GroupID(chaosGroups) {
		require.NoError(t, c.propose(t.Context(), g, "last", "one"))
	}
	c.waitEqual(chaosGroups)
	for id, n := range c.stores {
		w.acks.check(t, id, n.machine)
	}
	t.Logf("%d acknowledged, %d snapshots installed", w.acks.total(), snapshots.Load())
	require.Zero(t, c.failures.Load())
	require.Greater(t, w.acks.total(), 100)
}
