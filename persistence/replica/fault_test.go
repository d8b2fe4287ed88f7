package replica_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

var errDisk = errors.New("disk is gone")

// marking is a Pebble logger that tells the driver of a fatal error and lets Pebble go on, so that the failed commit seems to succeed.
type marking struct {
	quiet
	driver atomic.Pointer[replica.Driver]
}

func (m *marking) Fatalf(format string, args ...any) {
	m.driver.Load().Fail(fmt.Errorf(format, args...))
}

// failingStore is a node whose write-ahead log can no longer be synced once broken is set.
func failingStore(t *testing.T, logger pebble.Logger, onFatal func(error)) (s *store, broken *atomic.Bool) {
	t.Helper()
	broken = &atomic.Bool{}
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
		if broken.Load() && sync && strings.HasSuffix(op.Path, ".log") {
			return errDisk
		}
		return nil
	}))
	db, err := pebble.Open("db", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: logger})
	require.NoError(t, err)
	s = &store{fs: fs, db: db, machine: &replicatest.Machine{DB: db}}
	s.driver, err = replica.Open(replica.Config{
		Node: 1, DB: db, Groups: []replica.GroupID{0, 1}, Machine: s.machine, OnFatal: onFatal,
	})
	require.NoError(t, err)
	return s, broken
}

func TestFailedSyncIsFatal(t *testing.T) {
	marker := &marking{}
	for name, logger := range map[string]pebble.Logger{"logger panics": quiet{}, "logger marks": marker} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int64
			s, broken := failingStore(t, logger, func(err error) {
				told.Add(1)
				if !errors.Is(err, replica.ErrFailed) {
					t.Errorf("told %v", err)
				}
			})
			marker.driver.Store(s.driver)
			s.driver.Start()
			s.waitReady(t)
			_, err := s.driver.Propose(t.Context(), 1, replicatest.Put("kept", "value"))
			require.NoError(t, err)

			broken.Store(true)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					_, lost := s.driver.Propose(t.Context(), replica.GroupID(i%2), replicatest.Put(fmt.Sprint(i), "lost"))
					if !errors.Is(lost, replica.ErrFailed) {
						t.Errorf("proposal into a broken store: %v", lost)
					}
				})
			}
			wg.Wait()
			_, err = s.driver.Propose(t.Context(), 1, replicatest.Put("late", "value"))
			require.ErrorIs(t, err, replica.ErrFailed)
			require.NotErrorIs(t, err, replica.ErrOutcomeUnknown)
			require.ErrorIs(t, s.driver.Err(), replica.ErrFailed)
			require.EqualValues(t, 1, told.Load())

			// Reads go on.
			require.NoError(t, s.driver.ReadBarrier(t.Context(), 1))
			value, err := s.machine.Value(1, "kept")
			require.NoError(t, err)
			require.Equal(t, "value", value)
			node, _, ok := s.driver.Leader(1)
			require.True(t, ok)
			require.EqualValues(t, 1, node)

			s.driver.Stop()
			require.Error(t, s.driver.ReadBarrier(t.Context(), 1))
			broken.Store(false)
			closeBroken(s.db)
		})
	}
}

// closeBroken closes a Pebble that failed; it says so in its own ways.
func closeBroken(db *pebble.DB) {
	defer func() { _ = recover() }()
	_ = db.Close()
}

func TestFaultOfTheMachineIsFatal(t *testing.T) {
	var told atomic.Int64
	s, _ := failingStore(t, quiet{}, func(error) { told.Add(1) })
	s.machine.OnApply = func(_ replica.GroupID, entries []replica.Entry) error {
		if strings.Contains(string(entries[0].Data), "poison") {
			return errors.New("cannot apply that")
		}
		return nil
	}
	s.driver.Start()
	defer s.close(t)
	s.waitReady(t)
	_, err := s.driver.Propose(t.Context(), 0, replicatest.Put("poison", ""))
	require.ErrorIs(t, err, replica.ErrOutcomeUnknown)
	require.ErrorIs(t, err, replica.ErrFailed)
	require.ErrorContains(t, err, "cannot apply that")
	_, err = s.driver.Propose(t.Context(), 1, replicatest.Put("fine", ""))
	require.ErrorIs(t, err, replica.ErrFailed)
	require.EqualValues(t, 1, told.Load())
}

func TestPanicOfTheMachineIsFatal(t *testing.T) {
	s, _ := failingStore(t, quiet{}, nil)
	s.machine.OnApply = func(replica.GroupID, []replica.Entry) error { panic("bug") }
	s.driver.Start()
	defer s.close(t)
	s.waitReady(t)
	_, err := s.driver.Propose(t.Context(), 0, replicatest.Put("any", ""))
	require.ErrorIs(t, err, replica.ErrFailed)
	require.ErrorContains(t, err, "bug")
}

// TestCommitThatNeverReturns is a store whose apply goroutine hangs when the failure is found elsewhere.
func TestCommitThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := failingStore(t, quiet{}, nil)
		hang, entered := make(chan struct{}), make(chan struct{})
		s.machine.OnApply = func(replica.GroupID, []replica.Entry) error {
			close(entered)
			<-hang
			return errors.New("too late")
		}
		s.driver.Start()
		for !s.driver.Ready() {
			time.Sleep(time.Millisecond)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := s.driver.Propose(context.Background(), 0, replicatest.Put("any", ""))
			answer <- err
		}()
		<-entered
		s.driver.Fail(errDisk)
		require.ErrorIs(t, <-answer, replica.ErrOutcomeUnknown)
		begin := time.Now()
		s.driver.Stop()
		require.Less(t, time.Since(begin), 10*time.Second)
		close(hang)
		synctest.Wait()
		require.NoError(t, s.db.Close())
	})
}
