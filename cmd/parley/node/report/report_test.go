package report

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/cluster"
	"parley/cluster/peer"
	"parley/persistence"
)

// TestAnnounce: changes wait for each other, calls for an owner wait for nothing.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := persistence.Open(t.Context(), persistence.Options{Dir: "data", FS: vfs.NewMem(), Shards: 3, MemtableBytes: 4 << 20})
		require.NoError(t, err)
		defer store.Stop()
		store.Start()
		require.NoError(t, store.WaitReady(t.Context()))
		owners := &cluster.Owners{}
		sent := make(chan struct{})
		r := New(Config{
			Name: "n1", Store: store, Owners: owners, Board: cluster.NewBoard(cluster.BoardConfig{Self: "n1", Owners: owners}),
			Members: func() []uint64 { return []uint64{2} }, Send: func(uint64, peer.Kind, [][]byte) { sent <- struct{}{} },
			Cut: func() []uint64 { return nil }, Level: func() uint32 { return 0 }, Turns: func(uint32) int { return 0 },
			Logger: slog.New(slog.DiscardHandler),
		})
		next := func(ask func()) time.Duration {
			begin := time.Now()
			ask()
			<-sent
			return time.Since(begin)
		}
		go r.Run(t.Context())
		<-sent
		require.Equal(t, reportPause, next(r.Poke))
		require.Zero(t, next(r.Announce))
		require.Equal(t, reportPause, next(r.Poke))
		require.Zero(t, next(func() { r.Poke(); r.Announce() }))
		require.Equal(t, reportEvery+reportPause, next(func() {}))
	})
}
