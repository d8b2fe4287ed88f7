package replica_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

func TestRefusals(t *testing.T) {
	full := errors.New("disk is full")
	var writable atomic.Pointer[error]
	s := openStore(t, "db", vfs.NewMem(), func(c *replica.Config) {
		c.MaxProposalBytes = 100
		c.Writable = func() error {
			if err := writable.Load(); err != nil {
				return *err
			}
			return nil
		}
	})
	defer s.close(t)
	s.waitReady(t)
	put := replicatest.Put("k", "v")
	ctx := t.Context()

	_, err := s.driver.Propose(ctx, 99, put)
	require.ErrorIs(t, err, replica.ErrUnknownGroup)
	require.ErrorIs(t, s.driver.ReadBarrier(ctx, 99), replica.ErrUnknownGroup)
	_, err = s.driver.Propose(ctx, 1, make([]byte, 101))
	require.ErrorIs(t, err, replica.ErrTooLarge)
	_, err = s.driver.Propose(ctx, 1, nil)
	require.Error(t, err)
	writable.Store(&full)
	_, err = s.driver.Propose(ctx, 1, put)
	require.ErrorIs(t, err, full)
	writable.Store(nil)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.driver.Propose(cancelled, 1, put)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, replica.ErrOutcomeUnknown)
	require.Error(t, s.driver.ChangeMembers(ctx, 1, replica.Change{Kind: replica.AddLearner, Node: 2}), "no transport")
	_, err = s.driver.Propose(ctx, 1, put)
	require.NoError(t, err)
}

// blocked is a node whose apply goroutine waits until release is closed.
func blocked(t *testing.T, options ...option) (s *store, entered, release chan struct{}) {
	t.Helper()
	entered, release = make(chan struct{}, 100), make(chan struct{})
	s = openStore(t, "db", vfs.NewMem(), options...)
	s.waitReady(t)
	s.machine.OnApply = func(replica.GroupID, []replica.Entry) error {
		entered <- struct{}{}
		<-release
		return nil
	}
	return s, entered, release
}

func TestPendingProposalsAreBounded(t *testing.T) {
	s, _, release := blocked(t, func(c *replica.Config) { c.MaxPending = 3 })
	defer s.close(t)
	answers := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := s.driver.Propose(context.Background(), 1, replicatest.Put(fmt.Sprint(i), ""))
			answers <- err
		}()
	}
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.driver.Propose(ctx, 1, replicatest.Put("more", ""))
		return errors.Is(err, replica.ErrBusy)
	}, 30*time.Second, time.Millisecond)
	close(release)
	for range 3 {
		if err := <-answers; err != nil {
			require.ErrorIs(t, err, replica.ErrBusy)
		}
	}
	_, err := s.driver.Propose(t.Context(), 1, replicatest.Put("again", ""))
	require.NoError(t, err)
}

func TestAbandonedProposalIsUnknown(t *testing.T) {
	s, entered, release := blocked(t)
	defer s.close(t)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := s.driver.Propose(ctx, 1, replicatest.Put("k", "v"))
		answer <- err
	}()
	<-entered
	cancel()
	err := <-answer
	require.ErrorIs(t, err, replica.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	require.Eventually(t, func() bool {
		value, err := s.machine.Value(1, "k")
		return err == nil && value == "v"
	}, 30*time.Second, time.Millisecond, "it was applied all the same")
}

func TestStop(t *testing.T) {
	s, entered, release := blocked(t)
	propose := func(key string) <-chan error {
		answer := make(chan error, 1)
		go func() {
			_, err := s.driver.Propose(context.Background(), 1, replicatest.Put(key, "v"))
			answer <- err
		}()
		return answer
	}
	applying := propose("a")
	<-entered
	waiting := propose("b")
	stopped := make(chan struct{})
	go func() {
		s.driver.Stop()
		close(stopped)
	}()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := s.driver.Propose(ctx, 1, replicatest.Put("late", "v"))
		return errors.Is(err, replica.ErrStopped)
	}, 30*time.Second, time.Millisecond)
	close(release)
	// What is being applied is finished; what waits is answered, however far it got.
	require.NoError(t, <-applying)
	if err := <-waiting; err != nil {
		require.ErrorIs(t, err, replica.ErrStopped)
	}
	<-stopped
	s.driver.Stop()
	_, err := s.driver.Propose(t.Context(), 1, replicatest.Put("c", ""))
	require.ErrorIs(t, err, replica.ErrStopped)
	require.ErrorIs(t, s.driver.ReadBarrier(t.Context(), 1), replica.ErrStopped)
	require.ErrorIs(t, s.driver.TransferLeader(t.Context(), 1, 1), replica.ErrStopped)
	_, _, ok := s.driver.Leader(1)
	require.False(t, ok)
	require.False(t, s.driver.Ready())
	require.NoError(t, s.db.Close())
}

func TestStopBeforeStart(t *testing.T) {
	s, driver, err := tryOpen(t, "db", vfs.NewMem())
	require.NoError(t, err)
	_, err = driver.Propose(t.Context(), 1, replicatest.Put("c", ""))
	require.ErrorIs(t, err, replica.ErrStopped)
	driver.Stop()
	driver.Start()
	require.False(t, driver.Ready())
	driver.Stop()
	require.NoError(t, s.db.Close())
}

func TestLeadershipIsAnnouncedInOrder(t *testing.T) {
	type change struct {
		term   uint64
		leader bool
	}
	var changes []change
	announce := func(c *replica.Config) {
		c.OnLeader = func(group replica.GroupID, term uint64, leader bool) {
			if group == 1 {
				changes = append(changes, change{term, leader})
			}
		}
	}
	fs := vfs.NewMem()
	for range 2 {
		s := openStore(t, "db", fs, announce)
		s.waitReady(t)
		s.close(t)
	}
	require.Equal(t, []change{{2, true}, {2, false}, {3, true}, {3, false}}, changes)
}

func TestRestartAppliesNothingAgain(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, "db", fs)
	s.waitReady(t)
	for i := range 500 {
		_, err := s.driver.Propose(t.Context(), 1, replicatest.Put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
	}
	s.close(t)

	var replayed atomic.Int64
	s, driver, err := tryOpen(t, "db", fs)
	require.NoError(t, err)
	s.driver = driver
	s.machine.OnApply = func(_ replica.GroupID, entries []replica.Entry) error {
		replayed.Add(int64(len(entries)))
		return nil
	}
	driver.Start()
	defer s.close(t)
	s.waitReady(t)
	require.Zero(t, replayed.Load())
	n, err := s.machine.Count(1)
	require.NoError(t, err)
	require.EqualValues(t, 500, n)
}

// logRows counts the entries that a group's log holds on disk.
func logRows(tb testing.TB, db *pebble.DB, group byte) int {
	tb.Helper()
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{'r', 1, 0, 0, 0, group, 16}, UpperBound: []byte{'r', 1, 0, 0, 0, group, 17},
	})
	require.NoError(tb, err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	require.NoError(tb, it.Close())
	return n
}

func TestLogIsCut(t *testing.T) {
	s := openStore(t, "db", vfs.NewMem(), func(c *replica.Config) {
		c.SnapshotEntries, c.KeepEntries = 100, 20
		c.SnapshotBytes = 10_000
	})
	defer s.close(t)
	s.waitReady(t)
	for i := range 1000 {
		_, err := s.driver.Propose(t.Context(), 1, replicatest.Put(fmt.Sprint(i), "v"))
		require.NoError(t, err)
		require.LessOrEqual(t, logRows(t, s.db, 1), 110)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := openStore(t, "db", vfs.NewMem(), func(c *replica.Config) { c.Registerer = reg })
	defer s.close(t)
	s.waitReady(t)
	_, err := s.driver.Propose(t.Context(), 1, replicatest.Put("k", "v"))
	require.NoError(t, err)
	families, err := reg.Gather()
	require.NoError(t, err)
	values := make(map[string]int)
	for _, f := range families {
		values[f.GetName()] = int(f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue())
	}
	require.Equal(t, 1, values["parley_replica_proposals_total"])
	require.Equal(t, 4, values["parley_replica_leading_groups"])
	require.Equal(t, 1, values["parley_replica_applied_entries_total"])
}
