package persistence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

// A node begins a cluster, two join it: each is ready when it has the directory, learns it at once, gets what was there
// by snapshot and what comes by log, and reads its own replicas only when told that they may be stale.
func TestNodesJoin(t *testing.T) {
	f := newFleet(t, 1)
	require.NoError(t, f.store(1).WaitReady(t.Context()))
	for seq := range uint64(60) { // past a cut of the log
		f.append(1, "c", seq)
	}
	f.put("k", "before")

	joiner := f.up(2, vfs.NewMem())
	require.Equal(t, persistence.Identity{ClusterID: fleetCluster, NodeID: 2, Shards: 3, Format: 1}, joiner.Identity())
	held, err := joiner.Replicas(t.Context())
	require.NoError(t, err)
	require.Empty(t, held)
	require.False(t, joiner.Ready())
	for _, refused := range []error{
		second(joiner.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})),
		second(joiner.View(t.Context(), 1)),
		second(joiner.Count(t.Context(), "events")),
		second(joiner.Backup(t.Context(), 1, io.Discard)),
		joiner.Confirm(t.Context(), 1),
		joiner.TransferLeader(t.Context(), 1, 1),
		joiner.ChangeMembers(t.Context(), 1, persistence.Change{Kind: persistence.AddLearner, Node: 2}),
	} {
		require.ErrorIs(t, refused, persistence.ErrNotLeader)
	}
	require.ErrorIs(t, joiner.Confirm(t.Context(), 9), persistence.ErrUnknownGroup)
	stale := persistence.WithStale(t.Context())
	_, _, err = joiner.Head(stale, 1, "c")
	require.ErrorIs(t, err, persistence.ErrNotLeader)

	changed, stop := joiner.Directory().Watch("test")
	defer stop()
	f.change(0, persistence.AddLearner, 2)
	require.NoError(t, joiner.WaitReady(t.Context()))
	f.sees(2, "k", "before")
	<-changed
	f.put("k", "after")
	f.sees(2, "k", "after")
	<-changed
	_, err = joiner.Directory().Put(t.Context(), "test", "x", 0, nil)
	require.ErrorIs(t, err, persistence.ErrNotLeader)

	f.up(3, vfs.NewMem())
	f.grow(2, 3)
	f.caught(2, 0, 1, 2, 3)
	f.caught(3, 0, 1, 2, 3)
	for _, id := range []uint64{2, 3} {
		s := f.store(id)
		require.True(t, s.Hosts(1))
		_, _, err = s.Head(t.Context(), 1, "c")
		var elsewhere *persistence.NotLeaderError
		require.ErrorAs(t, err, &elsewhere)
		require.EqualValues(t, 1, elsewhere.Leader)
		require.ErrorIs(t, s.Confirm(t.Context(), 1), persistence.ErrNotLeader)
		var head persistence.Head
		var found bool
		head, found, err = s.Head(stale, 1, "c")
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 59, head.Seq)
		n := 0
		require.NoError(t, s.Events(stale, 1, "c", persistence.FromStart, func(uint64, []byte) bool { n++; return true }))
		require.Equal(t, 60, n)
		var rows []persistence.ListRow
		rows, err = s.List(stale, persistence.ListQuery{List: "updated", Limit: 10})
		require.NoError(t, err)
		require.Len(t, rows, 1)
		var count int64
		count, err = s.CountShards(stale, []uint32{3, 1}, "events")
		require.NoError(t, err)
		require.EqualValues(t, 60, count)
		_, err = s.List(t.Context(), persistence.ListQuery{List: "updated", Limit: 10})
		require.ErrorIs(t, err, persistence.ErrNotLeader)
	}
	s := f.store(1)
	require.NoError(t, s.Confirm(t.Context(), 1))
	rows, err := s.ListShards(t.Context(), []uint32{1, 3}, persistence.ListQuery{List: "updated", Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	replica, err := status(s, 1)
	require.NoError(t, err)
	require.Equal(t, []uint64{1, 2, 3}, replica.Members.Voters)
	require.Len(t, replica.Lags, 2)
	require.True(t, replica.Leading)
}

func second[T any](_ T, err error) error { return err }

// A node that joins before the cluster's record is written becomes ready with the record.
func TestJoinBeforeTheRecord(t *testing.T) {
	for range 5 {
		f := newFleet(t, 1, 2)
		f.change(0, persistence.AddLearner, 2) // at once: often the record is behind it in the log
		require.NoError(t, f.store(2).WaitReady(t.Context()))
	}
}

// A change is refused when the members are not the expected ones.
func TestMembersAreCompared(t *testing.T) {
	f := newFleet(t, 1, 2)
	require.NoError(t, f.store(1).WaitReady(t.Context()))
	old := persistence.Members{Voters: []uint64{1}}
	step := persistence.Change{Kind: persistence.AddLearner, Node: 2, Expect: &old}
	require.NoError(t, f.store(1).ChangeMembers(t.Context(), 2, step))
	f.caught(2, 2)
	err := f.store(1).ChangeMembers(t.Context(), 2, persistence.Change{Kind: persistence.Promote, Node: 2, Expect: &old})
	require.ErrorIs(t, err, persistence.ErrConflict)
	require.ErrorIs(t, f.store(2).ChangeMembers(t.Context(), 2, step), persistence.ErrNotLeader)
}

// The leadership goes where it is sent, and what was acknowledged is read there.
func TestLeadershipMoves(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	for seq, to := range []uint64{2, 3, 1, 3} {
		f.append(2, "c", uint64(seq))
		f.at(2, func(s *persistence.Store) error { return s.TransferLeader(ctx, 2, to) })
		require.NoError(t, eventuallyNil(func() error {
			head, found, err := f.store(to).Head(ctx, 2, "c")
			if err != nil {
				return err
			}
			require.True(t, found)
			require.EqualValues(t, seq, head.Seq)
			return nil
		}))
		node, term, ok := f.store(to).Leader(2)
		require.True(t, ok)
		require.Equal(t, to, node)
		require.NotZero(t, term)
	}
}

// With two of three gone nothing is answered but what may be stale, within the caller's deadline; with one back all is.
func TestQuorumIsLostAndFound(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	f.append(1, "c", 0)
	f.caught(3, 1)
	f.network.Isolate(1)
	f.network.Isolate(2)
	f.network.Isolate(3)

	stale := persistence.WithStale(t.Context())
	for id := range f.running() {
		s := f.store(id)
		require.NoError(t, eventuallyNil(func() error {
			within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, _, err := s.Head(within, 1, "c")
			require.Error(t, err, "a read without a majority")
			if !errors.Is(err, persistence.ErrNotLeader) {
				return err // it has not noticed yet
			}
			return nil
		}))
		_, err := s.Append(t.Context(), 1, &logpb.Append{Id: "d", Create: true})
		require.ErrorIs(t, err, persistence.ErrNotLeader)
	}
	head, found, err := f.store(3).Head(stale, 1, "c")
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, head.Seq)

	f.network.Heal()
	f.network.Isolate(2)
	f.append(1, "c", 1)
	f.append(3, "d", 0)
	f.network.Heal()
	f.append(1, "c", 2)
	f.caught(2, 0, 1, 2, 3)
}

// A replica that was removed is dropped with all it held, comes again when the node is added again, and is not dropped
// while it counts.
func TestReplicaIsDropped(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	for seq := range uint64(5) {
		f.append(1, "c", seq)
	}
	f.caught(3, 1)
	leader, err := f.leader(1)
	require.NoError(t, err)
	require.ErrorIs(t, f.store(1).DropReplica(ctx, 1, 1<<40), persistence.ErrStillMember)

	f.change(1, persistence.Remove, 3)
	r, err := status(leader, 1)
	require.NoError(t, err)
	require.NoError(t, eventuallyNil(func() error { return f.store(3).DropReplica(ctx, 1, r.Applied) }))
	require.False(t, f.store(3).Hosts(1))
	_, err = status(f.store(3), 1)
	require.ErrorContains(t, err, "no replica")
	_, _, err = f.store(3).Head(persistence.WithStale(ctx), 1, "c")
	require.ErrorIs(t, err, persistence.ErrNotLeader)
	require.NoError(t, f.store(3).DropReplica(ctx, 1, 0), "there is none")
	require.True(t, f.store(3).Ready())

	fs := f.nodes[3].fs
	f.down(3)
	f.up(3, fs)
	require.NoError(t, f.store(3).WaitReady(ctx))
	require.False(t, f.store(3).Hosts(1))
	f.change(1, persistence.AddLearner, 3)
	f.caught(3, 1)
	head, found, err := f.store(3).Head(persistence.WithStale(ctx), 1, "c")
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 4, head.Seq)
}

// A node that lost its disk comes back as another node of the cluster, which takes the place of the old one.
func TestDiskIsLost(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	f.append(1, "c", 0)
	f.put("k", "v")
	f.down(2)
	f.up(4, vfs.NewMem())
	for group := range uint32(4) {
		f.change(group, persistence.AddLearner, 4)
		f.change(group, persistence.Promote, 4)
		f.change(group, persistence.Remove, 2)
	}
	f.down(1)
	f.append(1, "c", 1)
	f.sees(4, "k", "v")
	require.NoError(t, f.store(4).WaitReady(ctx))
}

// A node that was away finds all again by itself, the directory too, whether the log still reaches it or not.
func TestNodeWasAway(t *testing.T) {
	for _, entries := range []uint64{3, 120} {
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			f := newFleet(t, 1, 2, 3)
			f.grow(2, 3)
			f.append(1, "c", 0)
			fs := f.nodes[3].fs
			f.down(3)
			for seq := range entries {
				f.append(1, "c", seq+1)
				f.put("k", fmt.Sprint(seq))
			}
			f.up(3, fs)
			f.caught(3, 0, 1)
			f.sees(3, "k", fmt.Sprint(entries-1))
			head, _, err := f.store(3).Head(persistence.WithStale(ctx), 1, "c")
			require.NoError(t, err)
			require.Equal(t, entries, head.Seq)
		})
	}
}

// Stale reads of a replica into which a snapshot is being installed see all of the old or all of the new state.
func TestStaleReadsAreWhole(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	const conversations = 60
	for c := range conversations {
		f.append(1, fmt.Sprintf("w0-c%d", c), 0)
	}
	for i := range 8 { // makes an installation take several steps
		f.at(1, func(s *persistence.Store) error {
			_, err := s.Append(ctx, 1, &logpb.Append{Id: fmt.Sprint("filler", i), Create: true, Events: [][]byte{make([]byte, 1<<20)}})
			return err
		})
	}
	f.caught(3, 1)

	stop, stopped := make(chan struct{}), make(chan struct{})
	var refused, whole int
	go func() {
		defer close(stopped)
		stale, last := persistence.WithStale(ctx), int64(conversations)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
			count, err := f.store(3).CountShards(stale, []uint32{1}, "events")
			rows, listErr := f.store(3).ListShards(stale, []uint32{1}, persistence.ListQuery{List: "updated", Limit: 1000})
			if errors.Is(err, persistence.ErrNotLeader) || errors.Is(listErr, persistence.ErrNotLeader) {
				refused++
				continue
			}
			whole++
			if !assert.NoError(t, errors.Join(err, listErr)) || !assert.GreaterOrEqual(t, count, last) || !assert.Len(t, rows, conversations) {
				return
			}
			last = count
		}
	}()
	for round := range uint64(4) {
		f.network.Isolate(3)
		for c := range conversations {
			f.append(1, fmt.Sprintf("w0-c%d", c), round+1)
		}
		f.network.Heal()
		f.caught(3, 1)
	}
	close(stop)
	<-stopped
	t.Logf("%d reads were whole, %d refused", whole, refused)
	require.Positive(t, whole)
}

// A node whose disk is nearly full takes no snapshot, and does when there is room.
func TestNoSnapshotOnFullDisk(t *testing.T) {
	f := newFleet(t, 1)
	for seq := range uint64(60) {
		f.append(1, "c", seq)
	}
	var free atomic.Uint64
	o := f.options(2, vfs.NewMem())
	o.FreeBytes, o.SpaceInterval = func() (uint64, error) { return free.Load(), nil }, time.Millisecond
	s, err := persistence.Open(t.Context(), o)
	require.NoError(t, err)
	f.run(2, o.FS, s)
	f.change(1, persistence.AddLearner, 2)
	require.ErrorIs(t, s.Writable(), persistence.ErrFull)
	require.NoError(t, eventuallyNil(func() error { _, err := status(s, 1); return err }))
	require.False(t, s.Hosts(1))
	free.Store(1 << 40)
	f.caught(2, 1)
}

// Frames that nobody wrote are refused, and harm nothing.
func TestForeignFrames(t *testing.T) {
	f := newFleet(t, 1)
	f.append(1, "c", 0)
	s := f.store(1)
	require.Error(t, s.Deliver([][]byte{nil, []byte("x"), []byte("\x00\x00\x00\x01garbage")}))
	require.Error(t, s.ReceiveSnapshot(t.Context(), []byte("x"), strings.NewReader("")))
	require.Error(t, s.ReceiveSnapshot(t.Context(), make([]byte, 4), strings.NewReader("")))
	f.append(1, "c", 1)
}

func TestJoinNeedsACluster(t *testing.T) {
	_, err := persistence.Open(t.Context(), persistence.Options{Dir: dir, FS: vfs.NewMem(), Join: true})
	require.ErrorContains(t, err, "joining needs a cluster id and a transport")
}

// The identity of a directory is read beside the store that uses it, and of one that is none.
func TestPeekIdentity(t *testing.T) {
	held := t.TempDir()
	_, found, err := persistence.PeekIdentity(held)
	require.NoError(t, err)
	require.False(t, found)
	_, found, err = persistence.PeekIdentity(held + "/no/such")
	require.NoError(t, err)
	require.False(t, found)
	s := start(t, persistence.Options{Dir: held, ClusterID: "c1", NodeID: persistence.NewNodeID(), Shards: 2})
	defer s.Stop()
	id, found, err := persistence.PeekIdentity(held)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, s.Identity(), id)
	require.Equal(t, "c1", id.ClusterID)
	s.Stop()
	_, err = persistence.Open(t.Context(), persistence.Options{Dir: held, ClusterID: "c2"})
	require.ErrorIs(t, err, persistence.ErrRefused)
	require.ErrorContains(t, err, "belongs to cluster c1, this is cluster c2")
}
