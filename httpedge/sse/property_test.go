package sse

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/proto/conversationpb"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the fan-out property test; 0 = random")
	chaosFlag  = flag.Duration("chaos", 2*time.Second, "how long the fan-out property test publishes")
	followFlag = flag.Int("followers", 60, "clients of the fan-out property test")
)

// said is the text of one attempt at a run: each differs from every other at every byte that matters.
func said(run string, attempt, size int) string {
	word := fmt.Sprintf("%s#%d ", run, attempt)
	return strings.Repeat(word, size/len(word)+1)[:size]
}

// checker is what a client believes, and what it must not be told.
type checker struct {
	cursor uint64
	run    string
	text   string
	events int
	deltas int
}

func (c *checker) see(f frame) error {
	switch f.event {
	case "":
		return nil
	case "snapshot", "delta":
		c.deltas++
		parts := strings.SplitN(f.data, "|", 3)
		if f.event == "snapshot" {
			c.run, c.text = parts[0], parts[2]
			return c.oneSaying()
		}
		if parts[0] != c.run {
			c.run, c.text = parts[0], ""
		}
		if parts[1] != fmt.Sprint(len(c.text)) {
			return fmt.Errorf("delta of %s at %s, client holds %d bytes", c.run, parts[1], len(c.text))
		}
		c.text += parts[2]
		return c.oneSaying()
	case "parting":
		return nil
	}
	c.events++
	if f.id != c.cursor+1 {
		return fmt.Errorf("event %d after %d", f.id, c.cursor)
	}
	c.cursor = f.id
	if f.event != "answer" {
		return nil
	}
	run, content, _ := strings.Cut(f.data, "|")
	if run == c.run && strings.Contains(content, "#0 ") && !strings.HasPrefix(content, c.text) {
		return fmt.Errorf("event %d: answer of %s does not begin with the %d bytes streamed", f.id, run, len(c.text))
	}
	return nil
}

// oneSaying checks that the text held is the beginning of what one attempt said, not a mix of two. A client that was
// behind when a run began again may hold the old attempt's until the answer comes.
func (c *checker) oneSaying() error {
	for attempt := range 60 {
		if said(c.run, attempt, len(c.text)) == c.text {
			return nil
		}
	}
	return fmt.Errorf("text of %s is no attempt's: %.80q", c.run, c.text)
}

// pause is the pace of those who publish and read, up to a bound.
func pause(rng *rand.Rand, most time.Duration) { <-time.After(time.Duration(rng.Int64N(int64(most)))) }

// turmoil publishes on a conversation: turns, attempts that begin again, lost subscriptions, silent moves.
func turmoil(u *fakeUpstream, id string, rng *rand.Rand, until time.Time) {
	for turn := 0; time.Now().Before(until); turn++ {
		run := fmt.Sprintf("%s-run%d", id, turn)
		u.publish(id, &conversationpb.Event{RunId: run, Body: &conversationpb.Event_UserMessage{}}, &conversationpb.Event{RunId: run, Body: &conversationpb.Event_TurnStarted{}})
		u.startRun(id, run)
		attempt, size := 0, 0
		for range rng.IntN(60) {
			switch rng.IntN(40) {
			case 0:
				u.cut(id, false)
			case 1: // the owner died and another one begins the turn again
				u.cut(id, false)
				attempt, size = attempt+1, 0
				u.publish(id, &conversationpb.Event{RunId: run, Body: &conversationpb.Event_TurnRecovered{}})
				u.startRun(id, run)
			case 2:
				attempt, size = attempt+1, 0
				u.publish(id, &conversationpb.Event{RunId: run, Body: &conversationpb.Event_TurnRecovered{}})
				u.startRun(id, run)
			case 3:
				u.publish(id, updated("t"))
			case 4:
				pause(rng, 5*time.Millisecond)
			default:
				pause(rng, 500*time.Microsecond)
				more := 1 + rng.IntN(200)
				u.say(id, said(run, attempt, size+more)[size:])
				size += more
			}
		}
		u.publish(id, answered(run, said(run, attempt, size))...)
		for range rng.IntN(4) {
			u.publish(id, updated(strings.Repeat("u", rng.IntN(2000))))
		}
		pause(rng, 10*time.Millisecond)
	}
}

func TestFanOutHasNoGapDuplicateOrReorder(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed=%d", seed)
	cfg := testConfig()
	cfg.RingEvents = 16
	cfg.CatchupPage = 7
	cfg.QueueBytes = 8 << 10
	cfg.QueueFrames = 16
	cfg.SendBuffer = 4 << 10
	cfg.PingEvery = 100 * time.Millisecond
	cfg.Linger = 3 * time.Millisecond
	upstream := newFakeUpstream()
	// Two edges: what a client knows from one may be ahead of the other.
	edges := []*edge{newEdgeOf(t, cfg, upstream), newEdgeOf(t, cfg, upstream)}
	var conns atomic.Int32
	for _, e := range edges {
		e.wrap = func(c net.Conn) net.Conn {
			if conns.Add(1)%4 == 0 {
				return hidden{c}
			}
			return c
		}
	}
	chaos := rand.New(rand.NewPCG(seed, 1))
	var healthy atomic.Bool
	fault := func(one int) func() error { // under the upstream's lock
		return func() error {
			if !healthy.Load() && chaos.IntN(one) == 0 {
				return errors.New("fault")
			}
			return nil
		}
	}
	upstream.readError, upstream.follow = fault(30), fault(10)

	upstream.lag = func() time.Duration { return time.Duration(rand.Int64N(int64(300 * time.Microsecond))) }

	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		upstream.create(id)
	}
	until := time.Now().Add(*chaosFlag)
	var publishers, clients sync.WaitGroup
	for i, id := range ids {
		publishers.Go(func() { turmoil(upstream, id, rand.New(rand.NewPCG(seed, uint64(10+i))), until) })
	}
	done := make(chan struct{})
	ends := map[string]*atomic.Uint64{"a": {}, "b": {}, "c": {}}
	failures := make(chan error, *followFlag)
	var events, deltas, visits atomic.Int64
	for i := range *followFlag {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
			id := ids[i%len(ids)]
			know := &checker{}
			for {
				visits.Add(1)
				caughtUp, err := visit(edges[rng.IntN(len(edges))], id, know, rng, done, ends[id])
				if err != nil {
					failures <- fmt.Errorf("client %d of %s: %w", i, id, err)
					return
				}
				if caughtUp {
					events.Add(int64(know.events))
					deltas.Add(int64(know.deltas))
					return
				}
			}
		})
	}
	publishers.Wait()
	healthy.Store(true)
	for _, id := range ids { // the last event, by which clients know that they have all
		upstream.publish(id, updated("last"))
		upstream.mu.Lock()
		ends[id].Store(uint64(len(upstream.logs[id].events)))
		upstream.mu.Unlock()
	}
	close(done)
	clients.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	t.Logf("%d visits, %d durable and %d text deliveries, %d resyncs, %d overflows", visits.Load(), events.Load(), deltas.Load(),
		int(reading(edges[0].hub.metrics.resyncs)), int(reading(edges[0].hub.metrics.ended[endOverflow])))
	require.Positive(t, events.Load())
}

// visit is one connection: it reads for a while, sometimes slowly, and leaves; after done it stays until the end.
func visit(e *edge, id string, know *checker, rng *rand.Rand, done chan struct{}, end *atomic.Uint64) (bool, error) {
	know.run, know.text = "", "" // a new connection holds no text
	c, err := e.dial(id, know.cursor)
	if c != nil {
		defer c.close()
	}
	if err != nil || c.status != 200 { // a fault on the way: come back
		return false, nil
	}
	frames := rng.IntN(400)
	for n := 0; ; n++ {
		select {
		case <-done:
			if last := end.Load(); know.cursor == last {
				return true, nil
			} else if know.cursor > last {
				return false, fmt.Errorf("cursor %d beyond the log's end %d", know.cursor, last)
			}
		default:
			if n > frames {
				return false, nil
			}
			if rng.IntN(50) == 0 {
				pause(rng, 5*time.Millisecond)
			}
		}
		f, err := c.next()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return false, fmt.Errorf("stuck at %d, the log ends at %d", know.cursor, end.Load())
		}
		if err != nil { // cut off: come back with the last id
			return false, nil
		}
		if err := know.see(f); err != nil {
			return false, err
		}
	}
}
