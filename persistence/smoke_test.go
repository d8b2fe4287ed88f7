package persistence_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

func TestSmoke(t *testing.T) {
	s, err := persistence.Open(t.Context(), persistence.Options{Dir: "/d", FS: vfs.NewMem()})
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.WaitReady(t.Context()))
	r, err := s.Append(t.Context(), 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h"), Events: [][]byte{[]byte("a")}})
	require.NoError(t, err)
	require.Equal(t, logpb.Outcome_APPLIED, r.GetOutcome())
	h, ok, err := s.Head(t.Context(), 1, "c")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "h", string(h.Value))
	s.Stop()
}
