package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/meter"
	"parley/proto/logpb"
	"parley/proto/meterpb"
)

// counted is a cluster that counts usage by the rules of meters.
type counted struct {
	began time.Time

	mu    sync.Mutex
	last  map[string]uint64
	times []time.Duration
	total int64
	fail  func() error // before a batch is counted; nil = it is
	mute  func() error // after it was counted
}

// Ask implements entity.Client.
func (c *counted) Ask(_ context.Context, id string, command proto.Message) (proto.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(); err != nil {
			return nil, err
		}
	}
	count := command.(*meterpb.Command).GetCount() //nolint:errcheck,forcetypeassert // nothing else is asked
	if c.last == nil {
		c.last = map[string]uint64{}
	}
	if count.GetBatch() > c.last[id] {
		c.last[id] = count.GetBatch()
		c.times = append(c.times, time.Since(c.began))
		for _, sum := range count.GetSums() {
			c.total += sum.GetDeltas()[0]
		}
	}
	if c.mute != nil {
		if err := c.mute(); err != nil {
			return nil, err
		}
	}
	return &meterpb.Reply{}, nil
}

// Read implements entity.Client.
func (*counted) Read(context.Context, proto.Message) (proto.Message, error) {
	return nil, errors.ErrUnsupported
}

// written is when it wrote, and how much in all.
func (c *counted) written() ([]time.Duration, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.times), c.total
}

// starts counts the starts of nodes.
type starts struct{ n int }

func (s *starts) config(cluster *counted, folder string) Config {
	return Config{
		Entities: cluster, Folder: folder, Ready: func() bool { return true }, Logger: slog.New(slog.DiscardHandler),
		NewID: func(kind string) string {
			s.n++
			return fmt.Sprintf("%s_%d", kind, s.n)
		},
	}
}

func one(member string) *logpb.Sum {
	return &logpb.Sum{Name: "usage/t/p", Member: member, Deltas: []int64{1}}
}

// TestUsageIsWrittenSoon: at once in quiet times, every second in busy ones, and at a stop what is left.
func TestUsageIsWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &counted{began: time.Now()}
		ready := false
		config := new(starts).config(cluster, t.TempDir())
		config.Ready = func() bool { return ready }
		meter, stop := New(config)
		add := func() { meter.Add(one("m")) }

		add()
		synctest.Wait() // nodes that know of no meters are there yet
		ready = true
		time.Sleep(10 * time.Second)
		times, _ := cluster.written()
		require.Equal(t, []time.Duration{time.Second}, times)

		add()
		synctest.Wait()
		times, _ = cluster.written()
		require.Equal(t, []time.Duration{time.Second, 10 * time.Second}, times, "it was quiet")
		for range 10 {
			time.Sleep(90 * time.Millisecond)
			add()
		}
		synctest.Wait()
		times, _ = cluster.written()
		require.Len(t, times, 2)
		time.Sleep(200 * time.Millisecond)
		times, total := cluster.written()
		require.Equal(t, 11*time.Second, times[2], "all that came in its second")
		require.EqualValues(t, 12, total)

		add()
		stop(t.Context())
		_, total = cluster.written()
		require.EqualValues(t, 13, total, "a stop loses nothing")
		left, err := os.ReadDir(config.Folder)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestUsageSurvivesItsNode: whatever was added before a process was killed is counted once, by this one or the next.
func TestUsageSurvivesItsNode(t *testing.T) {
	broken := errors.New("no answer")
	for name, spoil := range map[string]func(*counted){
		"before it was counted": func(c *counted) { c.fail = func() error { return broken } },
		"after it was counted":  func(c *counted) { c.mute = func() error { return broken } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, folder, started := &counted{began: time.Now()}, t.TempDir(), &starts{}
				first, stop := New(started.config(cluster, folder))
				for i := range 3 * meter.MaxRows / 2 { // two batches
					first.Add(one(fmt.Sprint(i)))
				}
				cluster.mu.Lock()
				spoil(cluster)
				cluster.mu.Unlock()
				first.Add(one("last"))
				time.Sleep(3 * time.Second)
				stop(t.Context()) // which is as good as a kill: it can give nothing away any more

				cluster.fail, cluster.mute = nil, nil
				second, stop := New(started.config(cluster, folder))
				second.Add(one("0"))
				time.Sleep(3 * time.Second)
				_, total := cluster.written()
				require.EqualValues(t, 3*meter.MaxRows/2+2, total)
				require.Zero(t, second.Waiting())
				stop(t.Context())
				left, err := os.ReadDir(folder)
				require.NoError(t, err)
				require.Empty(t, left)
			})
		})
	}
}

// TestTornUsage: a file that ends in the middle of a frame gives what came before, and what is no file of a batch is left alone.
func TestTornUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		b := newBatch(folder, "meter_0", 7)
		require.NoError(t, b.add(one("a")))
		require.NoError(t, b.add(one("b")))
		b.close()
		whole, err := os.ReadFile(b.path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(b.path, append(whole[:len(whole)-1], make([]byte, 64)...), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "meter_0.0000000008.usage"), nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("mine"), 0o600))
		cluster := &counted{began: time.Now()}
		_, stop := New(new(starts).config(cluster, folder))
		stop(t.Context())
		_, total := cluster.written()
		require.EqualValues(t, 1, total)
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, left, 1)
	})
}

// TestUsageIsBounded: while nothing can be counted, so much is kept and no more.
func TestUsageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &counted{began: time.Now(), fail: func() error { return errors.New("no owner") }}
		m, stop := New(new(starts).config(cluster, t.TempDir()))
		for i := range (maxBatches + 2) * meter.MaxRows {
			m.Add(one(fmt.Sprint(i)))
		}
		require.LessOrEqual(t, m.Waiting(), (maxBatches+1)*meter.MaxRows)
		require.GreaterOrEqual(t, m.Waiting(), (maxBatches-1)*meter.MaxRows) // one was closed to be given away
		stop(t.Context())
	})
}

// BenchmarkAdd is what a call pays for its usage, over a sum in memory alone.
func BenchmarkAdd(b *testing.B) {
	m, stop := New(new(starts).config(&counted{began: time.Now()}, b.TempDir()))
	sum := one("m")
	b.ReportAllocs()
	for b.Loop() {
		m.Add(sum)
	}
	stop(b.Context())
}
