package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"parley/proto/nodepb"
)

func TestFramesArriveInOrder(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted_%v", encrypted), func(t *testing.T) {
			dir := t.TempDir()
			withTLS := func(id uint64) func(*Config) {
				return func(c *Config) {
					if encrypted {
						c.ServerTLS, c.ClientTLS = secure(t, dir, name(id), time.Hour)
					}
				}
			}
			w := newWorld(t)
			nodes := []*testNode{w.start(1, withTLS(1)), w.start(2, withTLS(2)), w.start(3, withTLS(3))}
			const rounds = 300
			var all sync.WaitGroup
			for _, from := range nodes {
				for _, to := range nodes {
					if from == to {
						continue
					}
					all.Go(func() {
						for i := range rounds {
							from.say(to.id, fmt.Sprintf("%d.a", i), fmt.Sprintf("%d.b", i))
						}
						from.Send(to.id, KindReport, [][]byte{[]byte("report")})
					})
				}
			}
			all.Wait()
			want := make([]string, 0, 2*rounds+1)
			for i := range rounds {
				want = append(want, fmt.Sprintf("16:%d.a", i), fmt.Sprintf("16:%d.b", i))
			}
			want = append(want, "17:report")
			for _, from := range nodes {
				for _, to := range nodes {
					if from != to {
						eventually(t, "all arrived", func() bool { return len(to.from(from.id)) == len(want) })
						require.Equal(t, want, to.from(from.id))
					}
				}
			}
		})
	}
}

func TestLargeFrames(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, func(c *Config) { c.QueueBytes, c.Timeout = 1<<20, patience })
	b := w.start(2, func(c *Config) { c.Timeout = patience })
	large := bytes.Repeat([]byte("x"), 20<<20)
	a.Send(2, KindRaft, [][]byte{large}) // alone it may exceed the queue
	eventually(t, "arrived", func() bool { return len(b.from(1)) == 1 })
	require.Len(t, b.from(1)[0], len("16:")+len(large))
	a.reach(t, b)
	require.Equal(t, 1, b.counted(b.reachable, 1)+a.counted(a.reachable, 2), "the connection has lived through it")

	a.Send(2, KindRaft, [][]byte{bytes.Repeat([]byte("x"), defaultMaxFrameBytes+1)})
	eventually(t, "told", func() bool { a.reach(t, b); return a.counted(a.unreachable, 2) == 1 })
}

func TestQueueIsBounded(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	a := w.start(1, func(c *Config) { c.QueueBytes = 10_000; c.Registerer = registry })
	b := w.start(2, nil)
	a.reach(t, b)
	w.network.Cut("n1", "n2")
	frame := make([]byte, 1000)
	for range 100_000 {
		a.Send(2, KindRaft, [][]byte{frame})
	}
	o := a.connection(2)
	o.mu.Lock()
	require.LessOrEqual(t, len(o.mu.pending), 10_000)
	o.mu.Unlock()
	require.Positive(t, value(t, a.metrics.droppedFrames))
	require.Less(t, a.counted(a.unreachable, 2), 3, "not told for each")
	eventually(t, "told", func() bool { return a.counted(a.unreachable, 2) > 0 })
	w.network.Heal()
	a.reach(t, b)
}

func TestSendBeforeStartAndAfterStop(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(1, nil), w.start(2, nil)
	a.reach(t, b)
	a.Stop()
	a.Stop()
	a.say(2, "late")
	require.Empty(t, a.Peers())
	require.NotContains(t, fmt.Sprint(b.from(1)), "late")
	_, err := a.Fetch(t.Context(), 2, nil)
	require.ErrorContains(t, err, "stopped")
	require.ErrorContains(t, a.SendSnapshot(t.Context(), 2, nil, nil), "stopped")
}

// TestRestart: a node that comes back is reached within 100 ms, whichever side speaks first.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start(1, nil), w.start(2, nil)
	a.reach(t, b)
	for round := range 3 {
		b.Stop()
		eventually(t, "noticed", func() bool { a.say(2, "into the void"); return !a.connected(2) && a.trouble(2) != "" })
		time0 := time.Now()
		eventually(t, "backing off", func() bool { a.say(2, "void"); return time.Since(time0) > 300*time.Millisecond })
		require.Positive(t, a.counted(a.unreachable, 2))
		b = w.start(2, nil)
		took := a.reach(t, b)
		t.Logf("round %d: reached after %v", round, took)
		require.Less(t, took, patience/3) // 100 ms, and what a loaded machine adds
	}
}

// TestIncomingConnectionResetsBackoff: a node in a long backoff is dialled at once when it dials.
func TestIncomingConnectionResetsBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var attempts atomic.Int64
	var up atomic.Bool
	a := w.start(1, func(c *Config) {
		c.MinBackoff, c.MaxBackoff = 50*time.Millisecond, time.Minute
		dial := c.Dial
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if attempts.Add(1); !up.Load() {
				return nil, errors.New("no route")
			}
			return dial(ctx, addr)
		}
	})
	b := w.start(2, nil)
	a.say(2, "no route yet")
	eventually(t, "tried 9 times, so that the next attempt is 12.8 s away", func() bool { return attempts.Load() >= 9 })
	up.Store(true)
	begin := time.Now()
	b.reach(t, a)
	a.reach(t, b)
	require.Less(t, time.Since(begin), 12*time.Second)
}

func TestConnectionFollowsAddress(t *testing.T) {
	w := newWorld(t)
	a, old := w.start(1, nil), w.start(2, nil)
	a.reach(t, old)
	w.mu.Lock()
	delete(w.addresses, 2)
	w.mu.Unlock()
	moved := w.start(2, nil) // the old one still runs
	require.NotEqual(t, old.addr, moved.addr)
	a.AddressesChanged()
	a.reach(t, moved)
	require.Equal(t, moved.addr, a.Peers()[0].Address)
}

func TestAnotherNodeAtTheAddress(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(1, nil), w.start(2, nil)
	w.setAddress(3, b.addr)
	a.say(3, "for n3 only")
	eventually(t, "refused", func() bool { return strings.Contains(a.trouble(3), "node 3 is not here, this is n2, node 2") })
	require.Empty(t, b.from(1))
	require.Positive(t, a.counted(a.unreachable, 3))
	a.say(4, "whose address is not known")
	eventually(t, "unknown", func() bool { return strings.Contains(a.trouble(4), "address is not known") })
}

func TestForeignClusterIsRefused(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	b := w.start(2, func(c *Config) { c.Hello.ClusterId = "other" })
	a.say(2, "hello")
	eventually(t, "refused", func() bool {
		return strings.Contains(a.trouble(2), "node n2 refuses: n1 belongs to cluster test, n2 to cluster other")
	})
	require.Empty(t, b.from(1))
}

func TestIdentityComesLater(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	b := w.start(2, func(c *Config) { c.Hello = &nodepb.Hello{Name: "n2"} })
	a.say(2, "too early")
	b.say(1, "too early")
	eventually(t, "refused", func() bool { return strings.Contains(a.trouble(2), "n2 is not in a cluster yet") })
	eventually(t, "not sent", func() bool { return strings.Contains(b.trouble(1), "this node is not in a cluster yet") })
	b.SetIdentity(testHello(2))
	a.reach(t, b)
	b.reach(t, a)
}

func TestUnusedConnectionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start(1, func(c *Config) { c.IdleAfter = 300 * time.Millisecond })
	b := w.start(2, nil)
	a.reach(t, b)
	eventually(t, "closed", func() bool { return len(a.Peers()) == 0 })
	eventually(t, "gone there", func() bool {
		b.Transport.mu.RLock()
		defer b.Transport.mu.RUnlock()
		return len(b.Transport.mu.in) == 0
	})
	require.Zero(t, a.counted(a.unreachable, 2))
	a.reach(t, b)
	// Also one that cannot be reached is given up.
	w.setAddress(3, "127.0.0.1:1")
	a.say(3, "nobody there")
	eventually(t, "given up", func() bool { return !slices.ContainsFunc(a.Peers(), func(p Peer) bool { return p.Node == 3 }) })
}

// TestSendIsCheap: in the steady state queueing allocates nothing, and what waits is written at once.
func TestSendIsCheap(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	w.start(2, func(c *Config) { c.OnFrames = func(uint64, Kind, [][]byte) {} })
	frames := [][]byte{make([]byte, 200), make([]byte, 700)}
	a.Send(2, KindRaft, frames)
	eventually(t, "connected", func() bool { return a.connected(2) })
	before := value(t, a.metrics.sentWrites)
	allocated := testing.AllocsPerRun(5000, func() { a.Send(2, KindRaft, frames) })
	// The receiver's batches are counted too: a payload and its slices each.
	require.LessOrEqual(t, allocated, 3.0)
	eventually(t, "written", func() bool { return value(t, a.metrics.sentBytes) > 5000*900 })
	require.Less(t, value(t, a.metrics.sentWrites)-before, 5100.0)
}

func TestMetricsAreTakenBack(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.start(1, func(c *Config) { c.Registerer = registry }).Stop()
	again := w.start(1, func(c *Config) { c.Registerer = registry })
	_, err := New(Config{
		Hello: testHello(1), Listener: again.cfg.Listener, Address: w.address,
		OnFrames: again.take, Registerer: registry,
	})
	require.ErrorContains(t, err, "register metrics")
	_, err = registry.Gather()
	require.NoError(t, err)
}
