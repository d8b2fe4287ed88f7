package replica_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

// joining is a node without groups.
func joining(c *replica.Config) { c.Groups, c.MaxGroup = nil, chaosGroups-1 }

// join starts a new node that holds nothing.
func (c *cluster) join(id replica.NodeID) {
	c.tb.Helper()
	c.joinOn(id, vfs.NewCrashableMem())
}

func (c *cluster) joinOn(id replica.NodeID, mem *vfs.MemFS) {
	c.tb.Helper()
	c.joined[id] = true
	c.start(id, mem)
}

// change makes a membership change at the leader, as often as it is asked to come back.
func (c *cluster) change(group replica.GroupID, kind replica.ChangeKind, id replica.NodeID) {
	c.tb.Helper()
	c.eventually(fmt.Sprintf("change %d of node %d in group %d", kind, id, group), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return c.stores[c.leader(group)].driver.ChangeMembers(ctx, group, replica.Change{Kind: kind, Node: id}) == nil
	})
}

// status is what a node says of a group.
func (c *cluster) status(id replica.NodeID, group replica.GroupID) (replica.Status, bool) {
	c.tb.Helper()
	all, err := c.stores[id].driver.Status(context.Background())
	require.NoError(c.tb, err)
	for _, s := range all {
		if s.Group == group {
			return s, true
		}
	}
	return replica.Status{}, false
}

// missed waits until the leader of a group finds that a member does not answer.
func (c *cluster) missed(group replica.GroupID, id replica.NodeID) {
	c.tb.Helper()
	c.eventually(fmt.Sprintf("node %d is missed", id), func() bool {
		s, _ := c.status(c.leader(group), group)
		return slices.ContainsFunc(s.Lags, func(l replica.Lag) bool { return l.Node == id && !l.Active })
	})
}

// drop destroys a replica as soon as that is allowed.
func (c *cluster) drop(id replica.NodeID, group replica.GroupID) {
	c.tb.Helper()
	c.eventually(fmt.Sprintf("drop of group %d on node %d", group, id), func() bool {
		s, _ := c.status(c.leader(group), group)
		return c.stores[id].driver.Drop(context.Background(), group, s.Applied) == nil
	})
}

func TestReplicaComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 1, shortLogs)
		defer c.close()
		c.waitReady()
		for i := range 200 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), "v"))
		}
		c.join(2)
		two := c.stores[2].driver
		require.True(t, two.Ready(), "it holds nothing to wait for")
		require.False(t, two.Hosts(1))
		_, ok := c.status(2, 1)
		require.False(t, ok)

		c.change(1, replica.AddLearner, 2)
		c.eventually("the learner has the state", func() bool { return two.Hosts(1) })
		c.waitRows(1, 1, 2)
		s, ok := c.status(2, 1)
		require.True(t, ok)
		require.True(t, s.Initialised)
		require.Equal(t, replica.Members{Voters: []replica.NodeID{1}, Learners: []replica.NodeID{2}}, s.Members)
		require.EqualValues(t, 1, s.Leader)
		s, _ = c.status(1, 1)
		require.True(t, s.Leading)
		require.Equal(t, []replica.Lag{{Node: 2, Active: true}}, s.Lags)
		require.False(t, two.Hosts(0), "only the group that was given to it")

		c.change(1, replica.Promote, 2)
		require.NoError(t, c.stores[1].driver.TransferLeader(t.Context(), 1, 2))
		require.NoError(t, c.propose(t.Context(), 1, "by", "two"))
		require.ErrorIs(t, two.Drop(t.Context(), 1, 1<<60), replica.ErrStillMember, "it leads")
		require.ErrorIs(t, c.stores[1].driver.Drop(t.Context(), 1, 1<<60), replica.ErrStillMember, "it hears from the leader")
		require.NoError(t, c.stores[2].driver.TransferLeader(t.Context(), 1, 1))
		c.change(1, replica.Remove, 2)

		s, _ = c.status(2, 1)
		require.ErrorIs(t, two.Drop(t.Context(), 1, s.Applied-1), replica.ErrStillMember, "it knows more")
		c.drop(2, 1)
		require.False(t, two.Hosts(1))
		rows, err := c.stores[2].machine.Rows(1)
		require.NoError(t, err)
		require.Empty(t, rows)
		require.Zero(t, logRows(t, c.stores[2].db, 1))
		require.NoError(t, two.Drop(t.Context(), 1, 0), "there is nothing to drop")
		_, err = two.Propose(t.Context(), 1, replicatest.Put("k", "v"))
		require.ErrorIs(t, err, replica.ErrUnknownGroup)

		// It stays away over a restart, and comes back when it is wanted again.
		n := c.stores[2]
		c.network.Endpoint(2).Bind(nil)
		n.close(t)
		c.start(2, n.mem)
		require.False(t, c.stores[2].driver.Hosts(1))
		c.change(1, replica.AddLearner, 2)
		c.change(1, replica.Promote, 2)
		require.NoError(t, c.propose(t.Context(), 1, "once", "more"))
		c.waitRows(1, 1, 2)
	})
}

func TestChangesCompareAndSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3, shortLogs)
		defer c.close()
		c.waitReady()
		lead := c.stores[c.leader(1)].driver
		c.join(4)
		change := replica.Change{Kind: replica.AddLearner, Node: 4, Expect: &replica.Members{Voters: []replica.NodeID{1, 2}}}
		require.ErrorIs(t, lead.ChangeMembers(t.Context(), 1, change), replica.ErrConflict)
		change.Expect = &replica.Members{Voters: []replica.NodeID{3, 1, 2}}
		require.NoError(t, lead.ChangeMembers(t.Context(), 1, change))
		require.ErrorIs(t, lead.ChangeMembers(t.Context(), 1, change), replica.ErrConflict, "the second of two who decided alike")
		change = replica.Change{Kind: replica.Promote, Node: 4, Expect: &replica.Members{Voters: []replica.NodeID{1, 2, 3}, Learners: []replica.NodeID{4}}}
		c.eventually("promotion", func() bool { return lead.ChangeMembers(t.Context(), 1, change) == nil })
		members, ok := lead.Members(1)
		require.True(t, ok)
		require.Equal(t, replica.Members{Voters: []replica.NodeID{1, 2, 3, 4}, Learners: []replica.NodeID{}}, members)
	})
}

func TestUnsafeChangesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, 3, shortLogs)
		defer c.close()
		c.waitReady()
		lead := c.leader(1)
		live, dead := lead%3+1, (lead+1)%3+1
		driver := c.stores[lead].driver
		c.network.Isolate(dead)
		c.missed(1, dead)
		remove := func(id replica.NodeID) error {
			return driver.ChangeMembers(t.Context(), 1, replica.Change{Kind: replica.Remove, Node: id})
		}
		require.ErrorIs(t, remove(live), replica.ErrUnsafe)

		// A learner that is not there is no help as a voter.
		require.NoError(t, driver.ChangeMembers(t.Context(), 1, replica.Change{Kind: replica.AddLearner, Node: 9}))
		require.ErrorIs(t, driver.ChangeMembers(t.Context(), 1, replica.Change{Kind: replica.Promote, Node: 9}), replica.ErrBusy)

		// ErrBusy asks to come back: the change before may not be applied yet.
		c.eventually("removal of the dead voter", func() bool { return remove(dead) == nil })
		c.eventually("removal of the learner", func() bool { return remove(9) == nil })
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
	})
}

// TestLearnerUnderLoad gives a learner a snapshot that takes longer than the log would be kept, while writes go on: one snapshot must do.
func TestLearnerUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		installed := make(chan replica.GroupID, 100)
		c := newCluster(t, 1, 1, shortLogs, func(cfg *replica.Config) {
			cfg.OnSnapshot = func(group replica.GroupID) { installed <- group }
			cfg.SnapshotRate = 1 << 20
		})
		defer c.close()
		c.waitReady()
		for i := range 256 {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint("big", i), strings.Repeat("x", 8<<10)))
		}
		c.join(2)
		c.change(1, replica.AddLearner, 2)
		begin, i := time.Now(), 0
		for ; !c.stores[2].driver.Hosts(1); i++ {
			require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint(i), "v"))
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, time.Since(begin), time.Second, "the snapshot is paced")
		require.Greater(t, i, 120, "the log would have been cut")
		c.change(1, replica.Promote, 2)
		c.waitRows(1, 1, 2)
		require.Len(t, installed, 1)
		for range 300 {
			require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		}
		require.LessOrEqual(t, logRows(t, c.stores[1].db, 1), 130, "and then it is cut again")
	})
}

func TestOnChangeTellsOfLeadersAndMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{}, 1)
		c := newCluster(t, 1, 1, shortLogs, func(cfg *replica.Config) {
			cfg.OnChange = func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		})
		defer c.close()
		c.waitReady()
		synctest.Wait()
		<-changed
		require.NoError(t, c.propose(t.Context(), 1, "k", "v"))
		synctest.Wait()
		require.Empty(t, changed, "nothing changed")
		c.change(1, replica.AddLearner, 2)
		<-changed
	})
}
