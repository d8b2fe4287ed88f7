package persistence_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

// ledger is what writers were told: the newest acknowledged seq of each conversation.
type ledger struct {
	mu    sync.Mutex
	acked map[string]uint64
}

func newLedger() *ledger { return &ledger{acked: map[string]uint64{}} }

func (l *ledger) ack(id string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = seq
}

func (l *ledger) copy() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

const (
	crashWriters = 4
	crashShards  = 3
)

func crashGroup(w int) uint32 { return uint32(w%crashShards) + 1 }

func crashEvent(id string, seq uint64) string {
	return fmt.Sprintf("%s#%d %s", id, seq, strings.Repeat("x", 400))
}

// script is what one writer does until it is done or an error comes: conversations that grow, move in a list and are
// counted, one of them deleted at last.
func script(s *persistence.Store, w, conversations, events int, l *ledger) error {
	for c := range conversations {
		id := fmt.Sprintf("w%d-c%d", w, c)
		for seq := range uint64(events) {
			a := &logpb.Append{
				Id: id, Create: seq == 0, ExpectedSeq: max(seq, 1) - 1, Epoch: 1,
				Head: fmt.Appendf(nil, "head %d", seq), Events: [][]byte{[]byte(crashEvent(id, seq))},
				Listings: []*logpb.Listing{{List: "updated", Score: int64(seq), Member: id}},
				Counts:   []*logpb.Count{{Name: "events", Delta: 1}},
			}
			if seq == 0 {
				a.Counts = append(a.Counts, &logpb.Count{Name: "conversations", Delta: 1})
			} else {
				a.Listings = append(a.Listings, &logpb.Listing{List: "updated", Score: int64(seq) - 1, Member: id, Delete: true})
			}
			if seq == crashFileAt {
				change, err := putCrashFile(s, crashGroup(w), id)
				if err != nil {
					return err
				}
				a.Blobs = append(a.Blobs, change)
			}
			r, err := s.Append(ctx, crashGroup(w), a)
			if err != nil {
				return err
			}
			if r.GetOutcome() != logpb.Outcome_APPLIED {
				return fmt.Errorf("append %d to %s: %s", seq, id, r.GetOutcome())
			}
			l.ack(id, seq)
		}
	}
	return nil
}

// crashFileAt is the event with which a conversation of a script gets its file.
const crashFileAt = 3

func crashFile(id string) []byte { return bytes.Repeat([]byte("bytes of "+id), 200) }

// putCrashFile puts the bytes of a conversation's file and returns its commit.
func putCrashFile(s *persistence.Store, group uint32, id string) (*logpb.BlobChange, error) {
	data := crashFile(id)
	c := &logpb.BlobChange{Id: "file of " + id, Chunks: 1, Size: int64(len(data)), Record: []byte("record of " + id)}
	return c, s.PutChunk(ctx, group, c.GetId(), 0, data)
}

// verifyCrashFile checks that a file is there and whole when it was committed, and otherwise not readable.
func verifyCrashFile(t require.TestingT, s *persistence.Store, group uint32, id string, committed bool) {
	b, found, err := s.Blob(ctx, group, "file of "+id)
	require.NoError(t, err)
	require.Equal(t, committed, found && b.Committed, "file of %s", id)
	if !committed {
		return
	}
	want := persistence.Blob{Chunks: 1, Size: int64(len(crashFile(id))), Record: []byte("record of " + id), Owner: id, Committed: true}
	require.Equal(t, want, b)
	data, err := s.Chunk(ctx, group, "file of "+id, 0, nil)
	require.NoError(t, err)
	require.Equal(t, crashFile(id), data)
}

func runScripts(s *persistence.Store, conversations, events int, l *ledger) error {
	errs := make([]error, crashWriters)
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() { errs[w] = script(s, w, conversations, events, l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// verify checks that everything acknowledged is there, and that head, events, list and counters tell the same story.
func verify(t require.TestingT, s *persistence.Store, conversations int, acked map[string]uint64) {
	var events, entities int64
	for w := range crashWriters {
		for c := range conversations {
			id := fmt.Sprintf("w%d-c%d", w, c)
			head, found, err := s.Head(ctx, crashGroup(w), id)
			require.NoError(t, err)
			seq, promised := acked[id]
			if promised {
				require.True(t, found, "%s was acknowledged up to %d", id, seq)
				require.GreaterOrEqual(t, head.Seq, seq, id)
			}
			n := int64(0)
			err = s.Events(ctx, crashGroup(w), id, persistence.FromStart, func(seq uint64, value []byte) bool {
				require.EqualValues(t, n, seq)
				require.Equal(t, crashEvent(id, seq), string(value))
				n++
				return true
			})
			require.NoError(t, err)
			if !found {
				require.Zero(t, n, "%s has events and no head", id)
				continue
			}
			require.EqualValues(t, head.Seq+1, n)
			require.Equal(t, fmt.Sprintf("head %d", head.Seq), string(head.Value))
			verifyCrashFile(t, s, crashGroup(w), id, head.Seq >= crashFileAt)
			events += n
			entities++
		}
	}
	rows, err := s.List(ctx, persistence.ListQuery{List: "updated", Limit: 10_000})
	require.NoError(t, err)
	require.Len(t, rows, int(entities))
	for _, row := range rows {
		head, _, err := s.Head(ctx, row.Group, row.Member)
		require.NoError(t, err)
		require.EqualValues(t, head.Seq, row.Score)
	}
	for name, want := range map[string]int64{"events": events, "conversations": entities} {
		got, err := s.Count(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}

// reopen opens what a crash left and verifies it.
func reopen(t require.TestingT, fs vfs.FS, conversations int, acked map[string]uint64) {
	s := start(t, small(fs))
	defer s.Stop()
	verify(t, s, conversations, acked)
	// And it goes on.
	_, err := s.Append(ctx, 1, &logpb.Append{Id: "after", Create: true, Head: []byte("h")})
	require.NoError(t, err)
}

// A crash at every sync of a scripted run, from the first open on: with exactly what was synced, and with some of what
// was not.
func TestCrashAtEverySync(t *testing.T) {
	type moment struct {
		fs    *vfs.MemFS
		acked map[string]uint64
		at    string
	}
	mem := vfs.NewCrashableMem()
	book := newLedger()
	var mu sync.Mutex
	var moments []moment
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	fs := errorfs.Wrap(crashable{mem}, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		acked := book.copy() // before the clone: it must hold all of these
		cfg := vfs.CrashCloneCfg{}
		if len(moments)%2 == 1 {
			cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}
		}
		moments = append(moments, moment{mem.CrashClone(cfg), acked, fmt.Sprintf("%d %v", len(moments), op)})
		return nil
	}))
	const conversations, events = 3, 40
	s := start(t, small(fs))
	require.NoError(t, runScripts(s, conversations, events, book))
	s.Stop()
	require.Greater(t, len(moments), 50)
	t.Logf("%d crashes", len(moments))
	for _, m := range moments {
		t.Run(m.at, func(t *testing.T) { reopen(t, m.fs, conversations, m.acked) })
	}
}

// A fault of the disk, at any of many places: the store fails and says so, what was acknowledged is still read, and
// after a restart nothing acknowledged is missing.
func TestFaults(t *testing.T) {
	const conversations, events = 8, 60
	isWAL := func(path string) bool { return strings.HasSuffix(path, ".log") }
	isTable := func(path string) bool { return strings.HasSuffix(path, ".sst") }
	isManifest := func(path string) bool { return strings.Contains(path, "MANIFEST") }
	sync := func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData }
	write := func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite }
	for name, tc := range map[string]struct {
		hits  func(errorfs.Op) bool
		skip  int64 // so many first
		err   error
		heals bool // once only: the next operation works again, as a kernel that has forgotten
	}{
		"sync of the log":                {hits: func(op errorfs.Op) bool { return sync(op) && isWAL(op.Path) }, skip: 20, err: syscall.EIO},
		"sync of the log, once":          {hits: func(op errorfs.Op) bool { return sync(op) && isWAL(op.Path) }, skip: 25, err: syscall.EIO, heals: true},
		"write to the log":               {hits: func(op errorfs.Op) bool { return write(op) && isWAL(op.Path) }, skip: 30, err: syscall.EIO},
		"write to the log, once":         {hits: func(op errorfs.Op) bool { return write(op) && isWAL(op.Path) }, skip: 31, err: syscall.EIO, heals: true},
		"no space for the log":           {hits: func(op errorfs.Op) bool { return write(op) && isWAL(op.Path) }, skip: 40, err: syscall.ENOSPC},
		"new log":                        {hits: func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && isWAL(op.Path) }, err: syscall.EIO},
		"new log, no space":              {hits: func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && isWAL(op.Path) }, err: syscall.ENOSPC},
		"reused log":                     {hits: func(op errorfs.Op) bool { return op.Kind == errorfs.OpReuseForWrite }, err: syscall.EIO},
		"sync of the directory":          {hits: func(op errorfs.Op) bool { return sync(op) && strings.HasSuffix(op.Path, "/db") }, skip: 12, err: syscall.EIO},
		"write to a table":               {hits: func(op errorfs.Op) bool { return write(op) && isTable(op.Path) }, skip: 1, err: syscall.EIO},
		"sync of a table":                {hits: func(op errorfs.Op) bool { return sync(op) && isTable(op.Path) }, err: syscall.EIO},
		"sync of a table, once":          {hits: func(op errorfs.Op) bool { return sync(op) && isTable(op.Path) }, err: syscall.EIO, heals: true},
		"write to the manifest":          {hits: func(op errorfs.Op) bool { return write(op) && isManifest(op.Path) }, skip: 2, err: syscall.EIO},
		"sync of the manifest":           {hits: func(op errorfs.Op) bool { return sync(op) && isManifest(op.Path) }, skip: 2, err: syscall.EIO},
		"sync of the manifest, once":     {hits: func(op errorfs.Op) bool { return sync(op) && isManifest(op.Path) }, skip: 2, err: syscall.EIO, heals: true},
		"no space for the manifest":      {hits: func(op errorfs.Op) bool { return write(op) && isManifest(op.Path) }, skip: 2, err: syscall.ENOSPC},
		"everything after a while":       {hits: func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }, skip: 400, err: syscall.EIO},
		"everything after a while, once": {hits: func(op errorfs.Op) bool { return sync(op) || write(op) }, skip: 300, err: syscall.EIO, heals: true},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			var armed atomic.Bool
			var count atomic.Int64
			fs := errorfs.Wrap(crashable{mem}, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if !armed.Load() || !tc.hits(op) {
					return nil
				}
				n := count.Add(1)
				if n <= tc.skip || tc.heals && n > tc.skip+1 {
					return nil
				}
				return tc.err
			}))
			o := small(fs)
			s := start(t, o)
			armed.Store(true)
			book := newLedger()
			err := runScripts(s, conversations, events, book)
			require.Error(t, err, "the fault was not reached")
			for _, e := range unjoin(err) {
				full := errors.Is(tc.err, syscall.ENOSPC) && errors.Is(e, persistence.ErrFull)
				require.True(t, full || errors.Is(e, persistence.ErrFailed) || errors.Is(e, persistence.ErrOutcomeUnknown), "%v", e)
			}
			require.NoError(t, eventuallyNil(func() error { // a flush may still be on its way to the fault
				if e := s.Writable(); !errors.Is(e, persistence.ErrFailed) {
					return fmt.Errorf("writable: %w", e)
				}
				return nil
			}))
			require.False(t, s.Ready())
			_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "late", Create: true})
			require.ErrorIs(t, err, persistence.ErrFailed)
			verifyAcked(t, s, book.copy())
			crashed := mem.CrashClone(vfs.CrashCloneCfg{})
			reopen(t, crashed, conversations, book.copy())
			began := time.Now()
			s.Stop()
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// verifyAcked reads what was acknowledged from a store that has failed.
func verifyAcked(t *testing.T, s *persistence.Store, acked map[string]uint64) {
	t.Helper()
	for id, seq := range acked {
		var w int
		_, err := fmt.Sscanf(id, "w%d", &w)
		require.NoError(t, err)
		v, err := s.View(t.Context(), crashGroup(w))
		require.NoError(t, err)
		head, found, err := v.Head(id)
		require.NoError(t, err)
		require.True(t, found)
		require.GreaterOrEqual(t, head.Seq, seq)
		require.NoError(t, v.Close())
	}
	_, err := s.List(t.Context(), persistence.ListQuery{List: "updated", Limit: 10})
	require.NoError(t, err)
}
