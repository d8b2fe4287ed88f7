package usage

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/cluster"
	"parley/cluster/shard"
	"parley/cmd/parley/node/reads"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/nodepb"
)

// counted is a node that writes usage down.
type counted struct {
	cluster.Local
	began time.Time

	mu    sync.Mutex
	times []time.Duration
	total int64
}

// Call implements cluster.Local.
func (c *counted) Call(_ context.Context, _ string, request proto.Message) (proto.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, time.Since(c.began))
	for _, sum := range request.(*nodepb.AddSums).GetSums() { //nolint:errcheck,forcetypeassert // nothing else is asked
		c.total += sum.GetDeltas()[0]
	}
	return &nodepb.Done{}, nil
}

// written is when it wrote, and how much in all.
func (c *counted) written() ([]time.Duration, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.times), c.total
}

// TestUsageIsWrittenSoon: at once in quiet times, every second in busy ones, and at a stop what is left.
func TestUsageIsWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards, ok := shard.New(4)
		require.True(t, ok)
		local, owners := &counted{began: time.Now()}, &cluster.Owners{}
		router, err := cluster.New(cluster.Config{
			Node: "n1", Shards: shards, Local: local, Owners: owners, Refuse: func(failurepb.Code, failure.Reason) error { return errNoOwner },
		})
		require.NoError(t, err)
		meter, stop := New(reads.NewRoute("n1", router, owners, shards, nil), slog.New(slog.DiscardHandler), nil)
		add := func() { meter.Add(&logpb.Sum{Name: "usage/t/p", Member: "m", Deltas: []int64{1}}) }

		add()
		synctest.Wait() // nobody owns a shard yet: it stays
		owners.Set(cluster.Owner{Shard: 1, Node: "n1", Epoch: 1})
		time.Sleep(10 * time.Second)
		times, _ := local.written()
		require.Equal(t, []time.Duration{time.Second}, times)

		add()
		synctest.Wait()
		times, _ = local.written()
		require.Equal(t, []time.Duration{time.Second, 10 * time.Second}, times, "it was quiet")
		for range 10 {
			time.Sleep(90 * time.Millisecond)
			add()
		}
		synctest.Wait()
		times, _ = local.written()
		require.Len(t, times, 2)
		time.Sleep(200 * time.Millisecond)
		times, total := local.written()
		require.Equal(t, 11*time.Second, times[2], "all that came in its second")
		require.EqualValues(t, 12, total)

		add()
		stop(t.Context())
		_, total = local.written()
		require.EqualValues(t, 13, total, "a stop loses nothing")
	})
}
