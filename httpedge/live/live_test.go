package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// owners follow feeds of shards, and may refuse to.
type owners struct {
	mu    sync.Mutex
	sinks map[string]follow.Sink // by shard and project
	down  map[uint32]bool
	made  int
}

func (o *owners) follow(ctx context.Context, shard uint32, tenantID, projectID string, sink follow.Sink) (func(), error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down[shard] || !expected.In(ctx) {
		return nil, errors.New("nobody owns it")
	}
	name := fmt.Sprint(shard, "/", tenantID, "/", projectID)
	o.sinks[name] = sink
	o.made++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.sinks[name] == sink {
			delete(o.sinks, name)
		}
	}, nil
}

func (o *owners) sink(name string) follow.Sink {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sinks[name]
}

func (o *owners) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.sinks)
}

func (o *owners) set(shard uint32, down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down[shard] = down
}

// heard is what a topic was told: ids in the order of events, "reset" for resets.
type heard struct {
	t    *testing.T
	mu   sync.Mutex
	told [][]string
	seq  uint64
}

func (h *heard) Change(change *conversationpb.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, event := range change.GetEvents() {
		h.seq++
		require.Equal(h.t, h.seq, event.GetSeq(), "without a gap")
		var ids []string
		for _, row := range event.GetListed().GetRows() {
			ids = append(ids, fmt.Sprint(row.GetId(), row.GetLastSeq()))
		}
		if event.GetListed().GetReset_() {
			ids = []string{"reset"}
		}
		h.told = append(h.told, ids)
	}
}

func (h *heard) Closed(error) { h.t.Error("a topic is never closed from this side") }

func (h *heard) take() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := h.told
	h.told = nil
	return told
}

func rowsOf(user string, ids ...string) *conversationpb.Change {
	change := &conversationpb.Change{}
	for _, id := range ids {
		change.Rows = append(change.Rows, &conversationpb.ListRow{Id: id, UserId: user, LastSeq: 1})
	}
	return change
}

func newFeeds() (*Feeds, *owners) {
	o := &owners{sinks: map[string]follow.Sink{}, down: map[uint32]bool{}}
	return New(none{}, []uint32{1, 2}, o.follow), o
}

// none is an upstream without conversations.
type none struct{ sse.Upstream }

func (none) Follow(_ context.Context, id string, _ follow.Sink) (*conversationpb.Snapshot, func(), error) {
	return nil, nil, errors.New("conversation " + id)
}

func TestRowsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := newFeeds()
		defer f.Stop()
		all, own, other := &heard{t: t}, &heard{t: t}, &heard{t: t}
		var ends []func()
		for sink, topic := range map[*heard]string{
			all: f.Topic("t", "p", "ann", true), own: f.Topic("t", "p", "ann", false), other: f.Topic("t", "p/q", "ann", true),
		} {
			snapshot, end, err := f.Follow(t.Context(), topic, sink)
			require.NoError(t, err)
			require.Zero(t, snapshot.GetLastSeq())
			ends = append(ends, end)
		}
		require.Equal(t, 4, o.count(), "each project once in each shard")
		o.sink("1/t/p").Change(rowsOf("ann", "a"))
		o.sink("2/t/p").Change(rowsOf("bob", "b"))
		time.Sleep(2 * lead)
		require.Len(t, all.take(), 1)
		require.Equal(t, [][]string{{"a1"}}, own.take())
		for seq := range 50 {
			o.sink("1/t/p").Change(&conversationpb.Change{Rows: []*conversationpb.ListRow{{Id: "a", UserId: "ann", LastSeq: uint64(50 - seq)}}})
		}
		time.Sleep(2 * pause)
		require.Equal(t, [][]string{{"a50"}}, all.take(), "the newest of them")
		require.Equal(t, [][]string{{"a50"}}, own.take())
		require.Empty(t, other.take())

		_, last, err := f.Events(t.Context(), f.Topic("t", "p", "ann", true), 1<<63, 10)
		require.NoError(t, err)
		require.EqualValues(t, 2, last)
		_, _, err = f.Events(t.Context(), f.Topic("t", "p", "ann", true), 1, 10)
		require.Error(t, err, "what was sent is not kept")
		for _, end := range ends {
			end()
			end()
		}
		require.Zero(t, o.count(), "nobody follows what nobody reads")
	})
}

// TestResets: where rows may have been missed, readers are told to begin anew, and not all the time.
func TestResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := newFeeds()
		defer f.Stop()
		h := &heard{t: t}
		_, end, err := f.Follow(t.Context(), f.Topic("t", "p", "", true), h)
		require.NoError(t, err)
		defer end()
		for _, name := range []string{"1/t/p", "2/t/p"} { // a node dies
			o.sink(name).Closed(errors.New("moved"))
		}
		time.Sleep(2 * time.Second)
		require.Equal(t, [][]string{{"reset"}}, h.take(), "once for all shards")
		require.Equal(t, 4, o.made)
		o.sink("1/t/p").Change(rowsOf("", "a"))
		time.Sleep(2 * pause)
		require.Equal(t, [][]string{{"a1"}}, h.take())

		many := make([]string, maxRows+1)
		for i := range many {
			many[i] = fmt.Sprint("id", i)
		}
		for range 20 {
			o.sink("1/t/p").Change(rowsOf("", many...))
			time.Sleep(time.Second)
		}
		told := h.take()
		require.NotEmpty(t, told)
		require.LessOrEqual(t, len(told), int(20*time.Second/resetGap)+1, "they are rare")
		for _, ids := range told {
			require.Equal(t, []string{"reset"}, ids)
		}
		time.Sleep(2 * resetGap)
		h.take()

		o.set(2, true)
		o.sink("2/t/p").Closed(errors.New("nobody owns it"))
		time.Sleep(time.Minute)
		require.Empty(t, h.take(), "not before it is followed again")
		o.sink("1/t/p").Change(rowsOf("", "b"))
		time.Sleep(2 * pause)
		require.Equal(t, [][]string{{"b1"}}, h.take(), "other shards go on")
		o.set(2, false)
		time.Sleep(2 * latest)
		require.Equal(t, [][]string{{"reset"}}, h.take())
	})
}

// TestAShardWithoutAnOwner: a stream begins all the same, and says reset once the shard is followed.
func TestAShardWithoutAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := newFeeds()
		o.set(2, true)
		h := &heard{t: t}
		began := time.Now()
		_, _, err := f.Follow(t.Context(), f.Topic("t", "p", "", true), h)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(began), openWait)
		o.set(2, false)
		time.Sleep(2 * latest)
		require.Equal(t, [][]string{{"reset"}}, h.take())
		f.Stop()
		_, _, err = f.Follow(t.Context(), f.Topic("t", "p", "", true), h)
		require.Error(t, err)
		synctest.Wait()
	})
}

// TestTopicsOfOthers: no name that comes from outside is a topic of lists, and no two readers share one.
func TestTopicsOfOthers(t *testing.T) {
	f, _ := newFeeds()
	defer f.Stop()
	g, _ := newFeeds()
	defer g.Stop()
	_, _, err := f.Follow(t.Context(), g.Topic("t", "p", "", true), &heard{t: t})
	require.ErrorContains(t, err, "conversation")
	seen := map[string]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"a/b", "", "c"}, {"a", "b/c", ""}, {"a%2Fb", "", "c"}, {"", "a/b", "c"}} {
		for _, all := range []bool{true, false} {
			topic := f.Topic(parts[0], parts[1], parts[2], all)
			require.False(t, seen[topic], topic)
			seen[topic] = true
		}
	}
}
