package replica_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is one node's Pebble with a driver on it.
type store struct {
	fs      vfs.FS
	db      *pebble.DB
	machine *replicatest.Machine
	driver  *replica.Driver
}

type option func(*replica.Config)

func withGroups(n int) option {
	return func(c *replica.Config) {
		c.Groups = nil
		for g := range n {
			c.Groups = append(c.Groups, replica.GroupID(g))
		}
	}
}

func openDB(tb testing.TB, dir string, fs vfs.FS) *pebble.DB {
	tb.Helper()
	options := &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}, MemTableSize: memTable(fs)}
	if slow, ok := fs.(*slowDisk); ok {
		options.WALMinSyncInterval = slow.syncInterval
	}
	db, err := pebble.Open(dir, options)
	require.NoError(tb, err)
	return db
}

// memTable is as large as a node would have it on a real disk, and small in memory, so that flushes happen.
func memTable(fs vfs.FS) uint64 {
	if fs == vfs.Default {
		return 64 << 20
	}
	return 256 << 10
}

// quiet is a Pebble logger that makes a fatal error a panic, as Config.DB asks.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// openStore opens a node on fs and starts it; close with close.
func openStore(tb testing.TB, dir string, fs vfs.FS, options ...option) *store {
	tb.Helper()
	s, driver, err := tryOpen(tb, dir, fs, options...)
	require.NoError(tb, err)
	s.driver = driver
	driver.Start()
	return s
}

// tryOpen opens a node without starting it; the store is open even if the driver refuses it.
func tryOpen(tb testing.TB, dir string, fs vfs.FS, options ...option) (*store, *replica.Driver, error) {
	tb.Helper()
	s := &store{fs: fs, db: openDB(tb, dir, fs)}
	s.machine = &replicatest.Machine{DB: s.db}
	cfg := replica.Config{
		Node: 1, DB: s.db, Groups: []replica.GroupID{0, 1, 2, 3}, Machine: s.machine, FS: fs, SpoolDir: fs.PathJoin(dir, "spool"),
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range options {
		o(&cfg)
	}
	driver, err := replica.Open(cfg)
	return s, driver, err
}

func (s *store) close(tb testing.TB) {
	tb.Helper()
	s.driver.Stop()
	require.NoError(tb, s.db.Close())
}

func (s *store) waitReady(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, s.driver.Ready, 30*time.Second, time.Millisecond)
}

func TestProposeAppliesAndSurvivesRestart(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, "db", fs)
	s.waitReady(t)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 100 {
				group := replica.GroupID((w + i) % 4)
				key := fmt.Sprintf("%d-%d", w, i)
				result, err := s.driver.Propose(t.Context(), group, replicatest.Put(key, "v"+key))
				if err != nil || result == nil {
					t.Errorf("propose %s: %v, %v", key, result, err)
				}
			}
		})
	}
	wg.Wait()
	s.close(t)

	s = openStore(t, "db", fs)
	defer s.close(t)
	s.waitReady(t)
	var total uint64
	for g := range replica.GroupID(4) {
		require.NoError(t, s.driver.ReadBarrier(context.Background(), g))
		n, err := s.machine.Count(g)
		require.NoError(t, err)
		total += n
	}
	require.EqualValues(t, 800, total)
	value, err := s.machine.Value(3, "3-0")
	require.NoError(t, err)
	require.Equal(t, "v3-0", value)
}
