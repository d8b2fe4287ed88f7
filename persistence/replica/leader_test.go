package replica_test

import (
	"context"
	"fmt"
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

func TestTransferLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		defer c.close()
		c.waitReady()
		from := c.leader(1)
		to := from%3 + 1
		require.NoError(t, c.stores[from].driver.TransferLeader(t.Context(), 1, to))
		require.Equal(t, to, c.leader(1))
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		require.ErrorIs(t, c.stores[from].driver.TransferLeader(t.Context(), 1, from), replica.ErrNotLeader)
		require.NoError(t, c.stores[to].driver.TransferLeader(t.Context(), 1, to), "to itself")
		require.Error(t, c.stores[to].driver.TransferLeader(t.Context(), 1, 9))

		// To a node that does not answer: given up, and the old leader goes on.
		c.network.Isolate(from)
		require.ErrorIs(t, c.stores[to].driver.TransferLeader(t.Context(), 1, from), replica.ErrTransferFailed)
		require.NoError(t, c.propose(t.Context(), 1, "k", "w"))
	})
}

func TestLostLeadershipAnswersWithUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lost []uint64
		c := newCluster(t, 1, 3, func(cfg *replica.Config) {
			next := cfg.OnLeader
			cfg.OnLeader = func(group replica.GroupID, term uint64, leader bool) {
				next(group, term, leader)
				if group == 1 && !leader {
					mu.Lock()
					defer mu.Unlock()
					lost = append(lost, term)
				}
			}
		})
		defer c.close()
		c.waitReady()
		old := c.leader(1)
		_, term, _ := c.stores[old].driver.Leader(1)
		c.network.Isolate(old)
		answers := make(chan error, 2)
		go func() {
			_, err := c.stores[old].driver.Propose(context.Background(), 1, replicatest.Put("lost", "v"))
			answers <- err
		}()
		go func() { answers <- c.stores[old].driver.ReadBarrier(context.Background(), 1) }()
		first, second := <-answers, <-answers
		if first != nil && second != nil {
			require.ErrorIs(t, fmt.Errorf("%w %w", first, second), replica.ErrOutcomeUnknown)
			require.ErrorIs(t, fmt.Errorf("%w %w", first, second), replica.ErrNotLeader)
		} else {
			require.Fail(t, "an isolated leader answered", "%v, %v", first, second)
		}
		mu.Lock()
		require.Equal(t, []uint64{term}, lost)
		mu.Unlock()
		c.eventually("a new leader", func() bool {
			node, newTerm, ok := c.stores[old%3+1].driver.Leader(1)
			return ok && node != old && newTerm > term
		})
		c.network.Heal()
		require.NoError(t, c.propose(t.Context(), 1, "found", "v"))
		c.waitEqual(4)
	})
}

func TestFailedNodeGivesLeadershipUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3, func(cfg *replica.Config) { cfg.OnFatal = nil })
		defer c.close()
		c.waitReady()
		broken := c.leader(1)
		c.stores[broken].driver.Fail(errDisk)
		require.ErrorIs(t, c.stores[broken].driver.ReadBarrier(t.Context(), 1), replica.ErrFailed)
		c.eventually("another leader", func() bool {
			node, _, ok := c.stores[broken%3+1].driver.Leader(1)
			return ok && node != broken
		})
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
	})
}

func TestLaggardCatchesUpBySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		installed := make(chan replica.GroupID, 100)
		c := newCluster(t, 1, 3, shortLogs, func(cfg *replica.Config) {
			cfg.OnSnapshot = func(group replica.GroupID) { installed <- group }
		})
		defer c.close()
		c.waitReady()
		laggard := c.leader(1)%3 + 1
		c.network.Isolate(laggard)
		c.missed(1, laggard)
		for i := range 400 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), fmt.Sprint(i)))
		}
		require.LessOrEqual(t, logRows(t, c.stores[c.leader(1)].db, 1), 130)
		c.network.Heal()
		c.waitEqual(chaosGroups)
		require.EqualValues(t, 1, <-installed)
		names, err := c.stores[laggard].mem.List("db/spool")
		require.NoError(t, err)
		require.Empty(t, names)
		require.NoError(t, c.propose(t.Context(), 1, "after", "snapshot"))
		c.waitEqual(chaosGroups)
	})
}

func TestMembershipGrowsAndShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1, shortLogs)
		defer c.close()
		c.waitReady()
		for i := range 300 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), "v"))
		}
		one := c.stores[1].driver
		change := func(kind replica.ChangeKind, node replica.NodeID) {
			t.Helper()
			c.eventually(fmt.Sprintf("change %d of node %d", kind, node), func() bool {
				for g := range replica.GroupID(chaosGroups) {
					if c.stores[c.leader(g)].driver.ChangeMembers(t.Context(), g, replica.Change{Kind: kind, Node: node}) != nil {
						return false
					}
				}
				return true
			})
		}
		for _, id := range []replica.NodeID{2, 3} {
			require.Error(t, one.ChangeMembers(t.Context(), 1, replica.Change{Kind: replica.Promote, Node: id}), "not a learner")
			change(replica.AddLearner, id)
			c.start(id, vfs.NewCrashableMem())
			change(replica.Promote, id)
		}
		members, ok := one.Members(1)
		require.True(t, ok)
		require.Equal(t, []replica.NodeID{1, 2, 3}, members.Voters)
		require.Empty(t, members.Learners)
		c.waitEqual(chaosGroups)
		require.Error(t, one.ChangeMembers(t.Context(), 1, replica.Change{Kind: replica.AddLearner, Node: 3}), "is a voter")

		// The group lives on without its first member, also after everybody restarted.
		for g := range replica.GroupID(chaosGroups) {
			require.Error(t, one.ChangeMembers(t.Context(), g, replica.Change{Kind: replica.Remove, Node: 1}), "leads")
			require.NoError(t, one.TransferLeader(t.Context(), g, 2))
		}
		change(replica.Remove, 1)
		c.network.Endpoint(1).Bind(nil)
		c.stores[1].close(t)
		delete(c.stores, 1)
		for _, id := range []replica.NodeID{2, 3} {
			n := c.stores[id]
			c.network.Endpoint(id).Bind(nil)
			n.close(t)
			c.start(id, n.mem)
		}
		c.waitReady()
		require.NoError(t, c.propose(t.Context(), 1, "without", "one"))
		c.waitEqual(chaosGroups)
		members, _ = c.stores[2].driver.Members(1)
		require.Equal(t, []replica.NodeID{2, 3}, members.Voters)
	})
}

func TestLeaderThatIsDownIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		defer c.close()
		c.waitReady()
		dead := c.leader(0)
		for g := range replica.GroupID(4) {
			if lead := c.leader(g); lead != dead {
				require.NoError(t, c.stores[lead].driver.TransferLeader(t.Context(), g, dead))
			}
		}
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		c.network.Endpoint(dead).Bind(nil)
		c.stores[dead].close(t)
		delete(c.stores, dead)
		time.Sleep(10 * time.Millisecond) // its last words arrive
		begin := time.Now()
		for _, n := range c.stores {
			n.driver.ReportDown(dead)
			n.driver.ReportDown(dead)
		}
		leads := make(map[replica.NodeID]int)
		for g := range replica.GroupID(4) {
			leads[c.leader(g)]++
			require.NoError(t, c.propose(t.Context(), g, "by", "another"))
		}
		require.Less(t, time.Since(begin), 200*time.Millisecond)
		require.Equal(t, map[replica.NodeID]int{dead%3 + 1: 2, (dead+1)%3 + 1: 2}, leads, "spread")
	})
}

func TestLeaderThatIsNotDownGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3)
		defer c.close()
		c.waitReady()
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		lead := c.leader(1)
		_, term, _ := c.stores[lead].driver.Leader(1)
		c.stores[lead%3+1].driver.ReportDown(lead)
		c.stores[lead].driver.ReportDown(lead)
		time.Sleep(time.Second)
		require.Equal(t, lead, c.leader(1))
		_, now, _ := c.stores[lead].driver.Leader(1)
		require.Equal(t, term, now, "one follower's mistake changes nothing")
		require.NoError(t, c.propose(t.Context(), 1, "k", "w"))
	})
}

func TestNodeWithStuckDiskLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := make(map[replica.NodeID]*atomic.Int64)
		c := newClusterOn(t, 1, 3, func(id replica.NodeID, mem *vfs.MemFS) vfs.FS {
			disks[id] = &atomic.Int64{}
			return &slowDisk{FS: mem, most: disks[id]}
		})
		defer c.close()
		c.waitReady()
		stuck := c.leader(1)
		disks[stuck].Store(int64(10 * time.Hour))
		begin := time.Now()
		for c.propose(t.Context(), 1, "k", "v") == nil { // until one meets the stuck disk, and its outcome is unknown
		}
		c.eventually("another leader", func() bool {
			leader, _, ok := c.stores[stuck%3+1].driver.Leader(1)
			return ok && leader != stuck
		})
		require.Less(t, time.Since(begin), 10*time.Second)
		require.NoError(t, c.propose(t.Context(), 1, "k", "w"))
		disks[stuck].Store(0)
	})
}

// TestTryLeader: whether a voter could take over at once is known before anything waits for it.
func TestTryLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := make(map[replica.NodeID]*atomic.Int64)
		c := newClusterOn(t, 1, 3, func(id replica.NodeID, mem *vfs.MemFS) vfs.FS {
			disks[id] = &atomic.Int64{}
			return &slowDisk{FS: mem, most: disks[id]}
		})
		defer c.close()
		c.waitReady()
		leader := c.leader(1)
		driver, slow, quick := c.stores[leader].driver, leader%3+1, (leader+1)%3+1
		try := func(to replica.NodeID) error {
			begin := time.Now()
			err := driver.TryLeader(t.Context(), 1, to, 0)
			require.Less(t, time.Since(begin), time.Second)
			return err
		}
		require.NoError(t, try(slow))
		require.NoError(t, try(quick))
		require.NoError(t, try(leader), "itself")
		require.Error(t, try(9))
		require.ErrorIs(t, c.stores[slow].driver.TryLeader(t.Context(), 1, quick, 0), replica.ErrNotLeader)

		disks[slow].Store(int64(10 * time.Hour))
		for range 2 { // the second waits for the disk
			require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		}
		require.ErrorIs(t, try(slow), replica.ErrTransferFailed)
		require.NoError(t, try(quick))
		require.NoError(t, c.propose(t.Context(), 1, "k", "w"), "it serves as before")
		require.Equal(t, leader, c.leader(1))
		disks[slow].Store(0)

		c.network.Isolate(leader)
		require.Error(t, driver.TryLeader(t.Context(), 1, quick, 0), "no majority stores anything")
	})
}
