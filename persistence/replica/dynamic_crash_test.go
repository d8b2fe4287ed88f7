package replica_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
)

// TestNewReplicaSurvivesPowerFailure cuts the power of a node that joins anywhere from a leader's first message to the end of the first snapshot.
func TestNewReplicaSurvivesPowerFailure(t *testing.T) {
	atSomeWrite(t, 25, 150, func(t *testing.T, c *cluster, arm func(), cut func() *vfs.MemFS) {
		t.Helper()
		arm()
		value := strings.Repeat("v", 8<<10)
		for i := range 160 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), value))
		}
		c.change(1, replica.AddLearner, 2)
		c.eventually("power failure or catching up", func() bool {
			return c.stores[2].dead.Load() || c.stores[2].driver.Hosts(1)
		})
		mem := cut()
		after, err := c.stores[1].machine.Rows(1)
		require.NoError(t, err)
		s, _, err := tryOpen(t, "db", mem, c.nodeOptions(2)...)
		require.NoError(t, err)
		found, err := s.machine.Rows(1)
		require.NoError(t, err)
		require.NoError(t, s.db.Close())
		require.True(t, len(found) == 0 || diff(after, found) == "", "%d of %d rows", len(found), len(after))
		c.start(2, mem)
		c.change(1, replica.Promote, 2)
		c.waitRows(1, 1, 2)
		c.eventually("transfer to the survivor", func() bool {
			return c.stores[1].driver.TransferLeader(t.Context(), 1, 2) == nil
		})
		require.NoError(t, c.propose(t.Context(), 1, "after", "crash"))
		c.waitRows(1, 1, 2)
	})
}

// TestDropSurvivesPowerFailure cuts the power anywhere while a replica is dropped: it is there or gone, and can come again.
func TestDropSurvivesPowerFailure(t *testing.T) {
	atSomeWrite(t, 25, 10, func(t *testing.T, c *cluster, arm func(), cut func() *vfs.MemFS) {
		t.Helper()
		for i := range 20 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), "v"))
		}
		c.change(1, replica.AddLearner, 2)
		c.change(1, replica.Promote, 2)
		c.waitRows(1, 1, 2)
		c.change(1, replica.Remove, 2)
		before, err := c.stores[2].machine.Rows(1)
		require.NoError(t, err)
		arm()
		c.eventually("power failure or drop", func() bool {
			s, _ := c.status(1, 1)
			return c.stores[2].dead.Load() || c.stores[2].driver.Drop(context.Background(), 1, s.Applied) == nil
		})
		mem := cut()
		c.start(2, mem)
		found, err := c.stores[2].machine.Rows(1)
		require.NoError(t, err)
		_, here := c.status(2, 1)
		if here {
			require.Empty(t, diff(before, found))
			c.drop(2, 1)
		} else {
			require.Empty(t, found)
			require.Zero(t, logRows(t, c.stores[2].db, 1))
		}
		c.change(1, replica.AddLearner, 2)
		c.change(1, replica.Promote, 2)
		require.NoError(t, c.propose(t.Context(), 1, "after", "crash"))
		c.waitRows(1, 1, 2)
	})
}

// atSomeWrite runs a story of node 1, which has all groups, and node 2, which joins and loses its power at a random one of its writes after arm, or at cut.
func atSomeWrite(t *testing.T, times, writes int, story func(t *testing.T, c *cluster, arm func(), cut func() *vfs.MemFS)) {
	t.Helper()
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	for range times {
		step, own := 1+rng.IntN(writes), rand.New(rand.NewPCG(seed, rng.Uint64()))
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, seed, 1, shortLogs)
			defer c.close()
			c.waitReady()
			mem := vfs.NewCrashableMem()
			wire := newTripwire(mem, own)
			wire.cut = func() { c.network.Endpoint(2).Bind(nil) }
			c.joined[2] = true
			c.startOn(2, mem, errorfs.Wrap(mem, wire))
			c.stores[2].dead = wire.dead
			story(t, c, func() { wire.arm(step) }, func() *vfs.MemFS {
				wire.trip()
				c.stores[2].close(t)
				delete(c.stores, 2)
				return wire.clone
			})
		})
		if t.Failed() {
			t.Fatalf("power cut before write %d", step)
		}
	}
}
