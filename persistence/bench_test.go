package persistence_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"parley/persistence"
	"parley/proto/logpb"
)

// Benchmarks run on the disk of the temporary directory. Those of writes print raw Pebble synced batches of the same
// size beside them, as the yardstick of this machine.

func benchStore(b *testing.B) *persistence.Store {
	b.Helper()
	s, err := persistence.Open(b.Context(), persistence.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(s.Stop)
	s.Start()
	require.NoError(b, s.WaitReady(b.Context()))
	return s
}

func benchID(i int) (group uint32, id string) {
	return uint32(i%16) + 1, fmt.Sprintf("conv_%021d", i)
}

// parallel runs f for n numbers on the given workers.
func parallel(workers, n int, f func(worker, i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(w, i)
			}
		})
	}
	wg.Wait()
}

func create(ctx context.Context, s *persistence.Store, i, items int) error {
	group, id := benchID(i)
	a := &logpb.Append{
		Id: id, Create: true, Epoch: 1, Head: make([]byte, 300), Events: [][]byte{make([]byte, 200)},
		Listings: []*logpb.Listing{{List: "user/u1/updated", Score: int64(i), Member: id}},
		Counts:   []*logpb.Count{{Name: "user/u1", Delta: 1}},
	}
	for k := range items {
		a.Items = append(a.Items, &logpb.Item{Table: 1, Key: []byte{0, 0, 0, 0, 0, 0, 0, byte(k)}, Value: make([]byte, 300)})
	}
	r, err := s.Append(ctx, group, a)
	if err == nil && r.GetOutcome() != logpb.Outcome_APPLIED {
		err = fmt.Errorf("%s", r.GetOutcome())
	}
	return err
}

func BenchmarkAppend(b *testing.B) {
	for _, workers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("c=%d", workers), func(b *testing.B) {
			s := benchStore(b)
			seqs := make([]uint64, workers)
			for w := range workers {
				require.NoError(b, create(b.Context(), s, w, 0))
			}
			b.ResetTimer()
			parallel(workers, b.N, func(w, i int) {
				group, id := benchID(w)
				r, err := s.Append(b.Context(), group, &logpb.Append{
					Id: id, ExpectedSeq: seqs[w], Epoch: 1, Head: make([]byte, 300), Events: [][]byte{make([]byte, 200)},
					Items:    []*logpb.Item{{Table: 1, Key: []byte{byte(i)}, Value: make([]byte, 200)}},
					Listings: []*logpb.Listing{{List: "user/u1/updated", Score: int64(i), Member: id}},
				})
				if err != nil || r.GetOutcome() != logpb.Outcome_APPLIED {
					b.Error(r, err)
				}
				seqs[w] = r.GetSeq()
			})
			b.StopTimer()
			rate := float64(b.N) / b.Elapsed().Seconds()
			raw := rawBatches(b, workers, b.N)
			b.ReportMetric(rate, "appends/s")
			b.ReportMetric(raw, "raw/s")
			b.ReportMetric(rate/raw, "of-raw")
		})
	}
}

// rawBatches is the yardstick: synced batches of three keys, 700 bytes.
func rawBatches(b *testing.B, workers, n int) float64 {
	b.Helper()
	db, err := pebble.Open(b.TempDir(), &pebble.Options{MemTableSize: 64 << 20, Logger: silent{}})
	require.NoError(b, err)
	start := time.Now()
	parallel(workers, n, func(_, i int) {
		batch := db.NewBatch()
		for k := range 3 {
			_ = batch.Set(fmt.Appendf(nil, "key-%d-%d", i%10_000, k), make([]byte, 230), nil)
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			b.Error(err)
		}
	})
	rate := float64(n) / time.Since(start).Seconds()
	require.NoError(b, db.Close())
	return rate
}

type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// 10,000 conversations of 20 items, one user.
func BenchmarkRead(b *testing.B) {
	s := benchStore(b)
	const conversations = 10_000
	parallel(64, conversations, func(_, i int) {
		if err := create(b.Context(), s, i, 20); err != nil {
			b.Error(err)
		}
	})
	pick := func() (uint32, string) { return benchID(rand.IntN(conversations)) }
	b.Run("head", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			group, id := pick()
			_, found, err := s.Head(b.Context(), group, id)
			require.NoError(b, err)
			require.True(b, found)
		}
	})
	for _, descending := range []bool{false, true} {
		b.Run(fmt.Sprintf("head+20 items/descending=%v", descending), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				group, id := pick()
				v, err := s.View(b.Context(), group)
				require.NoError(b, err)
				_, found, err := v.Head(id)
				require.NoError(b, err)
				require.True(b, found)
				n := 0
				err = v.Items(id, persistence.ItemQuery{Table: 1, Descending: descending, Limit: 20}, func(_, _ []byte) bool { n++; return true })
				require.NoError(b, err)
				require.Equal(b, 20, n)
				require.NoError(b, v.Close())
			}
		})
	}
	for name, q := range map[string]persistence.ListQuery{
		"list 20":            {List: "user/u1/updated", Descending: true, Limit: 20},
		"list 20 cursor":     {List: "user/u1/updated", Descending: true, Limit: 20, After: &persistence.ListCursor{Score: 5000}},
		"list 20 offset 500": {List: "user/u1/updated", Descending: true, Limit: 20, Offset: 500},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				rows, err := s.List(b.Context(), q)
				require.NoError(b, err)
				require.Len(b, rows, 20)
			}
		})
	}
	b.Run("count", func(b *testing.B) {
		for range b.N {
			n, err := s.Count(b.Context(), "user/u1")
			require.NoError(b, err)
			require.EqualValues(b, conversations, n)
		}
	})
}

// Restart to ready with a gigabyte of conversations on the disk.
func BenchmarkRestart(b *testing.B) {
	o := persistence.Options{Dir: b.TempDir()}
	s := start(b, o)
	const conversations, items, size = 20_000, 25, 2_000
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	parallel(64, conversations, func(_, i int) {
		group, id := benchID(i)
		a := &logpb.Append{Id: id, Create: true, Epoch: 1, Head: make([]byte, 300)}
		for k := range items {
			at := rand.IntN(len(noise) - size)
			a.Items = append(a.Items, &logpb.Item{Table: 1, Key: []byte{byte(k)}, Value: noise[at : at+size]})
		}
		if _, err := s.Append(b.Context(), group, a); err != nil {
			b.Error(err)
		}
	})
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		s.Stop()
		b.StartTimer()
		s = start(b, o)
	}
	b.StopTimer()
	s.Stop()
}
