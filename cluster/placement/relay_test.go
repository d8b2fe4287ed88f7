package placement

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cluster/peer/peertest"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// triangle is three nodes, a to c, on a network that can be cut. b owns shard 1.
type triangle struct {
	*world
	network *peertest.Network
	nodes   map[string]*node
	a, b, c *node
	to      cluster.Owner
}

func newTriangle(t *testing.T) *triangle {
	t.Helper()
	f := &triangle{world: newWorld(t), network: peertest.NewNetwork(), nodes: map[string]*node{}}
	t.Cleanup(f.network.Close)
	for _, name := range []string{"a", "b", "c"} {
		address := peertest.Address()
		f.network.Register(name, address)
		f.nodes[name] = f.startAt(name, address, func(c *Config) {
			c.Dial, c.Beat, c.Silence = f.network.Dialer(name), 50*time.Millisecond, 200*time.Millisecond
		})
	}
	f.a, f.b, f.c = f.nodes["a"], f.nodes["b"], f.nodes["c"]
	f.reached()
	f.to = f.own(1, "b", 7)
	return f
}

// reached waits until every node reaches the others, besides those given.
func (f *triangle) reached(but ...string) {
	f.t.Helper()
	want := map[string]int{}
	for _, name := range but {
		want[name] = len(but) - 1
	}
	require.Eventually(f.t, func() bool {
		for name, n := range f.nodes {
			if len(n.Unreached(0)) != want[name] {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}

// cut takes away the way between a and b.
func (f *triangle) cut() {
	f.t.Helper()
	f.network.Isolate("a", "b")
	f.reached("a", "b")
	require.Equal(f.t, []string{"b"}, f.a.Unreached(0))
	require.Equal(f.t, []string{"a"}, f.b.Unreached(0))
	require.Empty(f.t, f.a.Unreached(time.Hour), "not for that long")
}

func counted(t *testing.T, counter prometheus.Counter) int {
	t.Helper()
	var read dto.Metric
	require.NoError(t, counter.Write(&read))
	return int(read.GetCounter().GetValue())
}

// TestUnreachableNodeIsAskedThroughAnother: with the same answers, and one that says nothing is lost.
func TestUnreachableNodeIsAskedThroughAnother(t *testing.T) {
	f := newTriangle(t)
	f.cut()
	ctx := t.Context()
	reply, err := f.a.Ask(ctx, f.to, "conv_1", command("x"))
	require.NoError(t, err)
	require.True(t, proto.Equal(&conversationpb.Command{ConversationId: "conv_1", CommandId: "x"}, reply), "%v", reply)
	reply, err = f.a.Read(ctx, f.to, &nodepb.StateQuery{Id: "conv_1"})
	require.NoError(t, err)
	require.True(t, proto.Equal(&nodepb.StateReply{State: &conversationpb.State{Id: "conv_1", LastSeq: 1}}, reply), "%v", reply)
	reply, err = f.a.Call(ctx, "b", &nodepb.SetNodeState{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&nodepb.SetNodeState{Name: "c"}, reply), "%v", reply)
	var refused *refusal
	_, err = f.a.Ask(ctx, f.to, "conv_1", command("refuse"))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, failurepb.Code_CONVERSATION_BUSY, refused.code)
	f.own(1, "c", 8)
	_, err = f.a.Ask(ctx, f.to, "conv_1", command("not owner"))
	var notOwner *notOwnerError
	require.ErrorAs(t, err, &notOwner)
	require.Equal(t, "c", notOwner.Owner(), "as b says, not who passed it on")
	require.EqualValues(t, 3, f.b.shell.asked.Load(), "once each")
	require.Zero(t, f.c.shell.asked.Load())
	require.Equal(t, 5, counted(t, f.a.metrics.relayed))
	require.Equal(t, 5, counted(t, f.c.metrics.passedOn))

	// Nobody waits any more: that is passed on too.
	bounded, cancel := context.WithCancel(ctx)
	go func() {
		_, given := f.a.Ask(bounded, f.to, "conv_1", command("block"))
		f.b.shell.ended <- fmt.Sprint("a: ", given)
	}()
	require.Eventually(t, func() bool { return f.b.shell.asked.Load() == 4 }, patience, time.Millisecond)
	cancel()
	require.ElementsMatch(t, []string{"context canceled", "a: wait for node c: context canceled"},
		[]string{<-f.b.shell.ended, <-f.b.shell.ended})
	bounded, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = f.a.Ask(bounded, f.to, "conv_1", command("block"))
	require.Error(t, err)
	require.Contains(t, <-f.b.shell.ended, "context")

	f.network.Heal()
	f.reached()
	before := counted(t, f.a.metrics.relayed)
	_, err = f.a.Ask(ctx, f.to, "conv_1", command("x"))
	require.NoError(t, err)
	require.Equal(t, before, counted(t, f.a.metrics.relayed))
	idle(t, f.a, f.b, f.c)
}

// TestRelayedCallIsLost: the caller learns that its call is lost, but not for how long the owner has been silent.
func TestRelayedCallIsLost(t *testing.T) {
	f := newTriangle(t)
	f.cut()
	lost := make(chan error, 1)
	go func() {
		_, err := f.a.Ask(t.Context(), f.to, "conv_1", command("block"))
		lost <- err
	}()
	require.Eventually(t, func() bool { return f.b.shell.asked.Load() == 1 }, patience, time.Millisecond)
	f.network.Isolate("b", "c")
	var gone *lostError
	require.ErrorAs(t, <-lost, &gone)
	require.Equal(t, time.Duration(math.MaxInt64), gone.Silent())

	// Nobody reaches b now: nothing was done, and that is said at once.
	require.Eventually(t, func() bool { return len(f.c.Unreached(0)) == 1 }, patience, time.Millisecond)
	start := time.Now()
	_, err := f.a.Ask(t.Context(), f.to, "conv_1", command("x"))
	require.True(t, follow.IsNotOwner(err), "%v", err)
	require.ErrorContains(t, err, "node b was not asked")
	require.Less(t, time.Since(start), patience/2)
	l := f.a.links.Load().byName["b"]
	require.True(t, l.unrelayable(), "the next ones do not ask c, for a moment")
	require.Eventually(t, func() bool { return !l.unrelayable() }, patience, time.Millisecond)
	_, _, err = f.a.Follow(t.Context(), f.to, "conv_1", newSink())
	require.True(t, follow.IsNotOwner(err), "%v", err)
	require.Zero(t, f.a.shell.asked.Load(), "it does not come back to who asked")
	require.EqualValues(t, 1, f.b.shell.asked.Load())
	<-f.b.shell.ended
	idle(t, f.a, f.b, f.c)
}

// TestRelayedFollow: everything in order, until either side ends it, or the way does.
func TestRelayedFollow(t *testing.T) {
	f := newTriangle(t)
	f.cut()
	sink := newSink()
	snapshot, cancel, err := f.a.Follow(expected.Context(t.Context()), f.to, "conv_1", sink)
	require.NoError(t, err)
	require.EqualValues(t, 1, snapshot.GetLastSeq())
	feed := f.b.shell.feed("conv_1")
	require.True(t, feed.expected)
	var sent []*conversationpb.Change
	for i := range uint64(500) {
		sent = append(sent, event(2+i), text("run_1", 2*i, "ab"))
		feed.sink.Change(sent[len(sent)-2])
		feed.sink.Change(sent[len(sent)-1])
	}
	require.Eventually(t, func() bool { return said(sink.heard()) == said(sent) }, patience, time.Millisecond)
	cancel()
	require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
	idle(t, f.a, f.b, f.c)

	var refused *refusal
	_, _, err = f.a.Follow(t.Context(), f.to, "refused", sink)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, failurepb.Code_NOT_FOUND, refused.code)

	for name, end := range map[string]func(feed *feedOf){
		"the owner says so":  func(feed *feedOf) { feed.sink.Closed(fmt.Errorf("follow: %w", notOwned{})) },
		"the owner is lost":  func(*feedOf) { f.network.Isolate("b", "c") },
		"who passes is lost": func(*feedOf) { f.network.Isolate("a", "c") },
	} {
		_, _, err = f.a.Follow(t.Context(), f.to, "conv_2", sink)
		require.NoError(t, err, name)
		feed := f.b.shell.feed("conv_2")
		end(feed)
		require.Error(t, <-sink.closed, name)
		require.Eventually(t, feed.canceled.Load, patience, time.Millisecond, name)
		f.network.Heal()
		f.reached()
		sink = newSink()
		f.cut()
	}
	idle(t, f.a, f.b, f.c)
}

// TestOlderNodesAreNotRelays: a node of a release that would take a relayed call for its own is not asked to relay.
func TestOlderNodesAreNotRelays(t *testing.T) {
	f := newTriangle(t)
	require.Len(t, f.a.relays("b"), 1)
	l := f.a.links.Load().byName["c"]
	require.Eventually(t, func() bool {
		l.beaten(&nodepb.Beat{Cluster: "c1", Wire: wirePasses - 1})
		return len(f.a.relays("b")) == 0 // until c says again what it speaks
	}, patience, time.Millisecond)
	require.Equal(t, shard.ID(1), f.to.Shard)
}
