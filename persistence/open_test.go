package persistence_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/cockroachdb/pebble/v2/wal"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

const dir = "/srv/data"

// made is a data directory with some data in it.
func made(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	s := start(t, small(fs))
	require.NoError(t, runScripts(s, 2, 20, newLedger()))
	s.Stop()
	return fs
}

func write(t *testing.T, fs vfs.FS, path, text string) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func read(t *testing.T, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return string(b)
}

func signed(title, line string) string {
	text := title + "\n" + line + "\n"
	return text + fmt.Sprintf("crc32c %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
}

// Every directory that is not wholly ours is refused with its reason, and left as it was.
func TestOpenRefuses(t *testing.T) {
	const title = "parley data directory"
	identity := dir + "/IDENTITY"
	for name, tc := range map[string]struct {
		spoil  func(t *testing.T, fs *vfs.MemFS)
		change func(o *persistence.Options)
		want   []string
	}{
		"a foreign directory": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				require.NoError(t, fs.RemoveAll(dir))
				require.NoError(t, fs.MkdirAll(dir, 0o755))
				write(t, fs, dir+"/notes.txt", "mine")
			},
			want: []string{"is not empty", `"notes.txt"`, "choose an empty directory"},
		},
		"data without identity": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				require.NoError(t, fs.Remove(identity))
			},
			want: []string{"holds data but no IDENTITY file"},
		},
		"a foreign identity": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				write(t, fs, identity, "SQLite format 3\n")
			},
			want: []string{identity, "not an identity file of parley"},
		},
		"a changed identity": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				write(t, fs, identity, strings.Replace(read(t, fs, identity), `"shards":3`, `"shards":4`, 1))
			},
			want: []string{identity, "checksum does not match", "restore it from a backup"},
		},
		"a cut identity": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				text := read(t, fs, identity)
				write(t, fs, identity, text[:len(text)-5])
			},
			want: []string{"checksum does not match"},
		},
		"a newer format": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				write(t, fs, identity, signed(title, `{"format":3,"cluster_id":"x","node_id":1,"shards":3}`))
			},
			want: []string{"written by a newer release (format 3, this one knows 2)", "run that release, or restore a backup from before it"},
		},
		"an identity with a hole": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				write(t, fs, identity, signed(title, `{"format":1,"cluster_id":"x","node_id":0,"shards":3}`))
			},
			want: []string{"a field is missing or out of range"},
		},
		"the data of another cluster": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				other := read(t, made(t), identity)
				node := func(s string) string { return s[strings.Index(s, `"node_id"`):strings.Index(s, `,"shards"`)] }
				line, _, _ := strings.Cut(strings.Replace(other, node(other), node(read(t, fs, identity)), 1)[len(title)+1:], "\n")
				write(t, fs, identity, signed(title, line))
			},
			want: []string{"its data is of cluster", "its IDENTITY file says"},
		},
		"the data of another node": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				write(t, fs, identity, signed(title, `{"format":1,"cluster_id":"x","node_id":77,"shards":3}`))
			},
			want: []string{"data directory refused"},
		},
		"another number of shards": {
			change: func(o *persistence.Options) { o.Shards = 16 },
			want:   []string{"was made with 3 shards, configured are 16", "set it to 3"},
		},
		"another node": {
			change: func(o *persistence.Options) { o.NodeID = 5 },
			want:   []string{"belongs to node", "configured is 5"},
		},
		"no data": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				require.NoError(t, fs.RemoveAll(dir+"/db"))
			},
			want: []string{"restore the directory from a backup"},
		},
		"data of a newer engine": {
			spoil: func(t *testing.T, fs *vfs.MemFS) {
				t.Helper()
				names, err := fs.List(dir + "/db")
				require.NoError(t, err)
				for _, name := range names {
					if strings.HasPrefix(name, "marker.format-version.") {
						require.NoError(t, fs.Rename(dir+"/db/"+name, dir+"/db/marker.format-version.000099.999"))
					}
				}
			},
			want: []string{"open storage", "restore the directory from a backup"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := made(t)
			if tc.spoil != nil {
				tc.spoil(t, fs)
			}
			o := small(fs)
			if tc.change != nil {
				tc.change(&o)
			}
			_, err := persistence.Open(t.Context(), o)
			require.ErrorIs(t, err, persistence.ErrRefused)
			for _, part := range tc.want {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "\n")
			_, err = persistence.Open(t.Context(), o)
			require.ErrorIs(t, err, persistence.ErrRefused, "still refused: nothing was repaired behind anybody's back")
			require.NotContains(t, err.Error(), "another process", "the lock was given back")
		})
	}
}

// Options that cannot be are refused before anything is touched.
func TestOpenValidates(t *testing.T) {
	for want, o := range map[string]persistence.Options{
		"dir is required":    {},
		"shards must be":     {Dir: dir, Shards: 5000},
		"cache bytes":        {Dir: dir, CacheBytes: 1},
		"memtable bytes":     {Dir: dir, MemtableBytes: 1},
		"max open files":     {Dir: dir, MaxOpenFiles: 1},
		"min free bytes":     {Dir: dir, MinFreeBytes: 1},
		"reserve bytes":      {Dir: dir, MinFreeBytes: 8 << 20, ReserveBytes: 8 << 20},
		"space interval":     {Dir: dir, SpaceInterval: 1},
		"bounds of the log":  {Dir: dir, MaxPending: -1},
		"keep entries 9 mus": {Dir: dir, SnapshotEntries: 9, KeepEntries: 9},
	} {
		o.FS = vfs.NewMem()
		_, err := persistence.Open(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

// A flipped bit is found wherever it is: at open or at the read, never returned as data.
func TestDamageIsFound(t *testing.T) {
	build := func(t *testing.T) (*vfs.MemFS, persistence.Options) {
		t.Helper()
		fs := vfs.NewMem()
		o := small(fs)
		s := start(t, o)
		require.NoError(t, runScripts(s, 8, 60, newLedger()))
		s.Stop()
		return fs, o
	}
	for _, kind := range []string{".sst", "MANIFEST"} {
		t.Run(kind, func(t *testing.T) {
			found := 0
			fs, o := build(t)
			names, err := fs.List(dir + "/db")
			require.NoError(t, err)
			for _, name := range names {
				if !strings.HasSuffix(name, kind) && !strings.HasPrefix(name, kind+"-") {
					continue
				}
				var data []byte
				data, err = fs.UnsafeGetFileDataBuffer(dir + "/db/" + name)
				require.NoError(t, err)
				if len(data) < 40_000 && kind != "MANIFEST" {
					continue
				}
				data[len(data)/4] ^= 0x10
				found++
			}
			require.Positive(t, found, "no file of that kind")
			s, err := persistence.Open(t.Context(), o)
			if err != nil {
				require.ErrorIs(t, err, persistence.ErrRefused)
				require.ErrorContains(t, err, dir)
				require.NotContains(t, err.Error(), "\n")
				return
			}
			require.Equal(t, ".sst", kind, "damage of the manifest must be found at open")
			s.Start()
			_ = s.WaitReady(t.Context())
			var damage error
			for w := range crashWriters {
				for c := range 8 {
					id := fmt.Sprintf("w%d-c%d", w, c)
					err = s.Events(t.Context(), crashGroup(w), id, persistence.FromStart, func(seq uint64, value []byte) bool {
						require.Equal(t, crashEvent(id, seq), string(value))
						return true
					})
					damage = errors.Join(damage, err)
				}
			}
			require.ErrorIs(t, damage, persistence.ErrCorrupt)
			require.ErrorIs(t, s.Writable(), persistence.ErrFailed)
			_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})
			require.ErrorIs(t, err, persistence.ErrFailed)
			s.Stop()
		})
	}
}

// Nothing that was synced is taken for the torn end of the log: a flipped bit in any record, but for the last writes, is
// found at open. The log is one that had a former life, as most are; what is left of that behind its end is no damage.
func TestDamageOfTheLogIsFound(t *testing.T) {
	fs := vfs.NewMem()
	o := small(fs)
	s := start(t, o)
	book := newLedger()
	require.NoError(t, runScripts(s, 8, 60, book))
	appends := 0
	appendOne := func() {
		appends++
		_, err := s.Append(t.Context(), 1, &logpb.Append{Id: fmt.Sprint("c", appends), Create: true, Head: []byte("h")})
		require.NoError(t, err)
	}
	var path string
	var records []int64
	for {
		path, records = newestLog(t, fs)
		for range 8 { // syncs after the records: two prove them, and the engine notes each late
			appendOne()
		}
		if now, _ := newestLog(t, fs); now == path && len(records) > 50 {
			break
		}
	}
	s.Stop()
	data, err := fs.UnsafeGetFileDataBuffer(path)
	require.NoError(t, err)
	for i, at := range records {
		for _, flipped := range []int64{at + int64(i)%logHeader, at + logHeader + 3} {
			data[flipped] ^= 1
			_, err = persistence.Open(t.Context(), o)
			require.ErrorIs(t, err, persistence.ErrRefused, "record %d of %d, byte %d", i, len(records), flipped-at)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
			data[flipped] ^= 1
		}
	}
	s = start(t, o)
	defer s.Stop()
	verify(t, s, 8, book.copy())
}

const logHeader = 19 // bytes of a chunk before its payload

// newestLog is the file of the engine's newest log, and where its records begin.
func newestLog(t *testing.T, fs vfs.FS) (path string, records []int64) {
	t.Helper()
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir + "/db"})
	require.NoError(t, err)
	newest := logs[len(logs)-1]
	_, path = newest.SegmentLocation(0)
	reader := newest.OpenForRead()
	for {
		_, offset, err := reader.NextRecord()
		if err != nil {
			require.NoError(t, reader.Close())
			return path, records
		}
		const block = 32 << 10
		at := offset.Physical
		if left := block - at%block; left < logHeader { // the rest of a block is left empty
			at += left
		}
		records = append(records, at)
	}
}

// The lock keeps a second process out, and a second store in this one.
func TestSecondProcessIsRefused(t *testing.T) {
	if held := os.Getenv("PARLEY_TEST_DIR"); held != "" {
		_, err := persistence.Open(t.Context(), persistence.Options{Dir: held})
		require.ErrorIs(t, err, persistence.ErrRefused)
		require.ErrorContains(t, err, "in use by another process (LOCK is locked)")
		return
	}
	held := t.TempDir()
	s := start(t, persistence.Options{Dir: held})
	defer s.Stop()
	_, err := persistence.Open(t.Context(), persistence.Options{Dir: held})
	require.ErrorIs(t, err, persistence.ErrRefused)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSecondProcessIsRefused$", "-test.v") //nolint:gosec // this test again
	cmd.Env = append(os.Environ(), "PARLEY_TEST_DIR="+held)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS")
}

// Below the watermark writes are refused and reads go on; above it, with some distance, writes are accepted again.
func TestFullDisk(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	o := small(vfs.NewMem())
	o.SpaceInterval = 1_000_000
	o.MinFreeBytes = 100 << 20
	o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	s := start(t, o)
	defer s.Stop()
	n := 0
	appendOne := func() error {
		n++
		_, err := s.Append(t.Context(), 1, &logpb.Append{Id: fmt.Sprint("c", n), Create: true, Head: []byte("h")})
		return err
	}
	require.NoError(t, appendOne())

	free.Store(99 << 20)
	require.ErrorIs(t, eventuallyError(appendOne), persistence.ErrFull)
	require.ErrorIs(t, s.Writable(), persistence.ErrFull)
	_, found, err := s.Head(t.Context(), 1, "c1")
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, s.Ready())

	free.Store(110 << 20) // above the watermark, but not by a quarter
	for range 20 {
		require.ErrorIs(t, appendOne(), persistence.ErrFull)
	}
	free.Store(126 << 20)
	require.NoError(t, eventuallyNil(appendOne))
}

// A disk that is full in spite of the watermark: the reserve lets the log end its write, writes are refused from then
// on, and nothing has failed.
func TestReserveSavesTheLog(t *testing.T) {
	mem := vfs.NewMem()
	var full, free atomic.Bool
	var given atomic.Int64
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpRemove && strings.HasSuffix(op.Path, "/RESERVE") && full.Load():
			given.Add(1)
			full.Store(false)
		case full.Load() && op.Kind == errorfs.OpFileWrite:
			return syscall.ENOSPC
		}
		return nil
	}))
	o := small(fs)
	o.SpaceInterval = 1_000_000
	o.FreeBytes = func() (uint64, error) {
		if free.Load() {
			return 1 << 40, nil
		}
		return 1 << 20, nil
	}
	free.Store(true)
	s := start(t, o)
	defer s.Stop()
	_, err := mem.Stat(dir + "/RESERVE")
	require.NoError(t, err)

	free.Store(false)
	full.Store(true)
	_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})
	if err != nil {
		require.ErrorIs(t, err, persistence.ErrFull) // the watermark was quicker
	}
	require.ErrorIs(t, eventuallyError(s.Writable), persistence.ErrFull)
	free.Store(true)
	require.NoError(t, eventuallyNil(func() error {
		_, err := s.Append(t.Context(), 1, &logpb.Append{Id: "d", Create: true})
		return err
	}))
	require.NoError(t, eventuallyNil(func() error { _, err := mem.Stat(dir + "/RESERVE"); return err }))
}

// A node starts on a full disk: it reads, and a new one becomes ready once there is room.
func TestStartOnFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	var free atomic.Uint64
	o := small(fs)
	o.SpaceInterval = 1_000_000
	o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	s, err := persistence.Open(t.Context(), o)
	require.NoError(t, err)
	s.Start()
	require.ErrorIs(t, eventuallyError(func() error {
		_, e := s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})
		if errors.Is(e, persistence.ErrNotLeader) {
			return nil // not elected yet
		}
		return e
	}), persistence.ErrFull)
	require.False(t, s.Ready())
	free.Store(1 << 40)
	require.NoError(t, s.WaitReady(t.Context()))
	_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h")})
	require.NoError(t, err)
	s.Stop()

	free.Store(0)
	s = start(t, o)
	defer s.Stop()
	require.ErrorIs(t, s.Writable(), persistence.ErrFull)
	head, found, err := s.Head(t.Context(), 1, "c")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "h", string(head.Value))
}

// Running out of file descriptors for a moment fails nothing.
func TestNoDescriptorsForAMoment(t *testing.T) {
	var missing atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite || op.Kind == errorfs.OpOpen) && missing.Add(-1) >= 0 {
			return syscall.EMFILE
		}
		return nil
	}))
	s := start(t, small(fs))
	defer s.Stop()
	missing.Store(5)
	book := newLedger()
	require.NoError(t, runScripts(s, 3, 40, book))
	require.Negative(t, missing.Load(), "no file was opened")
	verify(t, s, 3, book.copy())
}

// A flush that finds the disk full is tried again and fails nothing.
func TestFullDiskDuringFlush(t *testing.T) {
	mem := vfs.NewMem()
	var full atomic.Bool
	var hits atomic.Int64
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
			hits.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
	s := start(t, small(fs))
	defer s.Stop()
	full.Store(true)
	book := newLedger()
	if err := runScripts(s, 3, 40, book); err != nil { // enough to flush more than once
		require.ErrorIs(t, err, persistence.ErrFull)
	}
	require.NoError(t, eventuallyNil(func() error {
		if hits.Load() == 0 {
			return errors.New("no flush yet")
		}
		return nil
	}))
	full.Store(false)
	require.NoError(t, eventuallyNil(s.Writable))
	verify(t, s, 3, book.copy())
}

// The files of the engine are of the pinned format.
func TestEngineFormat(t *testing.T) {
	fs := made(t)
	desc, err := pebble.Peek(dir+"/db", fs)
	require.NoError(t, err)
	require.Equal(t, pebble.FormatValueSeparation, desc.FormatMajorVersion)
}
