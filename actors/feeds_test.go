package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// rowsHeard is the rows of a feed, as "id status seq", by batch.
type rowsHeard struct{ batches [][]string }

func (h *rowsHeard) Change(change *conversationpb.Change) {
	var batch []string
	for _, row := range change.GetRows() {
		batch = append(batch, fmt.Sprint(row.GetId(), " ", row.GetStatus(), " ", row.GetLastSeq(), " ", row.GetDeleted()))
	}
	h.batches = append(h.batches, batch)
}

func (h *rowsHeard) Closed(error) { h.batches = append(h.batches, []string{"closed"}) }

func (h *rowsHeard) take() [][]string {
	batches := h.batches
	h.batches = nil
	return batches
}

func talk(id string, seq uint64, spent int64) *conversationpb.State {
	return &conversationpb.State{Id: id, TenantId: "t", ProjectId: "p", LastSeq: seq, SpentNanoUsd: spent}
}

func TestFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewLiveStreams(LiveStreamsConfig{})
		told := 0
		kind := &Kind{OnCommit: func(Commit) { told++ }}
		r.List(kind)
		commit := func(shard uint32, before, after proto.Message) {
			kind.OnCommit(Commit{Ref: Entity{Shard: shard, Epoch: 3}, Before: before, After: after})
		}
		commit(1, nil, talk("a", 1, 0)) // nobody listens
		h, other := &rowsHeard{}, &rowsHeard{}
		for sink, id := range map[*rowsHeard]string{h: follow.Feed(1, "t", "p"), other: follow.Feed(1, "t", "q")} {
			fl, err := r.register(1, id, sink)
			require.NoError(t, err)
			_, err = fl.open(3, nil)
			require.NoError(t, err)
			defer fl.cancel()
		}
		require.EqualValues(t, 2, r.feeds.Load())

		commit(1, nil, talk("a", 1, 0))
		require.Equal(t, [][]string{{"a idle 1 false"}}, h.take(), "at once")
		commit(2, nil, talk("b", 1, 0))             // of another shard
		commit(1, talk("a", 1, 0), talk("a", 2, 0)) // looks the same
		commit(1, talk("a", 2, 0), talk("a", 3, 5)) // waits
		commit(1, talk("a", 3, 5), talk("a", 4, 9)) // in its place
		commit(1, nil, &runpb.State{Id: "r", TenantId: "t", ProjectId: "p", Status: runpb.Status_RUNNING})
		commit(1, nil, &runpb.Queue{Id: "queue"}) // in no list
		commit(1, nil, &conversationpb.State{Id: "k", TenantId: "t", ProjectId: "p", Source: conversationpb.SourceTask})
		require.Empty(t, h.take())
		time.Sleep(2 * feedPause)
		require.Equal(t, [][]string{{"a idle 4 false", "r running 0 false"}}, h.take())
		time.Sleep(2 * feedPause)
		commit(1, talk("a", 4, 9), nil)
		require.Equal(t, [][]string{{"a  5 true"}}, h.take())
		for i := range 2*feedRows + 1 {
			commit(1, nil, talk(fmt.Sprint("many", i), 1, 0))
		}
		require.Len(t, h.take(), 2, "what waits is bounded")
		require.Empty(t, other.take())
		require.Equal(t, 11+2*feedRows, told, "what the kind did before it still does")

		r.closeShard(1, 3, errMissed())
		require.Contains(t, h.take(), []string{"closed"})
		require.Zero(t, r.feeds.Load())
		commit(1, nil, talk("late", 1, 0))
		require.Empty(t, h.take())
	})
}

// TestFeedNames: no two projects share one, and none is a conversation's id.
func TestFeedNames(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"", "a/b/c"}, {"1/a", "b"}, {"a", ""}} {
		for _, shard := range []uint32{1, 11} {
			name := follow.Feed(shard, parts[0], parts[1])
			require.True(t, follow.IsFeed(name))
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.False(t, follow.IsFeed("conv_feed"))
}
