package replica

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// ear is a transport that keeps what a node says.
type ear struct {
	mu    sync.Mutex
	heard []Message
}

func (e *ear) Send(_ NodeID, msgs []Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, msgs...)
}

func (e *ear) SendSnapshot(context.Context, NodeID, Message, func(io.Writer) error) error {
	return io.ErrClosedPipe
}

func (e *ear) count(kind raftpb.MessageType) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.heard {
		if m.raft.GetType() == kind {
			n++
		}
	}
	return n
}

// listening is a started node 1 that joins, and what it says.
func listening(t *testing.T, db *pebble.DB) (*Driver, *ear) {
	t.Helper()
	e := &ear{}
	d, err := Open(Config{Node: 1, DB: db, Machine: nothing{}, MaxGroup: 3, Transport: e, TickInterval: time.Millisecond})
	require.NoError(t, err)
	d.Start()
	return d, e
}

func from2(kind raftpb.MessageType, group GroupID, term uint64) Message {
	return Message{Group: group, raft: &raftpb.Message{
		Type: kind.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(term), Index: new(uint64(9)), LogTerm: new(term),
	}}
}

func status(t *testing.T, d *Driver) []Status {
	t.Helper()
	all, err := d.Status(t.Context())
	require.NoError(t, err)
	return all
}

func TestOnlyALeaderMakesAReplica(t *testing.T) {
	d, e := listening(t, openMem(t))
	defer d.Stop()
	d.Deliver(from2(raftpb.MsgVote, 1, 5), from2(raftpb.MsgPreVote, 1, 5), from2(raftpb.MsgAppResp, 1, 5), from2(raftpb.MsgTimeoutNow, 1, 5))
	d.Deliver(from2(raftpb.MsgHeartbeat, 4, 5))
	require.Empty(t, status(t, d))
	d.Deliver(from2(raftpb.MsgApp, 2, 5), from2(raftpb.MsgHeartbeat, 1, 5))
	require.Eventually(t, func() bool { return e.count(raftpb.MsgAppResp) == 1 && e.count(raftpb.MsgHeartbeatResp) == 1 }, 30*time.Second, time.Millisecond)
	none := Members{Voters: []NodeID{}, Learners: []NodeID{}}
	require.Equal(t, []Status{{Group: 1, Leader: 2, Term: 5, First: 1, Members: none}, {Group: 2, Leader: 2, Term: 5, First: 1, Members: none}}, status(t, d))

	// Without a state there is nothing to compare a candidate's log with, and nothing to lead.
	d.Deliver(from2(raftpb.MsgVote, 1, 6), from2(raftpb.MsgPreVote, 1, 6), from2(raftpb.MsgTimeoutNow, 1, 5))
	time.AfterFunc(200*time.Millisecond, func() { d.Deliver(from2(raftpb.MsgHeartbeat, 1, 7)) }) // many election timeouts later
	require.Eventually(t, func() bool { return status(t, d)[0].Term == 7 }, 30*time.Second, time.Millisecond)
	require.Zero(t, e.count(raftpb.MsgVoteResp)+e.count(raftpb.MsgPreVoteResp)+e.count(raftpb.MsgPreVote)+e.count(raftpb.MsgVote))
	require.True(t, d.Ready(), "it waits for no replica without a state")
}

// TestTermOutlivesReplica: a replica that is dropped, or never got a state, leaves its term and vote.
func TestTermOutlivesReplica(t *testing.T) {
	db := openMem(t)
	d, _ := listening(t, db)
	d.Deliver(from2(raftpb.MsgHeartbeat, 1, 7), from2(raftpb.MsgHeartbeat, 2, 7))
	require.Eventually(t, func() bool { return d.Drop(t.Context(), 1, 0) == nil }, 30*time.Second, time.Millisecond)
	all := status(t, d)
	require.Len(t, all, 1)
	require.EqualValues(t, 2, all[0].Group)
	d.Stop()

	d, _ = listening(t, db)
	defer d.Stop()
	require.Empty(t, status(t, d))
	d.Deliver(from2(raftpb.MsgHeartbeat, 1, 6), from2(raftpb.MsgHeartbeat, 2, 6))
	require.Empty(t, status(t, d), "of a leader that was succeeded long ago")
	d.Deliver(from2(raftpb.MsgHeartbeat, 1, 7), from2(raftpb.MsgHeartbeat, 2, 8))
	require.Eventually(t, func() bool {
		all = status(t, d)
		return len(all) == 2 && all[0].Term == 7 && all[1].Term == 8
	}, 30*time.Second, time.Millisecond)
}

// TestVoteOutlivesReplica: who voted keeps its word after a drop.
func TestVoteOutlivesReplica(t *testing.T) {
	db := openMem(t)
	batch := db.NewBatch()
	require.NoError(t, SeedStore(batch, nil, 1))
	require.NoError(t, Seed(batch, nil, GroupSeed{Group: 1, Index: 5, Term: 3, Voters: []NodeID{1, 2, 3}}))
	require.NoError(t, batch.Commit(pebble.Sync))
	d, e := listening(t, db)
	require.Eventually(t, func() bool {
		d.Deliver(from2(raftpb.MsgVote, 1, 1000))
		return e.count(raftpb.MsgVoteResp) > 0
	}, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return d.Drop(t.Context(), 1, 5) == nil }, 30*time.Second, time.Millisecond)
	d.Stop()
	row, err := getRow(db, keysOf([]byte("r"), 1).row(kindHardState))
	require.NoError(t, err)
	hard, err := parseHardState(row)
	require.NoError(t, err)
	require.Equal(t, hardState{term: 1000, vote: 2}, hard)
	d, _ = listening(t, db)
	defer d.Stop()
	d.Deliver(from2(raftpb.MsgHeartbeat, 1, 1000))
	require.Equal(t, uint64(1000), status(t, d)[0].Term)
	require.NoError(t, d.ask(t.Context(), func(reply chan<- error) {
		if vote := d.table.get(1).node.BasicStatus().GetVote(); vote != 2 {
			reply <- inconsistent("the vote is %d", vote)
			return
		}
		reply <- nil
	}))
}

func TestSeedsBecomeGroups(t *testing.T) {
	db := openMem(t)
	batch := db.NewBatch()
	require.NoError(t, SeedStore(batch, nil, 1))
	require.NoError(t, Seed(batch, nil, GroupSeed{Group: 0, Index: 700, Term: 40, Voters: []NodeID{1}}))
	require.NoError(t, Seed(batch, nil, GroupSeed{Group: 3, Index: 1, Term: 1, Voters: []NodeID{1}}))
	require.NoError(t, batch.Commit(pebble.Sync))
	d, err := Open(Config{Node: 1, DB: db, Machine: nothing{}})
	require.NoError(t, err)
	d.Start()
	defer d.Stop()
	require.Eventually(t, d.Ready, 30*time.Second, time.Millisecond)
	_, err = d.Propose(t.Context(), 0, []byte("x"))
	require.NoError(t, err)
	all := status(t, d)
	require.Len(t, all, 2)
	require.EqualValues(t, 0, all[0].Group)
	require.Equal(t, Status{
		Group: 0, Leading: true, Leader: 1, Term: 41, Applied: 702, First: 701, Last: 702, LogBytes: all[0].LogBytes, Initialised: true,
		Members: Members{Voters: []NodeID{1}, Learners: []NodeID{}},
	}, all[0])
	require.EqualValues(t, 3, all[1].Group)

	for _, bad := range []GroupSeed{
		{Group: 1, Term: 1, Voters: []NodeID{1}},
		{Group: 1, Index: 1, Voters: []NodeID{1}},
		{Group: 1, Index: 1, Term: 1},
		{Group: 1, Index: 1, Term: 1, Voters: []NodeID{0}},
	} {
		require.Error(t, Seed(db.NewBatch(), nil, bad))
	}
	require.Error(t, SeedStore(db.NewBatch(), nil, 0))
}

// TestOldStoreIsRead: stores of the first release list their groups in the store row.
func TestOldStoreIsRead(t *testing.T) {
	db := usedStore(t)
	require.NoError(t, db.Set(storeKey([]byte("r")), encodeNumbers(1, 0, 1), pebble.Sync))
	for range 2 {
		d, err := Open(Config{Node: 1, DB: db, Machine: nothing{}})
		require.NoError(t, err)
		require.NotNil(t, d.table.get(0))
		require.NotNil(t, d.table.get(1))
		row, err := getRow(db, storeKey([]byte("r")))
		require.NoError(t, err)
		require.Equal(t, encodeStore(1), row, "a program that thinks a store holds all its groups must refuse it")
	}
}
