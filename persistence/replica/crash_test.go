package replica_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

// tripwire loses the power of a disk just before its n-th write, sync, creation or removal after arm.
type tripwire struct {
	mem   *vfs.MemFS
	rng   *rand.Rand
	left  atomic.Int64
	armed atomic.Bool
	dead  *atomic.Bool
	// cut is called first, so that nobody hears of what the disk will not have.
	cut func()

	mu    sync.Mutex
	clone *vfs.MemFS
}

func newTripwire(mem *vfs.MemFS, rng *rand.Rand) *tripwire {
	return &tripwire{mem: mem, rng: rng, dead: &atomic.Bool{}, cut: func() {}}
}

func (w *tripwire) arm(after int) {
	w.left.Store(int64(after))
	w.armed.Store(true)
}

func (w *tripwire) String() string { return "tripwire" }

// MaybeError implements errorfs.Injector; it never injects an error.
func (w *tripwire) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && w.armed.Load() && w.left.Add(-1) == 0 {
		w.trip()
	}
	return nil
}

// trip is the power failure; what is acknowledged from then on does not count.
func (w *tripwire) trip() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clone == nil {
		w.cut()
		w.dead.Store(true)
		w.clone = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: w.rng.IntN(3) * 50, RNG: w.rng})
	}
}

func TestOneNodeLosesNothingInPowerFailures(t *testing.T) {
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	var acked acks
	mem := vfs.NewCrashableMem()
	for round := range 25 {
		wire := newTripwire(mem, rng)
		s := openStore(t, "db", errorfs.Wrap(mem, wire), shortLogs)
		s.waitReady(t)
		acked.check(t, 1, s.machine)
		wire.arm(1 + rng.IntN(400))
		var wg sync.WaitGroup
		for w := range 4 {
			own := rand.New(rand.NewPCG(seed, uint64(round*10+w)))
			wg.Go(func() {
				for i := 0; !wire.dead.Load() && i < 2000; i++ {
					group, key := replica.GroupID(own.IntN(chaosGroups)), fmt.Sprintf("%d-%d-%d", round, w, i)
					value := strings.Repeat("x", own.IntN(500))
					_, err := s.driver.Propose(t.Context(), group, replicatest.Put(key, value))
					if err != nil {
						t.Error(err)
						return
					}
					if !wire.dead.Load() {
						acked.add(group, key, value)
					}
				}
			})
		}
		wg.Wait()
		wire.trip()
		s.close(t)
		mem = wire.clone
	}
	s := openStore(t, "db", mem, shortLogs)
	defer s.close(t)
	s.waitReady(t)
	acked.check(t, 1, s.machine)
	t.Logf("%d acknowledged", acked.total())
	require.Greater(t, acked.total(), 500)
}

// TestSnapshotInstallSurvivesPowerFailure cuts the power of a follower anywhere from the first byte of a snapshot to the end of its installation.
func TestSnapshotInstallSurvivesPowerFailure(t *testing.T) {
	seed := seedOf(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 40 {
		step := 1 + rng.IntN(120)
		synctest.Test(t, func(t *testing.T) { installCrash(t, rng.Uint64(), step) })
		if t.Failed() {
			t.Fatalf("power cut before write %d", step)
		}
	}
}

func installCrash(t *testing.T, seed uint64, step int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, uint64(step)))
	c := newCluster(t, seed, 3, shortLogs)
	defer c.close()
	c.waitReady()
	// Something that the snapshot replaces.
	for i := range 5 {
		require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint("old", i), "old"))
	}
	c.waitEqual(chaosGroups)
	follower := c.leader(1)%3 + 1
	mem := c.crash(follower, rng)
	c.missed(1, follower)
	// More than one batch of the restore, more entries than a log keeps.
	value := strings.Repeat("v", 8<<10)
	for i := range 160 {
		require.NoError(t, c.propose(t.Context(), 1, fmt.Sprint("old", i), value))
	}
	wire := newTripwire(mem, rng)
	wire.cut = func() { c.network.Endpoint(follower).Bind(nil) }
	c.startOn(follower, mem, errorfs.Wrap(mem, wire))
	wire.arm(step)
	c.eventually("power failure or catching up", func() bool {
		return wire.dead.Load() || c.equalNow(chaosGroups) == ""
	})
	wire.trip()
	c.stores[follower].close(t)
	delete(c.stores, follower)
	after, err := c.stores[c.leader(1)].machine.Rows(1)
	require.NoError(t, err)
	s, _, err := tryOpen(t, "db", wire.clone, c.nodeOptions(follower)...)
	require.NoError(t, err)
	found, err := s.machine.Rows(1)
	require.NoError(t, err)
	require.NoError(t, s.db.Close())
	isNew := 0
	for key, v := range found {
		if v == value && after[key] == v {
			isNew++
		}
	}
	require.True(t, isNew == 0 && len(found) <= 6 || diff(after, found) == "", "state is neither the old nor the new one: %d of %d rows", isNew, len(found))
	c.start(follower, wire.clone)
	c.waitEqual(chaosGroups)
	// It can vote and lead with what it has.
	c.waitReady()
	c.eventually("transfer to the survivor", func() bool {
		return c.stores[c.leader(1)].driver.TransferLeader(t.Context(), 1, follower) == nil
	})
	require.NoError(t, c.propose(t.Context(), 1, "after", "crash"))
	c.waitEqual(chaosGroups)
}
