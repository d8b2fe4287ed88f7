package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func both(t *testing.T, test func(t *testing.T, e *edge)) {
	t.Helper()
	t.Run("loops", func(t *testing.T) { test(t, newEdge(t, testConfig())) })
	t.Run("own_goroutines", func(t *testing.T) {
		e := newEdge(t, testConfig())
		e.wrap = func(c net.Conn) net.Conn { return hidden{c} }
		test(t, e)
	})
}

func TestReplayThenLive(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		for i := range 200 { // more than the ring and a page
			e.upstream.publish("c", updated(fmt.Sprint(i)))
		}
		c := e.follow("c", 3)
		require.Equal(t, "text/event-stream", c.header.Get("Content-Type"))
		require.Equal(t, "no-cache", c.header.Get("Cache-Control"))
		require.Equal(t, "no", c.header.Get("X-Accel-Buffering"))
		require.Equal(t, "1", c.header.Get("X-Test"))
		for seq := uint64(4); seq <= 200; seq++ {
			c.expect(t, "updated", fmt.Sprint(seq-1), seq)
		}
		e.upstream.publish("c", updated("live"))
		c.expect(t, "updated", "live", 201)
		// A second client within the ring does not read the log again.
		reads := e.upstream.reads
		late := e.follow("c", 200)
		late.expect(t, "updated", "live", 201)
		require.Equal(t, reads, e.upstream.reads)
		require.Equal(t, 1, e.upstream.followers("c"))
	})
}

func TestSnapshotComesFirstThenReplayThenMissedText(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	e.upstream.publish("c", updated("a"), updated("b"))
	e.upstream.startRun("c", "r1")
	e.upstream.say("c", "Hello")
	c := e.follow("c", 0)
	c.expect(t, "snapshot", "r1|0|Hello", 0)
	c.expect(t, "updated", "a", 1)
	c.expect(t, "updated", "b", 2)
	e.upstream.say("c", ", world")
	c.expect(t, "delta", "r1|5|, world", 0)
	e.upstream.publish("c", answered("r1", "Hello, world")...)
	c.expect(t, "answer", "r1|Hello, world", 3)
	c.expect(t, "event", "r1", 4)
	e.upstream.startRun("c", "r2")
	e.upstream.say("c", "x")
	c.expect(t, "delta", "r2|0|x", 0)
	late := e.follow("c", 4)
	late.expect(t, "snapshot", "r2|0|x", 0)
}

func TestRunThatBeginsAgainIsSaidAnew(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	c := e.follow("c", 0)
	e.upstream.startRun("c", "r")
	e.upstream.say("c", "first try")
	c.expect(t, "delta", "r|0|first try", 0)
	e.upstream.startRun("c", "r")
	c.expect(t, "snapshot", "r|0|", 0)
	e.upstream.say("c", "second")
	c.expect(t, "delta", "r|0|second", 0)
}

func TestLostSubscriptionContinuesWhereItWas(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	c := e.follow("c", 0)
	e.upstream.publish("c", updated("1"))
	c.expect(t, "updated", "1", 1)
	e.upstream.startRun("c", "r")
	e.upstream.say("c", "abc")
	c.expect(t, "delta", "r|0|abc", 0)
	var refuse atomic.Bool
	refuse.Store(true)
	e.upstream.follow = func() error {
		if refuse.Load() {
			return errors.New("no owner")
		}
		return nil
	}
	e.upstream.cut("c", false)
	e.upstream.publish("c", updated("2"), updated("3"))
	e.upstream.say("c", "def")
	refuse.Store(false)
	c.expect(t, "updated", "2", 2)
	c.expect(t, "updated", "3", 3)
	c.expect(t, "delta", "r|3|def", 0) // the same text goes on: no snapshot
	e.upstream.publish("c", updated("4"))
	c.expect(t, "updated", "4", 4)
	require.InDelta(t, 1, reading(e.hub.metrics.resyncs), 0)
}

// TestNewOwner: the owner is gone, and what the next one knows of the running text differs from what was streamed.
func TestNewOwner(t *testing.T) {
	cases := map[string]struct {
		text   string // of the new owner's snapshot
		expect []string
	}{
		"nothing_yet":   {"", []string{"snapshot r|0|", "delta r|0|!"}},
		"the_same":      {"abc", []string{"delta r|3|!"}},
		"less":          {"ab", []string{"snapshot r|0|ab", "delta r|2|!"}},
		"more":          {"abcd", []string{"delta r|3|d", "delta r|4|!"}},
		"something_new": {"xyz", []string{"snapshot r|0|xyz", "delta r|3|!"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, testConfig())
			e.upstream.create("c")
			e.upstream.publish("c", updated("1"))
			client := e.follow("c", 0)
			client.expect(t, "updated", "1", 1)
			e.upstream.startRun("c", "r")
			e.upstream.say("c", "abc")
			client.expect(t, "delta", "r|0|abc", 0)
			var owned atomic.Bool
			e.upstream.mu.Lock()
			e.upstream.follow = func() error {
				if !owned.Load() {
					return errors.New("no owner")
				}
				return nil
			}
			e.upstream.mu.Unlock()
			e.upstream.cut("c", false)
			e.upstream.mu.Lock()
			log := e.upstream.logs["c"]
			log.epoch += 3
			log.text = c.text
			recovered := &conversationpb.Event{Seq: 2, RunId: "r", Body: &conversationpb.Event_TurnRecovered{}}
			log.events = append(log.events, recovered)
			e.upstream.mu.Unlock()
			owned.Store(true)
			stored, err := client.next()
			require.NoError(t, err)
			require.EqualValues(t, 2, stored.id, "what is stored comes first, and once")
			for _, want := range c.expect {
				kind, data, _ := strings.Cut(want, " ")
				if data == "r|"+strconv.Itoa(len(c.text))+"|!" {
					e.upstream.say("c", "!")
				}
				client.expect(t, kind, data, 0)
			}
			require.InDelta(t, 1, reading(e.hub.metrics.resyncs), 0)
		})
	}
}

// TestNewStreamsDoNotHangWithoutAnOwner: a conversation that is being followed anew keeps its streams for a while, but
// newcomers are told soon.
func TestNewStreamsDoNotHangWithoutAnOwner(t *testing.T) {
	cfg := testConfig()
	cfg.AcquireTimeout, cfg.GiveUp = 50*time.Millisecond, time.Minute
	e := newEdge(t, cfg)
	e.upstream.create("c")
	e.follow("c", 0)
	e.upstream.mu.Lock()
	e.upstream.follow = func() error { return errors.New("no owner") }
	e.upstream.mu.Unlock()
	e.upstream.cut("c", false)
	require.Eventually(t, func() bool { return reading(e.hub.metrics.resyncs) == 1 }, 30*time.Second, time.Millisecond)
	_, err := e.hub.Acquire(t.Context(), "c")
	var failure *machine.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
}

// early tells the sink of a change before its subscription is answered.
type early struct {
	*fakeUpstream
	once sync.Once
}

func (u *early) Follow(ctx context.Context, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	snapshot, cancel, err := u.fakeUpstream.Follow(ctx, id, sink)
	u.once.Do(func() {
		u.publish(id, updated("early"))
		u.startRun(id, "r")
		u.say(id, "text")
	})
	return snapshot, cancel, err
}

func TestChangesBeforeTheSnapshotAreHeldBack(t *testing.T) {
	e := newEdge(t, testConfig())
	e.hub.upstream = &early{fakeUpstream: e.upstream}
	e.upstream.create("c")
	lease, err := e.hub.Acquire(t.Context(), "c")
	require.NoError(t, err)
	defer lease.Release()
	require.Eventually(t, func() bool { // what was held back is applied right after the snapshot
		lease.topic.mu.Lock()
		defer lease.topic.mu.Unlock()
		return string(lease.topic.run.Text) == "text"
	}, 30*time.Second, time.Millisecond)
	c := e.follow("c", 0)
	c.expect(t, "snapshot", "r|0|text", 0)
	c.expect(t, "updated", "early", 1)
	require.Zero(t, reading(e.hub.metrics.resyncs))
	require.Zero(t, e.upstream.reads)
}

// TestFollowedBeforeItIsMade: the first stream of a conversation may be there before it, and nothing is read back.
func TestFollowedBeforeItIsMade(t *testing.T) {
	e := newEdge(t, testConfig())
	_, err := e.hub.Acquire(t.Context(), "new")
	var failure *machine.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, failurepb.Code_NOT_FOUND, failure.Code)
	lease, err := e.hub.Acquire(expected.Context(t.Context()), "new")
	require.NoError(t, err)
	defer lease.Release()
	e.upstream.publish("new", updated("first"))
	e.upstream.startRun("new", "r")
	c := e.follow("new", 0)
	c.expect(t, "snapshot", "r|0|", 0)
	c.expect(t, "updated", "first", 1)
	require.Zero(t, e.upstream.reads)
}

func TestGapUpstreamIsHealed(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	c := e.follow("c", 0)
	e.upstream.publish("c", updated("1"))
	c.expect(t, "updated", "1", 1)
	e.upstream.mu.Lock() // two events that nobody is told of
	log := e.upstream.logs["c"]
	for _, title := range []string{"2", "3"} {
		event := updated(title)
		event.Seq = uint64(len(log.events) + 1)
		log.events = append(log.events, event)
	}
	e.upstream.mu.Unlock()
	e.upstream.publish("c", updated("4"))
	for seq := uint64(2); seq <= 4; seq++ {
		c.expect(t, "updated", fmt.Sprint(seq), seq)
	}
}

func TestCursorBeyondTheLogFollowsFromItsEnd(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	e.upstream.publish("c", updated("1"))
	c := e.follow("c", 1000)
	require.Eventually(t, func() bool { // it has been checked
		e.upstream.mu.Lock()
		defer e.upstream.mu.Unlock()
		return e.upstream.reads > 0
	}, 30*time.Second, time.Millisecond)
	e.upstream.publish("c", updated("2"))
	c.expect(t, "updated", "2", 2)
}

// TestEventsThatAreNotPublicAreSteppedOver: no page of the log has them, and nobody waits for them.
func TestEventsThatAreNotPublicAreSteppedOver(t *testing.T) {
	held := func() *conversationpb.Event {
		return &conversationpb.Event{Body: &conversationpb.Event_Held{Held: &conversationpb.Held{RunId: "run_1"}}}
	}
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		e.upstream.publish("c", updated("1"), held(), updated("3"), held(), held())
		all, rest, end := e.follow("c", 0), e.follow("c", 3), e.follow("c", 5)
		all.expect(t, "updated", "1", 1)
		all.expect(t, "updated", "3", 3)
		require.Eventually(t, func() bool { return e.live("c") == 3 }, 30*time.Second, time.Millisecond, "looked for in vain")
		e.upstream.publish("c", held(), updated("7"))
		for _, c := range []*client{all, rest, end} {
			c.expect(t, "updated", "7", 7)
		}
		e.upstream.cut("c", false) // what comes next is known from the log first
		e.upstream.publish("c", updated("8"), held())
		e.upstream.publish("c", updated("10"))
		for _, c := range []*client{all, rest, end} {
			c.expect(t, "updated", "8", 8)
			c.expect(t, "updated", "10", 10)
		}
	})
}

func TestCursorAheadOfTheTopicIsNotClamped(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	first := e.follow("c", 0)
	// Event 1 is in the log, and another node has shown it to a client, before this node hears of it.
	e.upstream.mu.Lock()
	log := e.upstream.logs["c"]
	event := updated("1")
	event.Seq = 1
	log.events = append(log.events, event)
	e.upstream.mu.Unlock()
	ahead := e.follow("c", 1)
	require.Eventually(t, func() bool {
		e.upstream.mu.Lock()
		defer e.upstream.mu.Unlock()
		return e.upstream.reads > 0
	}, 30*time.Second, time.Millisecond)
	e.upstream.publish("c", updated("2")) // a gap for the topic, which heals it
	first.expect(t, "updated", "1", 1)
	first.expect(t, "updated", "2", 2)
	ahead.expect(t, "updated", "2", 2)
}

func TestDeletedConversationEndsItsStreams(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		c := e.follow("c", 0)
		e.upstream.cut("c", true)
		c.expect(t, "parting", fmt.Sprint(int(Deleted)), 0)
		_, err := c.next()
		require.ErrorIs(t, err, io.EOF)
		_, err = e.hub.Acquire(t.Context(), "c")
		var failure *machine.Failure
		require.ErrorAs(t, err, &failure)
		require.Equal(t, failurepb.Code_NOT_FOUND, failure.Code)
	})
}

func TestConversationThatCannotBeFollowedIsGivenUp(t *testing.T) {
	cfg := testConfig()
	cfg.GiveUp = 30 * time.Millisecond
	e := newEdge(t, cfg)
	e.upstream.create("c")
	c := e.follow("c", 0)
	e.upstream.mu.Lock()
	e.upstream.follow = func() error { return errors.New("no owner") }
	e.upstream.mu.Unlock()
	e.upstream.cut("c", false)
	c.expect(t, "parting", fmt.Sprint(int(Lost)), 0)
	_, err := c.next()
	require.ErrorIs(t, err, io.EOF)
}

func TestReadErrorsAreRetriedThenGivenUp(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	for range 100 {
		e.upstream.publish("c", updated("x"))
	}
	var failures atomic.Int32
	failures.Store(3)
	e.upstream.readError = func() error {
		if failures.Add(-1) >= 0 {
			return errors.New("disk")
		}
		return nil
	}
	c := e.follow("c", 0)
	for seq := uint64(1); seq <= 100; seq++ {
		c.expect(t, "updated", "x", seq)
	}
	failures.Store(1000)
	lost := e.follow("c", 0)
	lost.expect(t, "parting", fmt.Sprint(int(Lost)), 0)
}

func TestDepartureIsNoticedWithoutAWrite(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		c := e.follow("c", 0)
		require.InDelta(t, 1, reading(e.hub.metrics.streams), 0)
		c.close()
		require.Eventually(t, func() bool {
			return reading(e.hub.metrics.ended[endClient]) == 1
		}, 30*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { // and the topic goes after its linger
			return e.upstream.followers("c") == 0 && reading(e.hub.metrics.topics) == 0
		}, 30*time.Second, time.Millisecond)
	})
}

func TestSlowReaderIsCutOffAndOthersAreNot(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		slow := e.follow("c", 0)
		slow.readBuffer(t, 4<<10)
		good := e.follow("c", 0)
		payload := strings.Repeat("x", 8<<10)
		seq := uint64(0)
		require.Eventually(t, func() bool {
			for range 20 {
				seq++
				e.upstream.publish("c", updated(payload))
				good.expect(t, "updated", payload, seq)
			}
			return reading(e.hub.metrics.ended[endOverflow]) == 1
		}, 30*time.Second, time.Millisecond)
		t.Logf("cut off after %d events", seq)
		e.upstream.publish("c", updated("on"))
		good.expect(t, "updated", "on", seq+1)
		// What the slow one got has no hole; it comes back with its last id and misses nothing.
		slow.readBuffer(t, 1<<20)
		last := uint64(0)
		for {
			f, err := slow.next()
			if err != nil {
				break
			}
			require.Equal(t, last+1, f.id)
			last = f.id
		}
		again := e.follow("c", last)
		for s := last + 1; s <= seq; s++ {
			again.expect(t, "updated", payload, s)
		}
		again.expect(t, "updated", "on", seq+1)
	})
}

func TestLaggingClientGetsTextInOnePiece(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	c := e.follow("c", 0)
	e.upstream.startRun("c", "r")
	piece := strings.Repeat("y", 5000)
	const pieces = 1000 // 5 MB, more than buffers and queue
	for range pieces {
		e.upstream.say("c", piece)
	}
	got, frames := 0, 0
	for got < pieces*len(piece) {
		f, err := c.next()
		require.NoError(t, err)
		parts := strings.SplitN(f.data, "|", 3)
		require.Equal(t, fmt.Sprint(got), parts[1])
		got += len(parts[2])
		frames++
	}
	require.Less(t, frames, pieces/2)
	require.Zero(t, reading(e.hub.metrics.ended[endOverflow]))
}

// TestFramesLargerThanTheQueue: no client is cut off because of the size of what it is told.
func TestFramesLargerThanTheQueue(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		large := strings.Repeat("l", 3*DefaultConfig().QueueBytes)
		e.upstream.create("c")
		e.upstream.publish("c", updated(large), updated(large))
		e.upstream.startRun("c", "r")
		e.upstream.say("c", large)
		c := e.follow("c", 0) // the snapshot follows right on the opening
		c.expect(t, "snapshot", "r|0|"+large, 0)
		c.expect(t, "updated", large, 1)
		c.expect(t, "updated", large, 2)
		for seq := uint64(3); seq < 50; seq += 2 { // live, with more in the same commit
			e.upstream.publish("c", updated(large), updated("more"))
			c.expect(t, "updated", large, seq)
			c.expect(t, "updated", "more", seq+1)
		}
		require.Zero(t, reading(e.hub.metrics.ended[endOverflow]))
	})
}

func TestSlowCatchUpIsPaced(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		payload := strings.Repeat("z", 10<<10)
		const events = 2000 // 20 MB of history
		for range events {
			e.upstream.publish("c", updated(payload))
		}
		c := e.follow("c", 0)
		for seq := uint64(1); seq <= events; seq++ {
			c.expect(t, "updated", payload, seq)
		}
		e.upstream.publish("c", updated("live"))
		c.expect(t, "updated", "live", events+1)
	})
}

func TestStalledClientIsCutOff(t *testing.T) {
	cfg := testConfig()
	cfg.PingEvery = 50 * time.Millisecond
	cfg.StallTimeout = time.Second
	cfg.QueueBytes = 16 << 20
	cfg.QueueFrames = 1 << 20
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"loops":          func(c net.Conn) net.Conn { return c },
		"own_goroutines": func(c net.Conn) net.Conn { return hidden{c} },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, cfg)
			e.wrap = wrap
			e.upstream.create("c")
			e.follow("c", 0) // never reads
			for range 2000 {
				e.upstream.publish("c", updated(strings.Repeat("x", 4<<10)))
			}
			require.Eventually(t, func() bool {
				return reading(e.hub.metrics.streams) == 0
			}, 30*time.Second, 5*time.Millisecond)
			require.Zero(t, reading(e.hub.metrics.ended[endOverflow]))
		})
	}
}

func TestPings(t *testing.T) {
	cfg := testConfig()
	cfg.PingEvery = 150 * time.Millisecond
	began := time.Now()
	e := newEdge(t, cfg)
	e.upstream.create("c")
	c := e.follow("c", 0)
	c.pings = true
	for range 4 {
		f, err := c.next()
		require.NoError(t, err)
		require.Equal(t, "ping", f.comment)
	}
	require.Greater(t, time.Since(began), 2*cfg.PingEvery, "no more often than asked for")
}

func TestStopSaysGoodbye(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.upstream.create("c")
		e.upstream.create("d")
		clients := []*client{e.follow("c", 0), e.follow("c", 0), e.follow("d", 0)}
		lease, err := e.hub.Acquire(t.Context(), "c")
		require.NoError(t, err)
		stopped := make(chan error, 1)
		go func() { stopped <- e.hub.Stop(t.Context()) }()
		for _, c := range clients {
			c.expect(t, "parting", fmt.Sprint(int(Stopping)), 0)
			_, ended := c.next()
			require.ErrorIs(t, ended, io.EOF)
		}
		require.NoError(t, <-stopped)
		lease.Release()
		lease.Release()
		_, err = e.hub.Acquire(t.Context(), "c")
		var failure *machine.Failure
		require.ErrorAs(t, err, &failure)
		require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
	})
}

func TestStopBeforeStart(t *testing.T) {
	hub, err := New(testConfig(), newFakeUpstream(), nil, prometheus.NewRegistry())
	require.NoError(t, err)
	require.NoError(t, hub.Stop(t.Context()))
	require.NoError(t, hub.Stop(t.Context()))
	require.Error(t, hub.Start())
}

func TestStopCutsOffWhoDoesNotRead(t *testing.T) {
	cfg := testConfig()
	cfg.QueueBytes = 16 << 20
	cfg.QueueFrames = 1 << 20
	e := newEdge(t, cfg)
	e.upstream.create("c")
	e.follow("c", 0)
	for range 1000 {
		e.upstream.publish("c", updated(strings.Repeat("x", 4<<10)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = e.hub.Stop(ctx)
	require.NoError(t, e.hub.Stop(t.Context()))
	require.InDelta(t, 1, reading(e.hub.metrics.ended[endStop]), 0)
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	cfg := testConfig()
	cfg.MaxStreams = 2
	e := newEdge(t, cfg)
	e.upstream.create("c")
	first := e.follow("c", 0)
	e.follow("c", 0)
	c, err := e.dial("c", 0)
	require.NoError(t, err)
	defer c.close()
	require.Equal(t, 503, c.status)
	require.InDelta(t, 1, reading(e.hub.metrics.refused), 0)
	first.close()
	require.Eventually(t, func() bool {
		c, err := e.dial("c", 0)
		if err != nil {
			return false
		}
		defer c.close()
		return c.status == 200
	}, 30*time.Second, 5*time.Millisecond)
}

func TestConnectionThatDiedBeforeHandover(t *testing.T) {
	e := newEdge(t, testConfig())
	e.upstream.create("c")
	lease, err := e.hub.Acquire(t.Context(), "c")
	require.NoError(t, err)
	released := 0
	lease.Open(Handover{Release: func() { released++ }}, Options{View: plainView{}})
	require.Equal(t, 1, released)
}

func TestLingeringTopicIsTakenUpAgain(t *testing.T) {
	cfg := testConfig()
	cfg.Linger = time.Minute
	e := newEdge(t, cfg)
	e.upstream.create("c")
	e.follow("c", 0).close()
	require.Eventually(t, func() bool { return reading(e.hub.metrics.streams) == 0 }, 30*time.Second, time.Millisecond)
	e.upstream.publish("c", updated("1"))
	e.follow("c", 0).expect(t, "updated", "1", 1)
	require.Equal(t, 1, e.upstream.follows)
	require.Zero(t, e.upstream.reads)
}

// lastView ends its stream at the first answer.
type lastView struct{ plainView }

func (v lastView) Event(event *eventType) (Frame, bool) {
	frame, _ := v.plainView.Event(event)
	return frame, event.GetAgentMessage() != nil
}

func TestDoneEndsTheStreamCleanly(t *testing.T) {
	both(t, func(t *testing.T, e *edge) {
		t.Helper()
		e.options = func(after uint64) Options {
			return Options{After: after, Opening: Comment("open"), View: lastView{}}
		}
		e.upstream.create("c")
		c := e.follow("c", 0)
		e.upstream.publish("c", answered("r", "done")...)
		c.expect(t, "answer", "r|done", 1)
		_, err := c.next()
		require.ErrorIs(t, err, io.EOF) // the last chunk came: not an unexpected EOF
		require.Eventually(t, func() bool { return reading(e.hub.metrics.ended[endDone]) == 1 }, 30*time.Second, time.Millisecond)
	})
}

func TestConnectionGoesBackToHTTP(t *testing.T) {
	for name, lean := range map[string]bool{"as_it_came": false, "lean": true} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, testConfig())
			e.options = func(after uint64) Options {
				return Options{After: after, Opening: Comment("open"), View: lastView{}, Lean: lean}
			}
			back := make(chan net.Conn, 1)
			e.reuse = func(c net.Conn) { back <- c }
			e.upstream.create("c")
			c := e.follow("c", 0)
			_, err := io.WriteString(c.conn, "ne") // the next request does not wait for the end
			require.NoError(t, err)
			e.upstream.publish("c", answered("r", "done")...)
			c.expect(t, "answer", "r|done", 1)
			_, err = c.next()
			require.ErrorIs(t, err, io.EOF)
			var conn net.Conn
			select {
			case conn = <-back:
			case <-time.After(30 * time.Second):
				require.Fail(t, "it was closed")
			}
			defer func() { _ = conn.Close() }()
			require.Equal(t, c.conn.RemoteAddr(), conn.LocalAddr())
			_, err = io.WriteString(c.conn, "xt\n")
			require.NoError(t, err)
			line, err := readLine(conn)
			require.NoError(t, err)
			require.Equal(t, "next", line)
			_, err = io.WriteString(conn, "answer\n")
			require.NoError(t, err)
			line, err = readLine(c.conn)
			require.NoError(t, err)
			require.Equal(t, "answer", line)
		})
	}
}

func TestConfigIsValidated(t *testing.T) {
	require.NoError(t, DefaultConfig().Validate())
	_, err := New(Config{}, nil, nil, nil)
	require.ErrorContains(t, err, "ping_every")
	require.ErrorContains(t, err, "max_streams")
}
