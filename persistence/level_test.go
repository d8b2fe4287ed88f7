package persistence_test

import (
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
	before.Level = 3
	require.Equal(t, before, s.Identity())
	require.NoError(t, s.RaiseLevel(4))
	require.EqualValues(t, 4, level())
}
