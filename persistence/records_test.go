package persistence_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/persistence"
)

// A node knows when it has heard of a change: by the log, after it was away, and when what it was sent as a whole ends with
// a deletion, of which no record tells.
func TestRecordsAreAwaited(t *testing.T) {
	for _, entries := range []int{3, 120} {
		t.Run(fmt.Sprint(entries), func(t *testing.T) {
			f := newFleet(t, 1, 2, 3)
			f.grow(2, 3)
			f.put("k", "v")
			f.awaits(3, "k", "v")
			fs := f.nodes[3].fs
			f.down(3)
			for i := range entries {
				f.put("k", fmt.Sprint(i))
			}
			f.put("last", "v")
			f.at(0, func(s *persistence.Store) error {
				r, found := s.Directory().Get("test", "last")
				if !found {
					return nil
				}
				return s.Directory().Delete(ctx, "test", "last", r.Version)
			})
			f.up(3, fs)
			f.awaits(3, "k", fmt.Sprint(entries-1))
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, f.store(3).AwaitRecords(short, 1<<40), context.DeadlineExceeded)
			stopped := f.store(3)
			f.down(3)
			require.ErrorIs(t, stopped.AwaitRecords(ctx, 1<<40), persistence.ErrStopped)
		})
	}
}

// awaits waits until a node has the leader's newest version, and demands that it then reads a record as it is.
func (f *fleet) awaits(id uint64, key, value string) {
	f.t.Helper()
	var version uint64
	f.at(0, func(s *persistence.Store) error {
		version = s.Directory().Version()
		return s.Confirm(ctx, 0)
	})
	bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	require.NoError(f.t, f.store(id).AwaitRecords(bounded, version))
	r, _ := f.store(id).Directory().Get("test", key)
	require.Equal(f.t, value, string(r.Value))
}
