package node

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster/shard"
	"parley/cmd/parley/config"
)

// write is one that was accepted.
type write struct {
	ended time.Time
	took  time.Duration
	by    string
}

// gap is the time between the last write that the old owner accepted and the first one of the new, that write included.
type gap struct{ from, to time.Time }

// BenchmarkPlannedMove moves a shard between three nodes while one caller writes to a conversation of it, through every node in turn.
// Ordinary writes are the yardstick of a gap: those of the same caller in between, and for the longest gaps the longest write to another
// shard at the same moment, which nobody moves: what that waits for (a disk, a processor) the move waits for, too. An operation is a move
// and 20 writes.
func BenchmarkPlannedMove(b *testing.B) {
	f := newFleetWith(b, func(string, *config.Config) {}, "n1", "n2", "n3")
	f.grown()
	id, _ := f.conversation("n1")
	in, valid := f.nodes["n1"].shards.Of(id)
	require.True(b, valid)
	ctx, stop := context.WithCancel(b.Context())
	accepted, elsewhere := make(chan write), make(chan write)
	go f.write(ctx, id, accepted)
	go f.write(ctx, f.conversationOutside(in), elsewhere)
	var beside []write
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for w := range elsewhere {
			beside = append(beside, w)
		}
	}()
	defer func() {
		stop()
		for range accepted { // until the writer has ended
		}
	}()
	var (
		gaps     []gap
		ordinary []time.Duration
	)
	last := <-accepted
	for b.Loop() {
		var others []uint64
		for _, m := range f.nodes[last.by].links.board.Snapshot().Nodes {
			if m.Name != last.by {
				others = append(others, m.Node)
			}
		}
		slices.Sort(others)
		var moved atomic.Bool
		ended := make(chan struct{})
		from, begun := last.by, time.Now()
		go func() {
			defer close(ended)
			for i := 0; !moved.Load(); i++ { // others may lag, and the placement loop moves shards, too
				if f.nodes[from].handOver(ctx, uint32(in), others[(len(gaps)+i)%len(others)], handing{}) == nil || ctx.Err() != nil {
					return
				}
			}
		}()
		for after := 0; after < 20; {
			next, open := <-accepted
			if !open {
				b.FailNow()
			}
			switch {
			case next.by != last.by:
				gaps, after = append(gaps, gap{last.ended, next.ended}), 1
				moved.Store(true)
			case after > 0:
				ordinary = append(ordinary, next.took)
				after++
			case time.Since(begun) > time.Minute:
				b.Fatal("the shard does not move")
			}
			last = next
		}
		<-ended
	}
	stop()
	<-watched
	var took, over, longest []time.Duration
	for _, g := range gaps {
		took = append(took, g.to.Sub(g.from))
		longest = append(longest, g.longest(beside))
		over = append(over, took[len(took)-1]-longest[len(longest)-1])
	}
	for name, all := range map[string][]time.Duration{"gap": took, "write": ordinary, "beside": longest, "gap-over-beside": over} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2].Seconds()*1e3, name+"-p50-ms")
		b.ReportMetric(all[len(all)*9/10].Seconds()*1e3, name+"-p90-ms")
		b.ReportMetric(all[len(all)-1].Seconds()*1e3, name+"-max-ms")
	}
	b.ReportMetric(float64(len(gaps)), "moves")
}

// longest is how long the longest of the writes took that were under way in a gap.
func (g gap) longest(writes []write) (longest time.Duration) {
	for _, w := range writes {
		if w.ended.After(g.from) && w.ended.Add(-w.took).Before(g.to) {
			longest = max(longest, w.took)
		}
	}
	return longest
}

// conversationOutside makes a conversation in another shard.
func (f *fleet) conversationOutside(in shard.ID) string {
	for {
		id, _ := f.conversation("n1")
		if other, _ := f.nodes["n1"].shards.Of(id); other != in {
			return id
		}
	}
}

// write changes a conversation through every node in turn, and says which write was accepted when and by whom.
func (f *fleet) write(ctx context.Context, id string, accepted chan<- write) {
	defer close(accepted)
	names := []string{"n1", "n2", "n3"}
	for i := 0; ctx.Err() == nil; i++ {
		begun := time.Now()
		status, by, answer, err := f.call(names[i%len(names)], http.MethodPatch, "/conversations/"+id, map[string]any{"title": strconv.Itoa(i)}) //nolint:contextcheck // a write is not cut
		if err != nil || status != http.StatusOK {
			f.t.Errorf("write %d: %d %v %v", i, status, answer, err)
			return
		}
		select {
		case accepted <- write{ended: time.Now(), took: time.Since(begun), by: by}:
		case <-ctx.Done():
		}
	}
}
