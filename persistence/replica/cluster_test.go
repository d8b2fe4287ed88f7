package replica_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
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

// seedOf is -replica.seed or PARLEY_CHAOS_SEED, or a new one, printed when the test fails.
func seedOf(tb testing.TB) uint64 {
	tb.Helper()
	seed := *seedFlag
	if env := os.Getenv("PARLEY_CHAOS_SEED"); seed == 0 && env != "" {
		var err error
		seed, err = strconv.ParseUint(env, 10, 64)
		require.NoError(tb, err, "PARLEY_CHAOS_SEED")
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	tb.Logf("seed %d", seed)
	return seed
}

var seedFlag = flag.Uint64("replica.seed", 0, "seed of the random tests; 0 takes a new one")

// cluster is three or more nodes in one bubble, so that elections take no real time.
type cluster struct {
	tb      testing.TB
	network *replicatest.Network
	options []option
	peers   []replica.NodeID
	stores  map[replica.NodeID]*node
	// joined are the nodes that began without groups.
	joined map[replica.NodeID]bool
	// disk, when set, is what a node sees of its disk.
	disk     func(id replica.NodeID, mem *vfs.MemFS) vfs.FS
	leaders  sync.Map
	failures atomic.Int64
}

// node is a store that may be down, and whether what it says still counts.
type node struct {
	*store
	mem  *vfs.MemFS
	dead *atomic.Bool
}

func newCluster(tb testing.TB, seed uint64, voters int, options ...option) *cluster {
	tb.Helper()
	return newClusterOn(tb, seed, voters, nil, options...)
}

func newClusterOn(tb testing.TB, seed uint64, voters int, disk func(replica.NodeID, *vfs.MemFS) vfs.FS, options ...option) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, network: replicatest.NewNetwork(tb, seed), options: options, stores: make(map[replica.NodeID]*node), joined: make(map[replica.NodeID]bool), disk: disk}
	for i := range voters {
		c.peers = append(c.peers, replica.NodeID(i+1))
	}
	for _, id := range c.peers {
		c.start(id, vfs.NewCrashableMem())
	}
	return c
}

func (c *cluster) start(id replica.NodeID, mem *vfs.MemFS) {
	c.tb.Helper()
	fs := vfs.FS(mem)
	if c.disk != nil {
		fs = c.disk(id, mem)
	}
	c.startOn(id, mem, fs)
}

// startOn starts a node on fs, which ends in mem.
func (c *cluster) startOn(id replica.NodeID, mem *vfs.MemFS, fs vfs.FS) {
	c.tb.Helper()
	endpoint := c.network.Endpoint(id)
	s := openStore(c.tb, "db", fs, c.nodeOptions(id)...)
	c.stores[id] = &node{store: s, mem: mem, dead: &atomic.Bool{}}
	endpoint.Bind(s.driver)
}

func (c *cluster) nodeOptions(id replica.NodeID) []option {
	options := append([]option{func(cfg *replica.Config) {
		cfg.Node, cfg.Peers, cfg.Transport = id, c.peers, c.network.Endpoint(id)
		cfg.OnLeader = func(group replica.GroupID, term uint64, leader bool) { c.onLeader(id, group, term, leader) }
		cfg.OnFatal = func(err error) {
			c.failures.Add(1)
			c.tb.Errorf("node %d: %v", id, err)
		}
	}}, c.options...)
	if c.joined[id] {
		options = append(options, joining)
	}
	return options
}

// onLeader checks that a term has one leader at most.
func (c *cluster) onLeader(id replica.NodeID, group replica.GroupID, term uint64, leader bool) {
	if !leader {
		return
	}
	key := fmt.Sprintf("%d/%d", group, term)
	if other, loaded := c.leaders.LoadOrStore(key, id); loaded && other != id {
		c.tb.Errorf("nodes %v and %d both lead group %d in term %d", other, id, group, term)
	}
}

// crash takes a node down as a power failure does and returns what its disk holds.
func (c *cluster) crash(id replica.NodeID, rng *rand.Rand) *vfs.MemFS {
	c.tb.Helper()
	n := c.stores[id]
	n.dead.Store(true)
	c.network.Endpoint(id).Bind(nil)
	mem := n.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	n.close(c.tb)
	delete(c.stores, id)
	return mem
}

func (c *cluster) close() {
	for id, n := range c.stores {
		c.network.Endpoint(id).Bind(nil)
		n.close(c.tb)
	}
	c.network.Close()
}

func (c *cluster) eventually(what string, ok func() bool) {
	c.tb.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			require.Fail(c.tb, "never happened", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cluster) waitReady() {
	c.tb.Helper()
	c.eventually("all nodes ready", func() bool {
		for _, n := range c.stores {
			if !n.driver.Ready() {
				return false
			}
		}
		return true
	})
}

// leader waits until a node leads a group for its own callers.
func (c *cluster) leader(group replica.GroupID) replica.NodeID {
	c.tb.Helper()
	var found replica.NodeID
	c.eventually(fmt.Sprintf("a leader of group %d", group), func() bool {
		for id, n := range c.stores {
			if node, _, ok := n.driver.Leader(group); ok && node == id {
				found = id
				return true
			}
		}
		return false
	})
	return found
}

func (c *cluster) propose(ctx context.Context, group replica.GroupID, key, value string) error {
	c.tb.Helper()
	_, err := c.stores[c.leader(group)].driver.Propose(ctx, group, replicatest.Put(key, value))
	return err
}

// waitEqual waits until every node holds the same rows.
func (c *cluster) waitEqual(groups int) {
	c.tb.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for difference := c.equalNow(groups); difference != ""; difference = c.equalNow(groups) {
		if time.Now().After(deadline) {
			require.Fail(c.tb, "replicas differ", difference)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// waitRows waits until these nodes hold the same rows of a group.
func (c *cluster) waitRows(group replica.GroupID, ids ...replica.NodeID) {
	c.tb.Helper()
	c.eventually(fmt.Sprintf("nodes %v have the same group %d", ids, group), func() bool {
		first, err := c.stores[ids[0]].machine.Rows(group)
		require.NoError(c.tb, err)
		for _, id := range ids[1:] {
			rows, err := c.stores[id].machine.Rows(group)
			require.NoError(c.tb, err)
			if diff(first, rows) != "" {
				return false
			}
		}
		return true
	})
}

// equalNow describes the first difference between two nodes, "" when there is none.
func (c *cluster) equalNow(groups int) string {
	c.tb.Helper()
	for g := range replica.GroupID(groups) {
		var first map[string]string
		var firstID replica.NodeID
		for id, n := range c.stores {
			rows, err := n.machine.Rows(g)
			require.NoError(c.tb, err)
			if first == nil {
				first, firstID = rows, id
				continue
			}
			if d := diff(first, rows); d != "" {
				return fmt.Sprintf("group %d, nodes %d and %d: %s", g, firstID, id, d)
			}
		}
	}
	return ""
}

func diff(a, b map[string]string) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d rows", len(a), len(b))
	}
	for k, v := range a {
		if b[k] != v {
			return fmt.Sprintf("%q is %q and %q", k, v, b[k])
		}
	}
	return ""
}

func TestThreeNodesReplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		defer c.close()
		c.waitReady()
		for i := range 50 {
			require.NoError(t, c.propose(t.Context(), replica.GroupID(i%4), fmt.Sprint(i), strings.Repeat("x", i)))
		}
		c.waitEqual(4)
		for id, n := range c.stores {
			err := n.driver.ReadBarrier(t.Context(), 2)
			if leader, _, _ := n.driver.Leader(2); leader == id {
				require.NoError(t, err)
				continue
			}
			var notLeader *replica.NotLeaderError
			require.ErrorIs(t, err, replica.ErrNotLeader)
			require.ErrorAs(t, err, &notLeader)
			require.Equal(t, c.leader(2), notLeader.Leader)
		}
	})
}
