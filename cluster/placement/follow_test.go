package placement

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func text(run string, offset uint64, piece string) *conversationpb.Change {
	return &conversationpb.Change{Epoch: 7, Delta: &conversationpb.Delta{RunId: run, Offset: offset, Text: piece}}
}

func event(seq uint64) *conversationpb.Change {
	return &conversationpb.Change{Epoch: 7, Events: []*conversationpb.Event{{Seq: seq}}}
}

func TestFollow(t *testing.T) {
	_, a, b, to := pair(t)
	sink := newSink()
	snapshot, cancel, err := a.Follow(t.Context(), to, "conv_1", sink)
	require.NoError(t, err)
	require.EqualValues(t, 1, snapshot.GetLastSeq())
	feed := b.shell.feed("conv_1")
	sent := []*conversationpb.Change{
		event(2),
		{Epoch: 7, RunStarted: &conversationpb.RunStarted{RunId: "run_1"}},
		text("run_1", 0, "hel"), text("run_1", 3, "lo"), event(3), text("run_2", 0, "x"), text("run_1", 5, "!"),
	}
	for _, change := range sent {
		feed.sink.Change(change)
	}
	// What is heard is what was said; text that continues may come in one piece.
	require.Eventually(t, func() bool { return said(sink.heard()) == said(sent) }, patience, time.Millisecond)
	require.Equal(t, "hel", sent[2].GetDelta().GetText(), "what others hear too is not touched")

	cancel()
	cancel()
	require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
	feed.sink.Change(event(4))
	idle(t, a, b)
	require.Empty(t, sink.closed)

	require.False(t, feed.expected)
	_, cancel, err = a.Follow(expected.Context(t.Context()), to, "conv_new", newSink())
	require.NoError(t, err)
	require.True(t, b.shell.feed("conv_new").expected, "the owner is told that it may still have to be made")
	cancel()

	_, _, err = a.Follow(t.Context(), to, "refused", sink)
	var r *refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, failurepb.Code_NOT_FOUND, r.code)

	// The owner ends it, after everything it said.
	_, _, err = a.Follow(t.Context(), to, "conv_2", sink)
	require.NoError(t, err)
	feed = b.shell.feed("conv_2")
	feed.sink.Change(event(2))
	feed.sink.Closed(fmt.Errorf("follow: %w", notOwned{}))
	feed.sink.Change(event(3))
	require.True(t, follow.IsNotOwner(<-sink.closed))
	require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
	require.True(t, proto.Equal(event(2), sink.heard()[len(sink.heard())-1]))
	idle(t, a, b)
}

// TestInvalidTextEndsTheFollow: text that is not UTF-8 cannot be encoded. It ends its own follow and no other.
func TestInvalidTextEndsTheFollow(t *testing.T) {
	_, a, b, to := pair(t)
	sink, other := newSink(), newSink()
	_, _, err := a.Follow(t.Context(), to, "conv_1", sink)
	require.NoError(t, err)
	_, _, err = a.Follow(t.Context(), to, "conv_2", other)
	require.NoError(t, err)
	b.shell.feed("conv_1").sink.Change(text("run_1", 0, "\xff"))
	b.shell.feed("conv_2").sink.Change(event(2))
	require.ErrorContains(t, <-sink.closed, "UTF-8")
	require.Eventually(t, func() bool { return len(other.heard()) == 1 }, patience, time.Millisecond)
}

// said is what changes say, with the text of a run in one piece.
func said(changes []*conversationpb.Change) string {
	var all strings.Builder
	run := ""
	for _, change := range changes {
		for _, e := range change.GetEvents() {
			fmt.Fprintf(&all, "\nevent %d", e.GetSeq())
			run = ""
		}
		if s := change.GetRunStarted(); s != nil {
			fmt.Fprintf(&all, "\nstarted %s", s.GetRunId())
			run = ""
		}
		if d := change.GetDelta(); d != nil {
			if d.GetRunId() != run {
				fmt.Fprintf(&all, "\n%s at %d: ", d.GetRunId(), d.GetOffset())
				run = d.GetRunId()
			}
			all.WriteString(d.GetText())
		}
	}
	return all.String()
}

// TestFollowIsCancelledWhileItBegins: nothing of it may stay behind.
func TestFollowIsCancelledWhileItBegins(t *testing.T) {
	_, a, b, to := pair(t)
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		_, stop, err := a.Follow(ctx, to, "conv_1", newSink())
		cancel()
		if err == nil {
			stop()
		}
	}
	idle(t, a, b)
	b.shell.mu.Lock()
	defer b.shell.mu.Unlock()
	for _, feed := range b.shell.follows["conv_1"] {
		require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
	}
}

func TestAFollowerThatFallsBehindIsClosed(t *testing.T) {
	for name, option := range map[string]func(*Config){
		"changes":      func(c *Config) { c.FollowChanges = 100 },
		"bytes":        func(c *Config) { c.FollowBytes = 10 << 10 },
		"bytes in all": func(c *Config) { c.NewsBytes = 10 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b, to := pair(t, option, func(c *Config) { c.NewsPause = 200 * time.Millisecond })
			sink := newSink()
			_, _, err := a.Follow(t.Context(), to, "conv_1", sink)
			require.NoError(t, err)
			feed := b.shell.feed("conv_1")
			for seq := range uint64(1000) { // faster than it is sent
				feed.sink.Change(event(2 + seq))
			}
			require.ErrorContains(t, <-sink.closed, "fell behind")
			require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
			idle(t, a, b)
			for i, change := range sink.heard() {
				require.EqualValues(t, i+2, change.GetEvents()[0].GetSeq(), "what it heard has no gap")
			}
		})
	}
}

// TestFollowBuffersAreBounded: changes that the other side has not acknowledged stay within the window.
func TestFollowBuffersAreBounded(t *testing.T) {
	_, a, b, to := pair(t, func(c *Config) { c.NewsWindow, c.NewsPause = 64<<10, time.Microsecond })
	sink := newSink()
	_, _, err := a.Follow(t.Context(), to, "conv_1", sink)
	require.NoError(t, err)
	feed := b.shell.feed("conv_1")
	link := b.links.Load().byName["a"]
	piece := strings.Repeat("x", 1000)
	for i := range uint64(2000) {
		feed.sink.Change(text(fmt.Sprint("run_", i), 0, piece))
		link.pump.mu.Lock()
		require.LessOrEqual(t, link.pump.sent-link.pump.taken, uint64(64<<10+batchBytes+1<<10))
		link.pump.mu.Unlock()
		if i%100 == 0 {
			require.Eventually(t, func() bool { return len(sink.heard()) == int(i)+1 }, patience, time.Millisecond)
		}
	}
	require.Eventually(t, func() bool { return len(sink.heard()) == 2000 }, patience, time.Millisecond)
}

// TestManyFollows has many conversations followed, which must cost a node pair no more messages than one.
func TestManyFollows(t *testing.T) {
	_, a, b, to := pair(t, func(c *Config) { c.Silence = patience }) // this machine may be busy
	const many, rounds = 2000, 20
	var heard, closed atomic.Int64
	for i := range many {
		_, _, err := a.Follow(t.Context(), to, fmt.Sprint("conv_", i), counting{&heard, &closed})
		require.NoError(t, err)
	}
	start := time.Now()
	for seq := range uint64(rounds) {
		for i := range many {
			b.shell.feed(fmt.Sprint("conv_", i)).sink.Change(event(seq))
		}
	}
	require.Eventually(t, func() bool { return heard.Load() == many*rounds }, patience, time.Millisecond)
	require.Zero(t, closed.Load())
	t.Logf("%d changes of %d conversations in %v, %v batches", many*rounds, many, time.Since(start), valueOf(b.metrics.batches))
	require.Less(t, valueOf(b.metrics.batches), 2000.0)
}

type counting struct {
	heard, closed *atomic.Int64
}

func (c counting) Change(*conversationpb.Change) { c.heard.Add(1) }
func (c counting) Closed(error)                  { c.closed.Add(1) }

// TestGapEndsTheFollow: a gap in the numbers ends the follow.
func TestGapEndsTheFollow(t *testing.T) {
	_, a, b, to := pair(t)
	sink := newSink()
	_, _, err := a.Follow(t.Context(), to, "conv_1", sink)
	require.NoError(t, err)
	feed := b.shell.feed("conv_1")
	feed.sink.Change(event(2))
	require.Eventually(t, func() bool { return len(sink.heard()) == 1 }, patience, time.Millisecond)
	p, ok := feed.sink.(*publication)
	require.True(t, ok)
	p.mu.Lock()
	p.number++
	p.mu.Unlock()
	feed.sink.Change(event(4))
	require.True(t, follow.IsLost(<-sink.closed))
	require.Eventually(t, feed.canceled.Load, patience, time.Millisecond)
	require.Len(t, sink.heard(), 1)
	idle(t, a, b)
}
