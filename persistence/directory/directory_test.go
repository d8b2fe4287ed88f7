package directory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/directory"
	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// log applies what is proposed at once, as a log of one node does.
type log struct {
	db      *pebble.DB
	machine *fsm.Machine
	index   uint64
	err     error
}

func (l *log) ProposePut(_ context.Context, p *logpb.Put) (*logpb.Result, error) {
	if l.err != nil {
		return nil, l.err
	}
	data, err := fsm.EncodePut(p)
	if err != nil {
		return nil, err
	}
	l.index++
	batch := l.db.NewBatch()
	results, err := l.machine.Apply(batch, fsm.Directory, []replica.Entry{{Index: l.index, Data: data}})
	if err != nil {
		return nil, err
	}
	result, _ := results[0].(*logpb.Result)
	return result, batch.Commit(pebble.NoSync)
}

func open(t *testing.T) (*directory.Directory, *log) {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	l := &log{db: db}
	d := directory.New(db, l)
	require.NoError(t, d.Refresh())
	l.machine = fsm.New(db, d.Applied())
	return d, l
}

func names(d *directory.Directory, collection string) []string {
	var out []string
	for _, r := range d.List(collection) {
		out = append(out, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Version))
	}
	return out
}

func TestDirectoryIsLoaded(t *testing.T) {
	d, l := open(t)
	for _, key := range []string{"b", "a", "c"} {
		_, err := d.Put(t.Context(), "agents", key, 0, []byte("v"+key))
		require.NoError(t, err)
	}
	_, err := d.Put(t.Context(), "tokens", "a", 0, []byte("t"))
	require.NoError(t, err)
	require.NoError(t, d.Delete(t.Context(), "agents", "c", 3))
	want := []string{"a=va@2", "b=vb@1"}
	require.Equal(t, want, names(d, "agents"))

	again := directory.New(l.db, l)
	require.Empty(t, names(again, "agents"))
	require.NoError(t, again.Refresh())
	require.Equal(t, want, names(again, "agents"))
	require.Equal(t, []string{"a=t@4"}, names(again, "tokens"))
	require.Empty(t, names(again, "nothing"))
	_, ok := again.Get("agents", "c")
	require.False(t, ok)
	_, ok = again.Get("nothing", "c")
	require.False(t, ok)
}

// TestGuards: who reads a guard's version finds what was written with it, and nobody writes by what is no more.
func TestGuards(t *testing.T) {
	d, l := open(t)
	write := func(key string, guard uint64, remove bool, expected uint64) error {
		_, err := d.Write(t.Context(), &logpb.Put{
			Collection: "agents", Key: key, ExpectedVersion: expected, Delete: remove,
			Guard: &logpb.Guard{Collection: "guards", Key: "agents", ExpectedVersion: guard},
		})
		return err
	}
	require.NoError(t, write("a", 0, false, 0))
	require.ErrorIs(t, write("b", 0, false, 0), directory.ErrConflict)
	require.NoError(t, write("b", 1, false, 0))
	require.ErrorIs(t, write("b", 1, true, 3), directory.ErrConflict)
	require.ErrorIs(t, write("b", 3, true, 1), directory.ErrConflict, "the guard does not stand for the record")
	require.NoError(t, write("b", 3, true, 3))
	require.Equal(t, []string{"a=@1"}, names(d, "agents"))
	require.Equal(t, []string{"agents=@6"}, names(d, "guards"))
	again := directory.New(l.db, l)
	require.NoError(t, again.Refresh())
	require.Equal(t, names(d, "guards"), names(again, "guards"))
	require.Equal(t, uint64(6), again.Version())
}

func TestFailedWritesSaySo(t *testing.T) {
	d, l := open(t)
	l.err = errors.New("no leader")
	_, err := d.Put(t.Context(), "agents", "a", 0, nil)
	require.ErrorIs(t, err, l.err)
	require.ErrorContains(t, err, "put agents/a")
}

// What is handed to the directory is the log's memory, which is used again.
func TestValuesAreCopied(t *testing.T) {
	d, _ := open(t)
	value := []byte("one")
	d.Applied().Put("agents", "a", 1, value)
	copy(value, "xxx")
	r, _ := d.Get("agents", "a")
	require.Equal(t, "one", string(r.Value))
}

func TestWatch(t *testing.T) {
	d, _ := open(t)
	changed, stop := d.Watch("agents")
	other, stopOther := d.Watch("tokens")
	defer stopOther()
	for i := range 5 { // nobody receives: changes melt into one
		_, err := d.Put(t.Context(), "agents", fmt.Sprint(i), 0, nil)
		require.NoError(t, err)
	}
	<-changed
	require.Empty(t, changed)
	require.Empty(t, other)
	require.NoError(t, d.Delete(t.Context(), "agents", "0", 1))
	<-changed
	stop()
	_, err := d.Put(t.Context(), "agents", "x", 0, nil)
	require.NoError(t, err)
	require.Empty(t, changed)
}

// After a snapshot the rows count, whether Refresh or the next entry comes first.
func TestSnapshotReplacesRecords(t *testing.T) {
	for _, name := range []string{"refresh", "entry"} {
		t.Run(name, func(t *testing.T) {
			d, l := open(t)
			_, err := d.Put(t.Context(), "agents", "old", 0, []byte("v"))
			require.NoError(t, err)
			changed, stop := d.Watch("agents")
			defer stop()

			require.NoError(t, l.db.Delete(keys.AppendRecord(nil, 0, "agents", "old"), pebble.NoSync))
			require.NoError(t, l.db.Set(keys.AppendRecord(nil, 0, "agents", "new"), keys.AppendRecordValue(nil, 7, []byte("v")), pebble.NoSync))
			require.NoError(t, d.Refresh())
			require.Equal(t, []string{"old=v@1"}, names(d, "agents"), "nobody has said that the rows changed")
			d.Invalidate()
			want := []string{"new=v@7"}
			if name == "refresh" {
				require.NoError(t, d.Refresh())
				<-changed
			} else {
				l.index = 8
				_, err := d.Put(t.Context(), "agents", "next", 0, nil)
				require.NoError(t, err)
				want = append(want, "next=@9")
			}
			require.Equal(t, want, names(d, "agents"))
		})
	}
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	d, l := open(t)
	require.NoError(t, l.db.Set(keys.AppendRecord(nil, 0, "agents", "a"), []byte("short"), pebble.NoSync))
	require.ErrorContains(t, directory.New(l.db, l).Refresh(), "record of 5 bytes")
	d.Invalidate()
	require.Error(t, d.Refresh())
}

// Await hears of what is applied, and asks how far the log is where memory cannot know: a deletion leaves no version.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := open(t)
		applied := uint64(0)
		held := func() (bool, error) { return applied >= 3, nil }
		waiting := make(chan error, 1)
		go func() { waiting <- d.Await(t.Context(), 2, held) }()
		synctest.Wait()
		version, err := d.Put(t.Context(), "agents", "a", 0, []byte("one"))
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, waiting)
		require.NoError(t, d.Delete(t.Context(), "agents", "a", version))
		require.NoError(t, <-waiting)
		require.EqualValues(t, 2, d.Version())

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Await(short, 3, held), context.DeadlineExceeded)

		// After a snapshot that ends with a deletion.
		again := directory.New(l.db, l)
		applied = 3
		require.NoError(t, again.Await(t.Context(), 3, held))
		applied = 0
		require.NoError(t, again.Await(t.Context(), 3, held), "it was told once")
		require.ErrorIs(t, again.Await(t.Context(), 4, func() (bool, error) { return false, errUnknown }), errUnknown)
	})
}

var errUnknown = errors.New("not known")
