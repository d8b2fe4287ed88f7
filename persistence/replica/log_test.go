package replica

import (
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func openMem(tb testing.TB) *pebble.DB {
	tb.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem(), FormatMajorVersion: pebble.FormatNewest, Logger: silent{}})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestLogBehavesLikeRaftsOwn drives appends, overwrites, cuts and resets through the append goroutine's code and compares every answer with raft's own
// storage in memory, also after the log is loaded again from disk.
func TestLogBehavesLikeRaftsOwn(t *testing.T) {
	db := openMem(t)
	var last GroupID
	rapid.Check(t, func(rt *rapid.T) {
		last++
		first := position{index: 1, term: 1}
		d := &Driver{cfg: Config{DB: db}}
		d.metrics = newMetrics(nil, d)
		run := &logRun{appender: &appender{driver: d}, model: raft.NewMemoryStorage(), term: 1}
		run.group = &group{keys: keysOf([]byte("r"), last), append: appendState{last: first.index}}
		run.group.log = &groupLog{db: db, keys: run.group.keys, start: first, last: first, tailLimit: rapid.IntRange(0, 400).Draw(rt, "tail")}
		require.NoError(rt, run.model.ApplySnapshot(snapshotAt(first)))
		run.appender.set(run.group.keys.row(kindStart), encodePosition(first))
		run.flush(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"append":    func(rt *rapid.T) { run.append(rt, 0) },
			"overwrite": func(rt *rapid.T) { run.append(rt, rapid.Uint64Range(0, run.length()).Draw(rt, "back")) },
			"cut":       run.cut,
			"reset":     run.reset,
			"reload":    run.reload,
			"":          run.check,
		})
	})
}

// logRun is a log and its model.
type logRun struct {
	group    *group
	appender *appender
	model    *raft.MemoryStorage
	term     uint64
}

func (r *logRun) length() uint64 { return r.group.log.last.index - r.group.log.start.index }

func (r *logRun) append(t *rapid.T, back uint64) {
	if back > 0 {
		r.term++
	}
	next := r.group.log.last.index + 1 - back
	var entries []*raftpb.Entry
	for i := range rapid.Uint64Range(1, 5).Draw(t, "count") {
		data := rapid.SliceOfN(rapid.Byte(), 1, 60).Draw(t, "data")
		entries = append(entries, &raftpb.Entry{Index: new(next + i), Term: new(r.term), Type: raftpb.EntryNormal.Enum(), Data: data})
	}
	r.appender.stageEntries(r.group, entries)
	r.flush(t)
	require.NoError(t, r.group.log.committed(entries))
	require.NoError(t, r.model.Append(entries))
}

func (r *logRun) flush(t *rapid.T) { require.True(t, r.appender.commit(false)) }

func (r *logRun) cut(t *rapid.T) {
	if r.length() == 0 {
		t.Skip("empty")
	}
	l := r.group.log
	to := rapid.Uint64Range(l.start.index+1, l.last.index).Draw(t, "to")
	term, err := l.Term(to)
	require.NoError(t, err)
	l.cut(position{index: to, term: term})
	r.appender.stageCut(r.group, position{index: to, term: term})
	r.flush(t)
	require.NoError(t, r.model.Compact(to))
}

// reset is what installing a snapshot does to a log.
func (r *logRun) reset(t *rapid.T) {
	r.term++
	at := position{index: r.group.log.last.index + rapid.Uint64Range(1, 10).Draw(t, "ahead"), term: r.term}
	start, end := r.group.keys.entries()
	r.appender.deleteRange(start, end)
	r.appender.set(r.group.keys.row(kindStart), encodePosition(at))
	r.flush(t)
	r.group.append.last = at.index
	r.group.log.reset(at)
	require.NoError(t, r.model.ApplySnapshot(snapshotAt(at)))
}

func (r *logRun) reload(t *rapid.T) {
	old := r.group.log
	row, err := getRow(old.db, r.group.keys.row(kindStart))
	require.NoError(t, err)
	start, err := parsePosition("start", row)
	require.NoError(t, err)
	l := &groupLog{db: old.db, keys: old.keys, start: start, tailLimit: old.tailLimit}
	require.NoError(t, l.loadEnds())
	require.Equal(t, old.last, l.last)
	r.group.log = l
}

func (r *logRun) check(t *rapid.T) {
	l := r.group.log
	first, err := l.FirstIndex()
	require.NoError(t, err)
	last, err := l.LastIndex()
	require.NoError(t, err)
	wantFirst, _ := r.model.FirstIndex()
	wantLast, _ := r.model.LastIndex()
	require.Equal(t, wantFirst, first)
	require.Equal(t, wantLast, last)
	for i := first - 2; i <= last+1; i++ {
		term, termErr := l.Term(i)
		want, wantErr := r.model.Term(i)
		require.Equal(t, wantErr, termErr, "term of %d", i)
		require.Equal(t, want, term, "term of %d", i)
	}
	_, err = l.Entries(first-1, first, math.MaxUint64)
	require.ErrorIs(t, err, raft.ErrCompacted)
	if first > last {
		return
	}
	_, err = l.Entries(first, last+2, math.MaxUint64)
	require.ErrorIs(t, err, raft.ErrUnavailable)
	lo := rapid.Uint64Range(first, last).Draw(t, "lo")
	hi := rapid.Uint64Range(lo+1, last+1).Draw(t, "hi")
	want, err := r.model.Entries(lo, hi, math.MaxUint64)
	require.NoError(t, err)
	limit := rapid.SampledFrom([]uint64{0, 100, 200, math.MaxUint64}).Draw(t, "limit")
	got, err := l.Entries(lo, hi, limit)
	require.NoError(t, err)
	require.NotEmpty(t, got)
	if limit == math.MaxUint64 {
		require.Len(t, got, len(want))
	}
	var size uint64
	for i, e := range got {
		require.True(t, proto.Equal(want[i], e), "entry %d", lo+uint64(i))
		size += entrySize(e)
	}
	require.True(t, size <= limit || len(got) == 1)
	// What was handed out must survive what raft may do to it.
	_ = append(got, &raftpb.Entry{})
}

func snapshotAt(p position) *raftpb.Snapshot {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &p.index, Term: &p.term, ConfState: raftpb.EnsureConfState(nil)}}
}
