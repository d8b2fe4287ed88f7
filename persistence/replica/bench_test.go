package replica_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"parley/persistence/replica"
	"parley/persistence/replica/replicatest"
)

// BenchmarkPropose compares proposals of 700 bytes over 16 groups, one node, fsync on, with raw synced Pebble batches of as many bytes in the same run. The
// metric ratio is proposals per raw batch.
//
//	go test -run '^$' -bench Propose -benchtime 2s ./persistence/replica
func BenchmarkPropose(b *testing.B) {
	value := string(make([]byte, 680))
	for _, writers := range []int{1, 64, 512} {
		var raw float64
		b.Run(fmt.Sprintf("raw/c=%d", writers), func(b *testing.B) {
			db := openDB(b, b.TempDir(), vfs.Default)
			defer func() { require.NoError(b, db.Close()) }()
			raw = spread(b, writers, func(i int) error {
				batch := db.NewBatch()
				for part := range 3 {
					if err := batch.Set(fmt.Appendf(nil, "k%d-%d", i, part), []byte(value[:230]), nil); err != nil {
						return err
					}
				}
				return batch.Commit(pebble.Sync)
			})
		})
		b.Run(fmt.Sprintf("propose/c=%d", writers), func(b *testing.B) {
			s := openStore(b, b.TempDir(), vfs.Default, withGroups(17))
			defer s.close(b)
			s.waitReady(b)
			ctx := b.Context()
			rate := spread(b, writers, func(i int) error {
				_, err := s.driver.Propose(ctx, replica.GroupID(1+i%16), replicatest.Put(fmt.Sprintf("key-%d", i), value))
				return err
			})
			if raw > 0 {
				b.ReportMetric(rate/raw, "ratio")
			}
		})
	}
}

// BenchmarkReadBarrier is the fast path of a node that is alone.
func BenchmarkReadBarrier(b *testing.B) {
	s := openStore(b, b.TempDir(), vfs.Default, withGroups(17))
	defer s.close(b)
	s.waitReady(b)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if err := s.driver.ReadBarrier(b.Context(), replica.GroupID(i%17)); err != nil {
				b.Error(err)
			}
		}
	})
}

// spread runs b.N operations on as many writers and returns operations per second.
func spread(b *testing.B, writers int, op func(i int) error) float64 {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	begin := time.Now()
	for range writers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				if err := op(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rate := float64(b.N) / time.Since(begin).Seconds()
	b.StopTimer()
	b.ReportMetric(rate, "ops/s")
	return rate
}

// BenchmarkPropose3 is three nodes in one process, on one disk, over the network in memory with its latency.
func BenchmarkPropose3(b *testing.B) {
	value := string(make([]byte, 680))
	for _, writers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("c=%d", writers), func(b *testing.B) {
			network := replicatest.NewNetwork(b, 1)
			defer network.Close()
			peers := []replica.NodeID{1, 2, 3}
			stores := make(map[replica.NodeID]*store)
			for _, id := range peers {
				s := openStore(b, b.TempDir(), vfs.Default, withGroups(17), func(c *replica.Config) {
					c.Node, c.Peers, c.Transport = id, peers, network.Endpoint(id)
				})
				defer s.close(b)
				network.Endpoint(id).Bind(s.driver)
				stores[id] = s
			}
			for _, s := range stores {
				s.waitReady(b)
			}
			ctx := b.Context()
			spread(b, writers, func(i int) error {
				group := replica.GroupID(1 + i%16)
				leader, _, _ := stores[1].driver.Leader(group)
				_, err := stores[leader].driver.Propose(ctx, group, replicatest.Put(fmt.Sprintf("key-%d", i), value))
				return err
			})
		})
	}
}

// BenchmarkIdle3 is what three nodes cost that have nothing to do, in cores. Elections are over when it begins.
//
//	go test -run '^$' -bench Idle3 -benchtime 3s ./persistence/replica
func BenchmarkIdle3(b *testing.B) {
	for _, groups := range []int{17, 65} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			network := replicatest.NewNetwork(b, 1)
			defer network.Close()
			peers := []replica.NodeID{1, 2, 3}
			var stores []*store
			for _, id := range peers {
				s := openStore(b, b.TempDir(), vfs.Default, withGroups(groups), func(c *replica.Config) {
					c.Node, c.Peers, c.Transport = id, peers, network.Endpoint(id)
				})
				defer s.close(b)
				network.Endpoint(id).Bind(s.driver)
				stores = append(stores, s)
			}
			for _, s := range stores {
				s.waitReady(b)
			}
			const watch = 3 * time.Second
			var before, after syscall.Rusage
			require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
			var m0, m1 runtime.MemStats
			runtime.ReadMemStats(&m0)
			<-time.After(watch)
			require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
			runtime.ReadMemStats(&m1)
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/float64(watch), "cores")
			b.ReportMetric(float64(m1.Mallocs-m0.Mallocs)/watch.Seconds(), "allocs/s")
		})
	}
}
