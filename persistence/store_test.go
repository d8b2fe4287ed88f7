package persistence_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/persistence"
	"parley/persistence/persistencetest"
	"parley/proto/logpb"
)

func start(t require.TestingT, o persistence.Options) *persistence.Store {
	s, err := persistence.Open(ctx, o)
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.WaitReady(ctx))
	return s
}

// small makes everything that happens at a size happen soon.
func small(fs vfs.FS) persistence.Options {
	return persistence.Options{
		Dir: "/srv/data", FS: fs, Shards: 3, MemtableBytes: 256 << 10, CacheBytes: 1 << 20, SnapshotEntries: 40, KeepEntries: 10,
	}
}

func TestSuiteInMemory(t *testing.T) {
	persistencetest.Suite(t, func(t *testing.T) *persistence.Store {
		t.Helper()
		s := start(t, small(vfs.NewMem()))
		t.Cleanup(s.Stop)
		return s
	})
}

func TestSuiteOnDisk(t *testing.T) {
	persistencetest.Suite(t, func(t *testing.T) *persistence.Store {
		t.Helper()
		s := start(t, persistence.Options{Dir: t.TempDir()})
		t.Cleanup(s.Stop)
		return s
	})
}

// Random appends, refusals and restarts against the model.
func TestStoreIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := small(vfs.NewMem())
		model := persistencetest.NewModel(o.Shards)
		s := start(t, o)
		defer func() { s.Stop() }()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			model.DrawBlob(ctx, t, s)
			model.DrawPack(ctx, t, s)
			group, a := model.Draw(t)
			want := model.Append(group, a)
			got, err := s.Append(ctx, group, a)
			require.NoError(t, err)
			require.Equal(t, want.String(), got.String())
			if rapid.IntRange(0, 29).Draw(t, "restart") == 0 {
				s.Stop()
				s = start(t, o)
			}
		}
		model.Check(ctx, t, s)
	})
}

func TestStoreLifecycle(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := small(vfs.NewMem())
	registry := prometheus.NewRegistry()
	o.Registerer = registry

	s, err := persistence.Open(t.Context(), o)
	require.NoError(t, err)
	require.False(t, s.Ready())
	_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})
	require.ErrorIs(t, err, persistence.ErrStopped)
	s.Stop() // before Start
	s.Start()
	require.False(t, s.Ready())

	leads := make(chan uint32, 8)
	o.OnLeader = func(group uint32, epoch uint64, leader bool) {
		if leader && epoch > 0 {
			leads <- group
		}
	}
	s = start(t, o)
	seen := map[uint32]bool{}
	for range 4 {
		seen[<-leads] = true
	}
	require.Len(t, seen, 4)
	identity := s.Identity()
	require.NotEmpty(t, identity.ClusterID)
	require.NotZero(t, identity.NodeID)
	require.Equal(t, 3, identity.Shards)
	_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true})
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Greater(t, len(families), 10)

	s.Stop()
	s.Stop()
	_, err = s.Append(t.Context(), 1, &logpb.Append{Id: "d", Create: true})
	require.ErrorIs(t, err, persistence.ErrStopped)
	_, _, err = s.Head(t.Context(), 1, "c")
	require.ErrorIs(t, err, persistence.ErrStopped)
	_, err = s.View(t.Context(), 1)
	require.ErrorIs(t, err, persistence.ErrStopped)
	_, err = s.List(t.Context(), persistence.ListQuery{List: "l", Limit: 1})
	require.ErrorIs(t, err, persistence.ErrStopped)

	s = start(t, o) // the metrics and the lock were given back
	require.Equal(t, identity, s.Identity())
	s.Stop()
}

// Stop waits for reads in progress.
func TestStopWaitsForViews(t *testing.T) {
	s := start(t, small(vfs.NewMem()))
	_, err := s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h")})
	require.NoError(t, err)
	v, err := s.View(t.Context(), 1)
	require.NoError(t, err)
	stopped := make(chan struct{})
	go func() { s.Stop(); close(stopped) }()
	require.ErrorIs(t, eventuallyError(func() error { _, _, e := s.Head(ctx, 1, "c"); return e }), persistence.ErrStopped)
	head, found, err := v.Head("c")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "h", string(head.Value))
	require.NoError(t, v.Close())
	<-stopped
}
