package persistence_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/persistence/backup"
)

// fleetMoment is what a crash of all nodes at about the same time leaves.
type fleetMoment struct {
	fs    map[uint64]*vfs.MemFS
	acked map[string]uint64
	at    string
}

// A power failure at the syncs of a scripted run in which nodes join, get snapshots, lose replicas and get them again:
// the nodes come back as a cluster that has everything acknowledged, and equal replicas. PARLEY_CRASH_EVERY=1 crashes at
// every sync (minutes); without it at some.
func TestClusterCrashesAtSyncs(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	every := 25
	if s := os.Getenv("PARLEY_CRASH_EVERY"); s != "" {
		var err error
		every, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	disks := map[uint64]*vfs.MemFS{1: vfs.NewCrashableMem(), 2: vfs.NewCrashableMem(), 3: vfs.NewCrashableMem()}
	book := newLedger()
	var mu sync.Mutex
	var moments []fleetMoment
	syncs, next := 0, rng.IntN(every)
	founded := false // all directories are made: this file system may lose both names of what is renamed
	watched := func(id uint64) vfs.FS {
		return errorfs.Wrap(crashable{disks[id]}, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if syncs++; syncs <= next {
				return nil
			}
			next = syncs + rng.IntN(2*every-1)
			m := fleetMoment{fs: map[uint64]*vfs.MemFS{}, acked: book.copy(), at: fmt.Sprintf("%d node %d %v", syncs, id, op)}
			cfg := vfs.CrashCloneCfg{}
			if founded && rng.IntN(2) == 0 {
				cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}
			}
			for id, disk := range disks {
				m.fs[id] = disk.CrashClone(cfg)
			}
			moments = append(moments, m)
			return nil
		}))
	}
	f := newFleet(t)
	write := func(group uint32, id string, from, to uint64) {
		for seq := from; seq < to; seq++ {
			f.append(group, id, seq)
			book.ack(fmt.Sprint(group, "/", id), seq)
		}
	}
	f.up(1, watched(1))
	write(1, "a", 0, 50)
	f.up(2, watched(2))
	f.up(3, watched(3))
	mu.Lock()
	founded = true
	mu.Unlock()
	f.grow(2, 3)
	write(2, "b", 0, 10)
	f.network.Isolate(3)
	write(1, "a", 50, 110)
	f.network.Heal()
	f.caught(3, 0, 1, 2, 3)
	f.change(1, persistence.Remove, 3)
	leader, err := f.leader(1)
	require.NoError(t, err)
	r, err := status(leader, 1)
	require.NoError(t, err)
	require.NoError(t, eventuallyNil(func() error { return f.store(3).DropReplica(ctx, 1, r.Applied) }))
	write(1, "a", 110, 120)
	f.change(1, persistence.AddLearner, 3)
	f.change(1, persistence.Promote, 3)
	f.at(1, func(s *persistence.Store) error { return s.TransferLeader(ctx, 1, 3) })
	write(1, "a", 120, 125)
	write(3, "c", 0, 3)
	for id := range uint64(3) {
		f.down(id + 1)
	}
	t.Logf("%d syncs, %d crashes", syncs, len(moments))
	require.Greater(t, syncs, 100)
	if testing.Short() {
		moments = moments[:min(len(moments), 3)]
	}
	for _, m := range moments {
		t.Run(m.at, func(t *testing.T) { fleetComesBack(t, m) })
	}
}

func fleetComesBack(t *testing.T, m fleetMoment) {
	t.Helper()
	f := newFleet(t)
	for id := range uint64(3) {
		f.up(id+1, m.fs[id+1])
	}
	for name, seq := range m.acked {
		var group uint32
		var id string
		_, err := fmt.Sscanf(name, "%d/%s", &group, &id)
		require.NoError(t, err)
		f.at(group, func(s *persistence.Store) error {
			head, found, err := s.Head(ctx, group, id)
			if err != nil {
				return err
			}
			require.True(t, found, "%s was acknowledged up to %d", name, seq)
			require.GreaterOrEqual(t, head.Seq, seq, name)
			return nil
		})
	}
	for group := range uint32(3) {
		f.append(group+1, "after", 0)
	}
	for group := range uint32(4) {
		f.equal(group)
	}
}

// sum is a checksum over the rows of a node's replica.
func (f *fleet) sum(s *persistence.Store, group uint32) (uint64, error) {
	reader, writer := io.Pipe()
	go func() {
		_, err := s.Backup(persistence.WithStale(ctx), group, writer)
		writer.CloseWithError(err)
	}()
	hash := fnv.New64a()
	_, err := backup.Read(reader, nil, func(key, value []byte) error {
		_, err := fmt.Fprintf(hash, "%x=%x\n", key, value)
		return err
	})
	return hash.Sum64(), errors.Join(err, reader.Close())
}
