package persistence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence"
	"parley/persistence/backup"
	"parley/persistence/persistencetest"
	"parley/proto/logpb"
)

// copies are the streams of a store's shards.
type copies [][]byte

func backUp(t require.TestingT, s *persistence.Store) copies {
	var out copies
	for group := range uint32(s.Identity().Shards + 1) {
		var stream bytes.Buffer
		info, err := s.Backup(ctx, group, &stream)
		require.NoError(t, err)
		require.Equal(t, group, info.Group)
		out = append(out, stream.Bytes())
		h, verified, err := backup.Verify(bytes.NewReader(stream.Bytes()))
		require.NoError(t, err)
		require.Equal(t, info, verified)
		require.Equal(t, s.Identity().ClusterID, h.ClusterID)
	}
	return out
}

func (c copies) source(group uint32) (io.ReadCloser, error) {
	if int(group) >= len(c) {
		return nil, fmt.Errorf("no copy of %d", group)
	}
	return io.NopCloser(bytes.NewReader(c[group])), nil
}

// A store and the store that is restored from its backup are the same to the model, and go on alike.
func TestBackupIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := small(vfs.NewMem())
		model := persistencetest.NewModel(o.Shards)
		s := start(t, o)
		defer func() { s.Stop() }()
		draw := func() {
			for range rapid.IntRange(0, 40).Draw(t, "steps") {
				model.DrawBlob(ctx, t, s)
				model.DrawPack(ctx, t, s)
				group, a := model.Draw(t)
				want := model.Append(group, a)
				got, err := s.Append(ctx, group, a)
				require.NoError(t, err)
				require.Equal(t, want.String(), got.String())
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "restores") {
			draw()
			saved, old := backUp(t, s), s.Identity()
			s.Stop()
			o = small(vfs.NewMem())
			identity, err := persistence.Restore(ctx, o, o.Shards, saved.source)
			require.NoError(t, err)
			require.NotEqual(t, old.ClusterID, identity.ClusterID)
			require.NotEqual(t, old.NodeID, identity.NodeID)
			s = start(t, o)
			require.Equal(t, identity, s.Identity())
		}
		draw()
		model.Check(ctx, t, s)
	})
}

// The directory comes along, but for what is said of the old cluster; versions and epochs go on growing.
func TestRestoredDirectory(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	version, err := s.Directory().Put(ctx, "agents", "a", 0, []byte("v1"))
	require.NoError(t, err)
	_, err = s.Directory().Put(ctx, "nodes", "n1", 0, []byte("{}"))
	require.NoError(t, err)
	_, epoch, _ := s.Leader(1)
	saved := backUp(t, s)
	s.Stop()

	o := small(vfs.NewMem())
	_, err = persistence.Restore(ctx, o, 3, saved.source)
	require.NoError(t, err)
	s = start(t, o)
	defer s.Stop()
	r, ok := s.Directory().Get("agents", "a")
	require.True(t, ok)
	require.Equal(t, version, r.Version)
	require.Equal(t, "v1", string(r.Value))
	require.Empty(t, s.Directory().List("nodes"))
	next, err := s.Directory().Put(ctx, "agents", "a", version, []byte("v2"))
	require.NoError(t, err)
	require.Greater(t, next, version)
	_, later, _ := s.Leader(1)
	require.Greater(t, later, epoch)
}

// A copy that is made while the shard is written to holds one moment of it, with all that was acknowledged before.
func TestBackupUnderLoad(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	book := newLedger()
	var writing sync.WaitGroup
	writing.Go(func() { _ = runScripts(s, 40, 25, book) })
	var acked []map[string]uint64
	var saved []copies
	for range 5 {
		acked = append(acked, book.copy())
		saved = append(saved, backUp(t, s))
	}
	s.Stop()
	writing.Wait()
	for i := range saved {
		o := small(vfs.NewMem())
		_, err := persistence.Restore(ctx, o, 3, saved[i].source)
		require.NoError(t, err)
		r := start(t, o)
		verify(t, r, 40, acked[i])
		r.Stop()
	}
}

// A backup of a cluster of three, one shard from each leader, becomes a cluster of one that grows to three.
func TestBackupOfACluster(t *testing.T) {
	f := newFleet(t, 1, 2, 3)
	f.grow(2, 3)
	for group := uint32(1); group <= 3; group++ {
		f.append(group, "c", 0)
		to := uint64(group)
		f.at(group, func(s *persistence.Store) error { return s.TransferLeader(ctx, group, to) })
	}
	f.put("k", "v")
	_, err := f.store(1).Backup(ctx, 2, io.Discard)
	require.ErrorIs(t, err, persistence.ErrNotLeader)
	saved := make(copies, 4)
	for group := range uint32(4) {
		f.at(group, func(s *persistence.Store) error {
			var stream bytes.Buffer
			_, failed := s.Backup(ctx, group, &stream)
			saved[group] = stream.Bytes()
			return failed
		})
	}

	g := newFleet(t)
	fs := vfs.NewMem()
	o := g.options(1, fs)
	_, err = persistence.Restore(ctx, o, 3, saved.source)
	require.NoError(t, err)
	g.up(1, fs)
	g.up(2, vfs.NewMem())
	g.up(3, vfs.NewMem())
	g.grow(2, 3)
	g.caught(3, 0, 1, 2, 3)
	g.sees(3, "k", "v")
	g.down(1)
	for group := uint32(1); group <= 3; group++ {
		g.append(group, "c", 1)
	}
}

// What is wrong with a backup or with the place for it is told, and the place stays empty.
func TestRestoreIsAllOrNothing(t *testing.T) {
	whole := backUp(t, func() *persistence.Store {
		s := start(t, small(vfs.NewMem()))
		t.Cleanup(s.Stop)
		require.NoError(t, runScripts(s, 2, 20, newLedger()))
		return s
	}())
	foreign := backUp(t, func() *persistence.Store {
		s := start(t, small(vfs.NewMem()))
		t.Cleanup(s.Stop)
		return s
	}())
	swap := func(i int, by []byte) copies {
		out := append(copies{}, whole...)
		out[i] = by
		return out
	}
	flipped := append([]byte{}, whole[2]...)
	flipped[len(flipped)/2] ^= 1
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for name, tc := range map[string]struct {
		from   copies
		shards int
		ctx    context.Context //nolint:containedctx // a case
		change func(o *persistence.Options)
		is     error
		want   string
	}{
		"a flipped bit":            {from: swap(2, flipped), is: backup.ErrDamaged, want: "restore shard 2"},
		"a cut copy":               {from: swap(3, whole[3][:len(whole[3])-9]), is: backup.ErrDamaged, want: "restore shard 3"},
		"a copy of another shard":  {from: swap(3, whole[2]), is: backup.ErrDamaged, want: "copy of shard 2"},
		"a copy that is missing":   {from: whole[:3], want: "no copy of 3"},
		"a copy of another time":   {from: swap(3, foreign[3]), is: backup.ErrDamaged, want: "the others are of"},
		"another number of shards": {from: whole, shards: 2, is: backup.ErrDamaged, want: "with 3 shards, not 2"},
		"no room":                  {from: whole, change: func(o *persistence.Options) { o.FreeBytes = func() (uint64, error) { return 1, nil } }, is: persistence.ErrFull},
		"no time":                  {from: whole, ctx: cancelled, is: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			o := small(vfs.NewMem())
			if tc.change != nil {
				tc.change(&o)
			}
			within, shards := ctx, 3
			if tc.ctx != nil {
				within = tc.ctx
			}
			if tc.shards != 0 {
				shards = tc.shards
			}
			_, err := persistence.Restore(within, o, shards, tc.from.source)
			require.Error(t, err)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			require.ErrorContains(t, err, tc.want)
			names, err := o.FS.List(o.Dir)
			require.NoError(t, err)
			for _, left := range names {
				require.Equal(t, "LOCK", left)
			}
			o.FreeBytes = nil
			_, err = persistence.Restore(ctx, o, 3, whole.source)
			require.NoError(t, err)
			_, err = persistence.Restore(ctx, o, 3, whole.source)
			require.ErrorIs(t, err, persistence.ErrRefused)
			s := start(t, o)
			verify(t, s, 2, nil)
			s.Stop()
		})
	}
}

// A crash at any sync of a restore, or a fault of the disk: the directory is refused, or empty, or wholly restored.
func TestRestoreCrashes(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	book := newLedger()
	require.NoError(t, runScripts(s, 3, 40, book))
	saved := backUp(t, s)
	s.Stop()

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewCrashableMem()
	var mu sync.Mutex
	var moments []*vfs.MemFS
	fault := int64(-1)
	syncs := int64(0)
	inject := func(mem *vfs.MemFS) vfs.FS {
		return errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if syncs++; fault >= 0 {
				if syncs == fault {
					return errors.New("the disk is gone")
				}
				return nil
			}
			cfg := vfs.CrashCloneCfg{}
			if len(moments)%2 == 1 {
				cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}
			}
			moments = append(moments, mem.CrashClone(cfg))
			return nil
		}))
	}
	_, err := persistence.Restore(ctx, small(inject(mem)), 3, saved.source)
	require.NoError(t, err)
	moments = append(moments, mem.CrashClone(vfs.CrashCloneCfg{}))
	require.Greater(t, len(moments), 6)
	done := 0
	check := func(t *testing.T, fs vfs.FS) {
		t.Helper()
		o := small(fs)
		opened, err := persistence.Open(ctx, o)
		if err != nil {
			require.ErrorIs(t, err, persistence.ErrRefused)
			if !strings.Contains(err.Error(), "not restored to its end") {
				return // here a rename may lose both names
			}
			_, err = persistence.Restore(ctx, o, 3, saved.source)
			require.NoError(t, err)
			opened, err = persistence.Open(ctx, o)
			require.NoError(t, err)
		}
		opened.Start()
		defer opened.Stop()
		require.NoError(t, opened.WaitReady(ctx))
		n, err := opened.Count(ctx, "conversations")
		require.NoError(t, err)
		if n != 0 { // else nothing had begun
			done++
			verify(t, opened, 3, book.copy())
		}
	}
	for _, fs := range moments {
		check(t, fs)
	}
	require.Greater(t, done, len(moments)/2)

	all := syncs
	for fault = 1; fault <= all; fault++ {
		syncs = 0
		mem := vfs.NewCrashableMem()
		if _, err := persistence.Restore(ctx, small(inject(mem)), 3, saved.source); err == nil {
			continue // what failed was the clearing of something
		}
		check(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	}
}

// Backup ends with its caller's context, with its writer and with the store.
func TestBackupEnds(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	a := &logpb.Append{Id: "c", Create: true}
	for range 3000 {
		a.Events = append(a.Events, []byte(strings.Repeat("x", 1000)))
	}
	_, err := s.Append(ctx, 1, a)
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(ctx)
	_, err = s.Backup(cancelled, 1, writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	require.ErrorIs(t, err, context.Canceled)
	broken := errors.New("broken")
	_, err = s.Backup(ctx, 1, writerFunc(func([]byte) (int, error) { return 0, broken }))
	require.ErrorIs(t, err, broken)
	stopped := make(chan struct{})
	var once sync.Once
	_, err = s.Backup(ctx, 1, writerFunc(func(p []byte) (int, error) {
		once.Do(func() {
			go func() { s.Stop(); close(stopped) }()
			require.ErrorIs(t, eventuallyError(func() error { _, _, e := s.Head(ctx, 1, "c"); return e }), persistence.ErrStopped)
		})
		return len(p), nil
	}))
	if err != nil { // else it was whole before the stop came to it
		require.ErrorIs(t, err, persistence.ErrStopped)
	}
	<-stopped
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
