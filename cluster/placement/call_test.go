package placement

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cluster/peer/peertest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

func commandID(reply any) string {
	c, _ := reply.(*conversationpb.Command)
	return c.GetCommandId()
}

func TestCallsAreAnswered(t *testing.T) {
	w, a, b, to := pair(t)
	reply, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.NoError(t, err)
	require.True(t, proto.Equal(&conversationpb.Command{ConversationId: "conv_1", CommandId: "hello"}, reply))

	reply, err = a.Read(t.Context(), to, &nodepb.StateQuery{Id: "conv_2"})
	require.NoError(t, err)
	require.True(t, proto.Equal(&nodepb.StateReply{State: &conversationpb.State{Id: "conv_2", LastSeq: 1}}, reply))

	reply, err = b.Call(t.Context(), "a", &nodepb.SetNodeState{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&nodepb.SetNodeState{Name: "b"}, reply))

	_, err = a.Ask(t.Context(), to, "conv_1", command("refuse"))
	var r *refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, failurepb.Code_CONVERSATION_BUSY, r.code)

	_, err = a.Ask(t.Context(), to, "conv_1", command("garble"))
	require.EqualError(t, err, "?")

	// "Not the owner" brings along who is, if that is another node under no older epoch.
	for _, row := range []struct {
		owner string
		epoch uint64
		want  cluster.Owner
	}{
		{"c", 9, cluster.Owner{Node: "c", Epoch: 9}},
		{"c", 4, cluster.Owner{Epoch: 5}},
		{"b", 9, cluster.Owner{Epoch: 5}},
	} {
		w.own(1, row.owner, shardEpoch(row.epoch))
		_, err = a.Ask(t.Context(), to, "conv_1", command("not owner"))
		var notOwner *notOwnerError
		require.ErrorAs(t, err, &notOwner)
		in, epoch := notOwner.NotOwner()
		require.EqualValues(t, 1, in)
		require.Equal(t, row.want, cluster.Owner{Node: notOwner.Owner(), Epoch: shardEpoch(epoch)})
	}

	_, err = a.Ask(t.Context(), to, "conv_1", command("big"))
	require.ErrorContains(t, err, "too large")
	_, err = a.Ask(t.Context(), to, "conv_1", &conversationpb.Command{CommandId: string(make([]byte, 17<<20))})
	require.ErrorContains(t, err, "too large")
	_, err = a.Ask(t.Context(), to, "conv_1", command("still there"))
	require.NoError(t, err)
}

func TestEngineRequest(t *testing.T) {
	w, a, b, _ := pair(t)
	id := w.shards.MintIn("conv", 1, &[24]byte{})
	reply, err := a.engine.cluster.Request(id, kind, command("hello"))
	require.NoError(t, err)
	require.IsType(t, &conversationpb.Command{}, reply)
	require.Equal(t, "hello", commandID(reply))
	_, err = b.engine.cluster.Request(id, kind, command("at home"))
	require.NoError(t, err)
	require.EqualValues(t, 2, b.shell.asked.Load())
	require.Equal(t, "s1", a.engine.cluster.Get(id, kind).GetId())
	require.Equal(t, b.engine.actors.Address(), b.engine.cluster.Get(id, kind).GetAddress())
	require.Nil(t, a.engine.cluster.Get("nonsense", kind))
	_, err = a.engine.cluster.Request("nonsense", kind, command("x"))
	require.Error(t, err)
	_, err = a.engine.cluster.RequestFuture(id, kind, command("x"))
	require.Error(t, err)
}

func TestAbandonedCallIsCancelled(t *testing.T) {
	_, a, b, to := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for b.shell.asked.Load() == 0 {
			runtime.Gosched()
		}
		cancel()
	}()
	_, err := a.Ask(ctx, to, "conv_1", command("block"))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "context canceled", <-b.shell.ended)

	// A deadline goes along.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = a.Ask(ctx, to, "conv_1", command("block"))
	require.Error(t, err)
	require.Contains(t, <-b.shell.ended, "context")
	idle(t, a, b)
}

// idle waits until nothing is left of calls and follows.
func idle(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		for _, l := range n.links.Load().byName {
			require.Eventually(t, func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				st := &l.state
				return len(st.calls)+len(st.follows)+len(st.served)+len(st.publications) == 0 && l.pump.waiting.Load() == 0
			}, patience, time.Millisecond)
			if on := l.connected(); on != nil {
				require.Eventually(t, func() bool { return on.queued.Load() == 0 }, patience, time.Millisecond)
			}
		}
	}
}

func TestCallsAreLostWithTheConnection(t *testing.T) {
	for name, victim := range map[string]func(a, b *node) string{
		"to the owner":   func(_, b *node) string { return b.member.Address },
		"from the owner": func(a, _ *node) string { return a.member.Address },
	} {
		t.Run(name, func(t *testing.T) {
			w, a, b, to := pair(t, func(c *Config) { c.Silence = patience }) // longer than a lost connection needs to be noticed
			failed := make(chan error, 1)
			go func() {
				_, err := a.Ask(t.Context(), to, "conv_1", command("block"))
				failed <- err
			}()
			require.Eventually(t, func() bool { return b.shell.asked.Load() == 1 }, patience, time.Millisecond)
			start := time.Now()
			require.Positive(t, w.wires.drop(victim(a, b)))
			require.True(t, follow.IsLost(<-failed))
			t.Logf("told after %v", time.Since(start))
			require.Less(t, time.Since(start), patience/2)
			require.Equal(t, "context canceled", <-b.shell.ended, "and it is not served on")

			// The link comes back by itself.
			linked(t, a.System, "b")
			_, err := a.Ask(t.Context(), to, "conv_1", command("again"))
			require.NoError(t, err)
			t.Logf("back after %v", time.Since(start))
			idle(t, a, b)
		})
	}
}

// TestOneWayPartition: both sides find out, though one of them still hears the other.
func TestOneWayPartition(t *testing.T) {
	w, a, b, to := pair(t, func(c *Config) { c.Beat, c.Silence = 200*time.Millisecond, 800*time.Millisecond })
	w.own(2, "a", 1)
	failed, sink := hang(t, a, b, to)
	back, backSink := hang(t, b, a, cluster.Owner{Node: "a", Shard: 2})
	start := time.Now()
	w.wires.deafen(b.member.Address, true)
	for _, err := range []error{<-failed, <-sink.closed, <-back, <-backSink.closed} {
		require.True(t, follow.IsLost(err), "%v", err)
	}
	t.Logf("both are told after %v", time.Since(start))
	require.Less(t, time.Since(start), patience/2)
	_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.True(t, follow.IsNotOwner(err) || follow.IsLost(err), "%v", err)

	w.wires.deafen(b.member.Address, false)
	linked(t, a.System, "b")
	linked(t, b.System, "a")
	_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.NoError(t, err)
	idle(t, a, b)
}

func TestANodeThatCannotBeReached(t *testing.T) {
	w, a, b, to := pair(t)
	var notOwner *notOwnerError
	_, err := a.Call(t.Context(), "nobody", &nodepb.SetNodeState{})
	require.ErrorAs(t, err, &notOwner)

	w.wires.block(b.member.Address, true)
	w.wires.drop(b.member.Address)
	require.Eventually(t, func() bool { return a.links.Load().byName["b"].connected() == nil }, patience, time.Millisecond)
	start := time.Now()
	_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.ErrorAs(t, err, &notOwner, "nothing was done")
	require.Less(t, time.Since(start), patience/2)
	_, _, err = a.Follow(t.Context(), to, "conv_1", newSink())
	require.ErrorAs(t, err, &notOwner)

	w.wires.block(b.member.Address, false)
	require.Eventually(t, func() bool {
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		return err == nil
	}, patience, time.Millisecond)

	blocked := make(chan error, 1)
	go func() {
		_, err := a.Ask(t.Context(), to, "conv_1", command("block"))
		blocked <- err
	}()
	require.Eventually(t, func() bool { return b.shell.asked.Load() == 2 }, patience, time.Millisecond)
	w.leave("b")
	require.True(t, follow.IsLost(<-blocked), "who is no member any more is lost")
}

func TestRestarts(t *testing.T) {
	w, a, b, to := pair(t)
	for range 3 {
		blocked := make(chan error, 1)
		before := b.shell.asked.Load()
		go func() {
			_, err := a.Ask(t.Context(), to, "conv_1", command("block"))
			blocked <- err
		}()
		require.Eventually(t, func() bool { return b.shell.asked.Load() > before }, patience, time.Millisecond)
		w.stop(b)
		require.Error(t, <-blocked)
		start := time.Now()
		b = w.startAt("b", b.member.Address) // at once, at its old address
		require.Eventually(t, func() bool {
			_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
			return err == nil
		}, patience, time.Millisecond)
		t.Logf("served again %v after the start", time.Since(start))
	}
	// Gone and back without a restart, as after a pause that was too long.
	for range 3 {
		w.leave("b")
		require.Nil(t, a.links.Load().byName["b"])
		w.join(b.member)
		linked(t, a.System, "b")
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		require.NoError(t, err)
	}
	require.Equal(t, 2, a.engine.cluster.MemberList.Length())
}

func TestManyCallsAtATime(t *testing.T) {
	_, a, b, to := pair(t)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 50 {
				reply, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
				if err != nil || commandID(reply) != "hello" {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 64*50, b.shell.asked.Load())
	idle(t, a, b)
}

func TestTooManyCallsAreRefused(t *testing.T) {
	_, a, b, to := pair(t, func(c *Config) { c.Serving, c.MessageBytes, c.QueueBytes = 2, 1000, 1000 })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _, _ = a.Ask(ctx, to, "conv_1", command("block")) })
	}
	require.Eventually(t, func() bool { return b.shell.asked.Load() == 2 }, patience, time.Millisecond)
	_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.True(t, follow.IsNotOwner(err), "nothing was done")
	cancel()
	all.Wait()
	require.Eventually(t, func() bool {
		_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
		return err == nil
	}, patience, time.Millisecond)

	// What the engine does not get rid of is bounded too.
	on := a.links.Load().byName["b"].connected()
	on.queued.Add(smallReserve + 1000)
	_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.True(t, follow.IsNotOwner(err))
	on.queued.Add(-smallReserve - 1000)
	_, err = a.Ask(t.Context(), to, "conv_1", command("hello"))
	require.NoError(t, err)

	// An answer for which there is no room is lost at once.
	back := b.links.Load().byName["a"].connected()
	back.queued.Add(900)
	_, err = a.Ask(t.Context(), to, "conv_1", command(strings.Repeat("x", 300)))
	require.True(t, follow.IsLost(err), "%v", err)
	back.queued.Add(-900)
	_, err = a.Ask(t.Context(), to, "conv_1", command(strings.Repeat("x", 900)))
	require.NoError(t, err, "one message always has room")
}

func TestStoppingRefusesAndFinishes(t *testing.T) {
	_, a, b, to := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		_, err := a.Ask(ctx, to, "conv_1", command("block"))
		asked <- err
	}()
	require.Eventually(t, func() bool { return b.shell.asked.Load() == 1 }, patience, time.Millisecond)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		limit, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		_ = b.Stop(limit)
	}()
	require.Eventually(t, func() bool {
		_, err := a.Ask(t.Context(), to, "conv_1", command("hello"))
		return follow.IsNotOwner(err)
	}, patience, time.Millisecond, "new ones are refused")
	select {
	case <-stopped:
		require.Fail(t, "it does not wait for what it serves")
	case err := <-asked:
		require.NoError(t, err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-asked, context.Canceled)
	<-stopped
	require.NoError(t, b.Stop(t.Context()), "twice")
	require.Error(t, b.Start(t.Context()))
}

func BenchmarkForward(b *testing.B) {
	w := &world{shards: must(b), wires: newWires(), owners: nil, members: map[string]Member{}, systems: map[string]*System{}}
	nodes := map[string]*System{}
	for _, name := range []string{"a", "b"} {
		config := w.config(name, peertest.Address(), newShell())
		s, err := New(config)
		require.NoError(b, err)
		require.NoError(b, s.Start(b.Context()))
		defer func() { _ = s.Stop(context.Background()) }()
		nodes[name] = s
		w.systems[name] = s
		w.join(Member{Name: name, Boot: config.Boot, Address: config.Listen})
	}
	require.Eventually(b, func() bool {
		l := nodes["a"].links.Load().byName["b"]
		return l != nil && l.connected() != nil
	}, patience, time.Millisecond)
	for b.Loop() {
		if _, err := nodes["a"].Ask(b.Context(), cluster.Owner{Node: "b", Shard: 1}, "conv_1", command("hello")); err != nil {
			b.Fatal(err)
		}
	}
}
