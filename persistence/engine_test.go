package persistence

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/proto/logpb"
)

// What Pebble calls fatal fails the store and comes out of our goroutine as a panic that says why; it never returns,
// because a commit would seem to have succeeded.
func TestFatalIsTheFailureOfTheStore(t *testing.T) {
	c := newCondition(slog.New(slog.DiscardHandler))
	l := &engineLogger{logger: c.logger, condition: c}
	var heard []error
	c.onFailure(func(err error) { heard = append(heard, err) })
	require.PanicsWithError(t, "log is gone", func() { l.Fatalf("log is %s", "gone") })
	require.ErrorIs(t, c.writable(), ErrFailed)
	require.Len(t, heard, 1)
	require.Panics(t, func() { l.Fatalf("again") })
	require.Len(t, heard, 1, "a failure is told once")
	c.onFailure(func(err error) { require.ErrorContains(t, err, "log is gone") })
}

// Turns put a conversation into lists and take it out again. What that leaves of tombstones is no reason to compact each table
// that a flush writes together with all that is below it.
func TestListPlacesThatComeAndGoCostNoCompactions(t *testing.T) {
	opts := Options{Dir: "data", FS: vfs.NewMem(), MemtableBytes: 4 << 20, MinFreeBytes: 1 << 20}
	s, err := Open(t.Context(), opts)
	require.NoError(t, err)
	defer s.Stop()
	s.Start()
	require.NoError(t, s.WaitReady(t.Context()))
	var writers sync.WaitGroup
	for group := uint32(1); group <= defaultShards; group++ {
		writers.Go(func() {
			for i := range 500 {
				id := fmt.Sprintf("conv_%d_%017d", group, i)
				place := func(list string, score int64, gone bool) *logpb.Listing {
					return &logpb.Listing{List: "lists/of/conversations/" + list, Score: score + int64(i), Member: id, Delete: gone}
				}
				begin := &logpb.Append{
					Id: id, Create: true, Epoch: 1, Head: make([]byte, 400), Events: [][]byte{make([]byte, 150), make([]byte, 150), make([]byte, 150)},
					Listings: []*logpb.Listing{
						place("running", 0, false), place("status", 0, false), place("updated", 0, false), place("agent/updated", 0, false),
						place("created", 0, false), place("agent/created", 0, false),
					},
				}
				end := &logpb.Append{
					Id: id, ExpectedSeq: 2, Epoch: 1, Head: make([]byte, 400), Events: [][]byte{make([]byte, 200)},
					Listings: []*logpb.Listing{
						place("running", 0, true), place("status", 0, true), place("updated", 0, true), place("agent/updated", 0, true),
						place("updated", 1<<20, false), place("agent/updated", 1<<20, false),
					},
				}
				for _, one := range []*logpb.Append{begin, end} {
					result, err := s.Append(t.Context(), group, one)
					if err != nil || result.GetOutcome() != logpb.Outcome_APPLIED {
						t.Error(result, err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	require.NoError(t, s.db.Flush())
	metrics := s.db.Metrics()
	require.Greater(t, metrics.Flush.Count, int64(3))
	require.LessOrEqual(t, 2*metrics.Compact.TombstoneDensityCount, metrics.Flush.Count, "of %d compactions", metrics.Compact.Count)
}
