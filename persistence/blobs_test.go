package persistence_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/persistence/persistencetest"
	"parley/proto/logpb"
)

// wholeFile is bytes that make some full pieces and a short one.
func wholeFile(id string, full int) []byte {
	data := make([]byte, full*persistence.ChunkSize+777)
	_, _ = rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", id)))).Read(data)
	return data
}

func pieceOf(data []byte, index uint32) []byte {
	from := int(index) * persistence.ChunkSize
	return data[from:min(from+persistence.ChunkSize, len(data))]
}

func putPieces(s *persistence.Store, group uint32, id string, data []byte) error {
	for index := range chunksOf(data) {
		if err := s.PutChunk(ctx, group, id, index, pieceOf(data, index)); err != nil {
			return err
		}
	}
	return nil
}

func chunksOf(data []byte) uint32 {
	return uint32((len(data) + persistence.ChunkSize - 1) / persistence.ChunkSize)
}

// keepFile puts a file and commits it with a new conversation.
func keepFile(s *persistence.Store, group uint32, id string, data []byte) error {
	if err := putPieces(s, group, id, data); err != nil {
		return err
	}
	r, err := s.Append(ctx, group, &logpb.Append{Id: "owner of " + id, Create: true, Head: []byte("h"), Blobs: []*logpb.BlobChange{{
		Id: id, Chunks: chunksOf(data), Size: int64(len(data)), Record: []byte(id),
	}}})
	if err == nil && r.GetOutcome() != logpb.Outcome_APPLIED {
		err = errors.New(r.GetOutcome().String())
	}
	return err
}

// hasFile says what is wrong with a committed file.
func hasFile(s *persistence.Store, group uint32, id string, data []byte, stale bool) error {
	at := ctx
	if stale {
		at = persistence.WithStale(ctx)
	}
	b, found, err := s.Blob(at, group, id)
	switch {
	case err != nil:
		return err
	case !found || !b.Committed || b.Size != int64(len(data)) || b.Chunks != chunksOf(data) || string(b.Record) != id:
		return fmt.Errorf("%s is %v %+v", id, found, b)
	}
	for index := range b.Chunks {
		got, err := s.Chunk(at, group, id, index, nil)
		if err != nil {
			return err
		}
		if !bytes.Equal(pieceOf(data, index), got) {
			return fmt.Errorf("piece %d of %s is another", index, id)
		}
	}
	return nil
}

// A crash at every sync while files come and go: what was acknowledged is whole, what was removed is gone, and what was
// under way is either.
func TestFilesAfterCrashes(t *testing.T) {
	const files = 6
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	type moment struct {
		fs            *vfs.MemFS
		kept, removed int // files below these are
		at            string
	}
	var kept, removed atomic.Int64
	var mu sync.Mutex
	var moments []moment
	mem := vfs.NewCrashableMem()
	s := start(t, small(errorfs.Wrap(crashable{mem}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		cfg := vfs.CrashCloneCfg{}
		if len(moments)%2 == 1 {
			cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}
		}
		m := moment{kept: int(kept.Load()), removed: int(removed.Load()), at: fmt.Sprintf("%d %v", len(moments), op)}
		m.fs = mem.CrashClone(cfg)
		moments = append(moments, m)
		return nil
	}))))
	name := func(i int) string { return fmt.Sprint("file", i) }
	for i := range files {
		require.NoError(t, keepFile(s, 1, name(i), wholeFile(name(i), 2)))
		kept.Store(int64(i + 1))
		if i%2 == 1 {
			_, err := s.Append(ctx, 1, &logpb.Append{Id: "owner of " + name(i/2), DeleteEntity: true})
			require.NoError(t, err)
			removed.Store(int64(i/2 + 1))
		}
	}
	s.Stop()
	require.Greater(t, len(moments), files)
	for _, m := range moments {
		t.Run(m.at, func(t *testing.T) {
			s := start(t, small(m.fs))
			defer s.Stop()
			for i := range files {
				b, found, err := s.Blob(ctx, 1, name(i))
				require.NoError(t, err)
				_, alive, err := s.Head(ctx, 1, "owner of "+name(i))
				require.NoError(t, err)
				require.Equal(t, alive, found && b.Committed, "%s goes with its owner", name(i))
				require.False(t, alive && i < m.removed)
				if alive {
					require.NoError(t, hasFile(s, 1, name(i), wholeFile(name(i), 2), false))
				} else if i < m.kept {
					require.False(t, found)
				}
				require.True(t, alive || i >= m.kept || i <= m.removed, "%s was acknowledged", name(i))
			}
			require.NoError(t, keepFile(s, 2, "after", wholeFile("after", 1)))
		})
	}
}

// Files reach other replicas by snapshot and by log, survive their leader, and go everywhere with their owner; a backup
// holds them.
func TestFilesOfACluster(t *testing.T) {
	f := newFleet(t, 1)
	early, late := wholeFile("early", 5), wholeFile("late", 3)
	require.NoError(t, f.store(1).WaitReady(ctx))
	require.NoError(t, keepFile(f.store(1), 1, "early", early))
	require.NoError(t, f.store(1).PutChunk(ctx, 1, "begun", 0, pieceOf(late, 0)))
	for seq := range uint64(60) { // past a cut of the log
		f.append(1, "c", seq)
	}
	f.up(2, vfs.NewMem())
	f.up(3, vfs.NewMem())
	f.grow(2, 3)
	f.at(1, func(s *persistence.Store) error { return keepFile(s, 1, "late", late) })
	for id := uint64(1); id <= 3; id++ {
		f.caught(id, 1)
		require.NoError(t, hasFile(f.store(id), 1, "early", early, true))
		require.NoError(t, hasFile(f.store(id), 1, "late", late, true))
		_, err := f.store(id).Chunk(persistence.WithStale(ctx), 1, "begun", 0, nil)
		require.NoError(t, err)
		_, err = f.store(id).Chunk(persistence.WithStale(ctx), 1, "begun", 1, nil)
		require.ErrorIs(t, err, persistence.ErrNoChunk)
	}
	_, _, err := f.store(2).Blob(ctx, 1, "early")
	require.ErrorIs(t, err, persistence.ErrNotLeader)
	require.ErrorIs(t, f.store(2).PutChunk(ctx, 1, "x", 0, []byte("x")), persistence.ErrNotLeader)

	var saved bytes.Buffer
	f.at(1, func(s *persistence.Store) error {
		saved.Reset()
		_, err := s.Backup(ctx, 1, &saved)
		return err
	})
	require.Greater(t, saved.Len(), len(early)+len(late))

	f.down(1)
	f.at(1, func(s *persistence.Store) error { return hasFile(s, 1, "early", early, false) })
	f.at(1, func(s *persistence.Store) error { return putPieces(s, 1, "begun", late) }) // where it was left off
	f.at(1, func(s *persistence.Store) error {
		return s.CommitBlob(ctx, 1, "begun", persistence.Blob{Chunks: chunksOf(late), Size: int64(len(late)), Record: []byte("begun")})
	})
	f.at(1, func(s *persistence.Store) error { return hasFile(s, 1, "begun", late, false) })
	f.at(1, func(s *persistence.Store) error {
		_, epoch, _ := s.Leader(1)
		_, err := s.Append(ctx, 1, &logpb.Append{Id: "owner of early", Epoch: epoch, DeleteEntity: true})
		return err
	})
	for id := uint64(2); id <= 3; id++ {
		f.caught(id, 1)
		_, found, err := f.store(id).Blob(persistence.WithStale(ctx), 1, "early")
		require.NoError(t, err)
		require.False(t, found)
		require.NoError(t, hasFile(f.store(id), 1, "begun", late, true))
	}
}

func TestRestoredFiles(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	data, half := wholeFile("f", 4), wholeFile("half", 1)
	require.NoError(t, keepFile(s, 2, "f", data))
	require.NoError(t, s.PutChunk(ctx, 2, "half", 0, pieceOf(half, 0)))
	saved := backUp(t, s)
	s.Stop()
	o := small(vfs.NewMem())
	_, err := persistence.Restore(ctx, o, o.Shards, saved.source)
	require.NoError(t, err)
	s = start(t, o)
	defer s.Stop()
	require.NoError(t, hasFile(s, 2, "f", data, false))
	require.NoError(t, putPieces(s, 2, "half", half))
	require.NoError(t, s.CommitBlob(ctx, 2, "half", persistence.Blob{Chunks: 2, Size: int64(len(half)), Record: []byte("half")}))
	require.NoError(t, hasFile(s, 2, "half", half, false))
}

// What nobody commits goes an hour after its last piece, what belongs to nobody when it expires, all else stays.
func TestSweep(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.UnixMilli(now.Load()) }
	at := func(d time.Duration) { now.Store(1_000_000 + d.Milliseconds()) }
	at(0)
	o := small(vfs.NewMem())
	o.Now, o.SweepInterval = clock, time.Millisecond
	s := start(t, o)
	defer s.Stop()
	data := wholeFile("f", 1)
	require.NoError(t, keepFile(s, 1, "owned", data))
	for _, id := range []string{"left", "alone", "expiring"} {
		require.NoError(t, putPieces(s, 2, id, data))
	}
	require.NoError(t, s.PutChunk(ctx, 3, "begun", 0, []byte("x")))
	alone := persistence.Blob{Chunks: 2, Size: int64(len(data)), Record: []byte("alone")}
	require.NoError(t, s.CommitBlob(ctx, 2, "alone", alone))
	alone.ExpiresAt = clock().Add(5 * time.Hour).UnixMilli()
	require.NoError(t, s.CommitBlob(ctx, 2, "expiring", alone))

	gone := func(group uint32, id string) {
		t.Helper()
		require.NoError(t, eventuallyNil(func() error {
			_, found, err := s.Blob(ctx, group, id)
			if err == nil && found {
				err = errors.New("it is still there")
			}
			return err
		}), id)
		_, err := s.Chunk(ctx, group, id, 0, nil)
		require.ErrorIs(t, err, persistence.ErrNoChunk)
	}
	stays := func(group uint32, ids ...string) {
		t.Helper()
		for _, id := range ids {
			_, found, err := s.Blob(ctx, group, id)
			require.NoError(t, err)
			require.True(t, found, id)
		}
	}
	at(30 * time.Minute)
	require.NoError(t, s.PutChunk(ctx, 2, "later", 0, []byte("x")))
	at(time.Hour)
	gone(2, "left")
	gone(3, "begun")
	stays(2, "alone", "expiring", "later")
	at(90 * time.Minute)
	gone(2, "later")
	stays(2, "alone", "expiring")
	at(5 * time.Hour)
	gone(2, "expiring")
	at(10_000 * time.Hour)
	require.NoError(t, s.PutChunk(ctx, 2, "left", 0, []byte("x")))
	at(10_001 * time.Hour)
	gone(2, "left")
	stays(2, "alone")
	stays(1, "owned")
	require.NoError(t, hasFile(s, 1, "owned", data, false))
}

// One sweep removes all that is due: what is left behind for a later one can be more than that one removes.
func TestSweepRemovesAllThatIsDue(t *testing.T) {
	const blobs = 250
	var due atomic.Bool
	var o persistence.Options
	var s *persistence.Store
	sweeps, left := 0, make(chan bool, 1)
	o = small(vfs.NewMem())
	o.SweepInterval = time.Millisecond
	o.Now = func() time.Time {
		if due.Load() {
			return time.Now().Add(2 * time.Hour)
		}
		return time.Now()
	}
	o.OldSums = func(time.Time) (prefix, before string) { // asked once a sweep and shard, after the blobs
		if !due.Load() {
			return "", ""
		}
		if sweeps++; sweeps == 2*o.Shards { // the second sweep at the latest has begun when it was due
			_, found, err := s.Blob(ctx, 1, fmt.Sprint("blob", blobs-1))
			left <- found || err != nil
		}
		return "", ""
	}
	s = start(t, o)
	defer s.Stop()
	for i := range blobs {
		require.NoError(t, s.PutChunk(ctx, 1, fmt.Sprint("blob", i), 0, []byte("x")))
	}
	due.Store(true)
	select {
	case found := <-left:
		require.False(t, found)
	case <-time.After(30 * time.Second):
		require.Fail(t, "nothing was swept")
	}
}

// A full disk refuses pieces and commits, reads go on; what is there can be committed once there is room.
func TestFilesOnAFullDisk(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 40)
	o := small(vfs.NewMem())
	o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	o.SpaceInterval = time.Millisecond
	s := start(t, o)
	defer s.Stop()
	data := wholeFile("f", 1)
	require.NoError(t, keepFile(s, 1, "f", data))
	require.NoError(t, putPieces(s, 1, "g", data))
	free.Store(1 << 20)
	require.ErrorIs(t, eventuallyError(func() error { return s.PutChunk(ctx, 1, "h", 0, data[:9]) }), persistence.ErrFull)
	b := persistence.Blob{Chunks: 2, Size: int64(len(data)), Record: []byte("g")}
	require.ErrorIs(t, s.CommitBlob(ctx, 1, "g", b), persistence.ErrFull)
	require.NoError(t, hasFile(s, 1, "f", data, false))
	free.Store(1 << 40)
	require.NoError(t, eventuallyNil(func() error { return s.CommitBlob(ctx, 1, "g", b) }))
	require.NoError(t, hasFile(s, 1, "g", data, false))
}

// A sweep takes nothing that is not due, whatever is written meanwhile.
func TestSuiteWhileSweeping(t *testing.T) {
	persistencetest.Suite(t, func(t *testing.T) *persistence.Store {
		t.Helper()
		o := small(vfs.NewMem())
		o.SweepInterval = time.Millisecond
		s := start(t, o)
		t.Cleanup(s.Stop)
		return s
	})
}
