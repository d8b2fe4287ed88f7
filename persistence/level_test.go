package persistence_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/persistence"
)

// The level in the identity file is there after a restart, only rises, and is not written by a store that has let the
// directory go.
func TestRaiseLevel(t *testing.T) {
	dir := t.TempDir()
	open := func() *persistence.Store {
		s, err := persistence.Open(t.Context(), persistence.Options{Dir: dir, Shards: 1})
		require.NoError(t, err)
		t.Cleanup(s.Stop)
		return s
	}
	level := func() uint32 {
		known, found, err := persistence.PeekIdentity(dir)
		require.NoError(t, err)
		require.True(t, found)
		return known.Level
	}
	s := open()
	require.Zero(t, level())
	before := s.Identity()
	require.NoError(t, s.RaiseLevel(3))
	require.NoError(t, s.RaiseLevel(2))
	require.EqualValues(t, 3, level())
	s.Stop()
	require.ErrorIs(t, s.RaiseLevel(4), persistence.ErrStopped)
	s = open()
	before.Level, before.Format = 3, persistence.DirFormat
	require.Equal(t, before, s.Identity())
	require.NoError(t, s.RaiseLevel(4))
	require.EqualValues(t, 4, level())
}

// Releases that know no levels look at the format, and those that brought them know no other one than the first: at the level of the
// latter a directory has it, above it no more. A directory that was raised before there was a second one is marked when that level is
// noted again.
func TestFormatRisesWithTheLevel(t *testing.T) {
	dir := t.TempDir()
	check := func(level uint32, format int) {
		t.Helper()
		known, found, err := persistence.PeekIdentity(dir)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, []any{level, format}, []any{known.Level, known.Format})
	}
	s, err := persistence.Open(t.Context(), persistence.Options{Dir: dir, Shards: 1})
	require.NoError(t, err)
	check(0, 1)
	require.NoError(t, s.RaiseLevel(1))
	check(1, 1)
	require.NoError(t, s.RaiseLevel(3))
	check(3, 2)
	id := s.Identity()
	s.Stop()

	line := fmt.Sprintf(`{"format":1,"cluster_id":%q,"node_id":%d,"shards":1,"level":3}`, id.ClusterID, id.NodeID)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "IDENTITY"), []byte(signed("parley data directory", line)), 0o600))
	s, err = persistence.Open(t.Context(), persistence.Options{Dir: dir})
	require.NoError(t, err)
	defer s.Stop()
	check(3, 1)
	require.NoError(t, s.RaiseLevel(2))
	check(3, 1)
	require.NoError(t, s.RaiseLevel(3))
	check(3, 2)
}
