package peer

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chat lets from say something to to, from now until the test ends.
func chat(t *testing.T, from, to *testNode) (said *atomic.Int64) {
	t.Helper()
	said = &atomic.Int64{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				from.say(to.id, fmt.Sprint(said.Add(1)))
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return said
}

// TestCutIsNoticed: within twice the timeout whichever direction is cut, by both sides, and healed soon after the cut is.
func TestCutIsNoticed(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(w *world){
		"both_ways":     func(w *world) { w.network.Isolate("n1", "n2") },
		"only_there":    func(w *world) { w.network.Cut("n1", "n2") },
		"only_back":     func(w *world) { w.network.Cut("n2", "n1") },
		"reset":         func(w *world) { w.network.Isolate("n1", "n2"); w.network.Break() },
		"idle_half_way": func(w *world) { w.network.Cut("n1", "n2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a, b := w.start(1, nil), w.start(2, nil)
			a.reach(t, b)
			b.reach(t, a)
			if name != "idle_half_way" {
				chat(t, a, b)
				chat(t, b, a)
			}
			cut(w)
			begin := time.Now()
			eventually(t, "noticed", func() bool {
				return !a.connected(2) && !b.connected(1) && a.counted(a.unreachable, 2) > 0 && b.counted(b.unreachable, 1) > 0
			})
			noticed := time.Since(begin)
			require.Less(t, noticed, a.cfg.Timeout+patience/3) // and what a loaded machine adds
			eventually(t, "the old connection is gone", func() bool {
				b.Transport.mu.RLock()
				defer b.Transport.mu.RUnlock()
				return len(b.Transport.mu.in) == 0
			})
			w.network.Heal()
			healed := a.reach(t, b)
			b.reach(t, a)
			t.Logf("noticed after %v, healed after %v", noticed, healed)
			require.Less(t, healed, a.cfg.DialTimeout+a.cfg.MaxBackoff+patience/3)
		})
	}
}

// TestShortCutIsSurvived: what is shorter than the timeout loses nothing.
func TestShortCutIsSurvived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := func(c *Config) { c.Timeout = 5 * time.Second }
	a, b := w.start(1, long), w.start(2, long)
	a.reach(t, b)
	said := chat(t, a, b)
	w.network.Cut("n1", "n2")
	w.network.Cut("n2", "n1")
	at := said.Load()
	eventually(t, "time passes", func() bool { return said.Load() > at+60 })
	w.network.Heal()
	target := said.Load()
	eventually(t, "arrived", func() bool { return slices.Contains(b.from(1), fmt.Sprintf("16:%d", target)) })
	texts := slices.DeleteFunc(b.from(1), func(text string) bool { return text == "16:reach" })
	for i, text := range texts {
		require.Equal(t, fmt.Sprintf("16:%d", i+1), text)
	}
	require.Zero(t, a.counted(a.unreachable, 2))
}

func TestDelayIsNotSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.network.Delay(300 * time.Millisecond)
	long := func(c *Config) { c.Timeout = 2 * time.Second }
	a, b := w.start(1, long), w.start(2, long)
	a.reach(t, b)
	said := chat(t, a, b)
	eventually(t, "time passes", func() bool { return said.Load() > 300 })
	require.Zero(t, a.counted(a.unreachable, 2))
	require.Equal(t, 1, a.counted(a.reachable, 2))
}

// TestStoppedProcess: a process that is stopped keeps its sockets: its kernel accepts and acknowledges, and nobody answers.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close() //nolint:errcheck // nothing to lose
	w := newWorld(t)
	a := w.start(1, func(c *Config) { c.HandshakeTimeout = 300 * time.Millisecond })
	b := w.start(2, nil)
	a.reach(t, b)
	w.setAddress(3, listener.Addr().String())
	w.network.Register("n3", listener.Addr().String())
	a.say(3, "to the stopped one")
	eventually(t, "noticed", func() bool { return strings.Contains(a.trouble(3), "no answer in time") })
	require.Positive(t, a.counted(a.unreachable, 3))
	a.reach(t, b) // others are not held up
	begin := time.Now()
	_, err = Greet(t.Context(), nil, nil, listener.Addr().String(), testHello(1))
	require.ErrorContains(t, err, "no answer in time")
	require.Less(t, time.Since(begin), patience)
}

// TestSlowReaderIsKept: a slow receiver of a large batch does not count as dead while bytes move.
func TestSlowReaderIsKept(t *testing.T) {
	w := newWorld(t)
	long := func(c *Config) { c.Timeout = 3 * time.Second }
	a, b := w.start(1, long), w.start(2, long)
	a.reach(t, b)
	w.network.Delay(20 * time.Millisecond) // with its window that makes a slow link
	large := make([]byte, 24<<20)
	a.Send(2, KindRaft, [][]byte{large})
	eventually(t, "arrived", func() bool { f := b.from(1); return len(f[len(f)-1]) > len(large) })
	require.Zero(t, a.counted(a.unreachable, 2))
}

// TestStorm cuts, heals, breaks, delays and restarts at random. What arrives is in order and never twice, and in the end all are reached.
func TestStorm(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(t)
	quick := func(c *Config) { c.Timeout = 200 * time.Millisecond; c.MaxBackoff = 200 * time.Millisecond }
	a, b, c := w.start(1, quick), w.start(2, quick), w.start(3, quick)
	nodes := []*testNode{a, b, c}
	for _, from := range nodes {
		for _, to := range nodes {
			if from != to {
				chat(t, from, to)
			}
		}
	}
	ticker := time.NewTicker(40 * time.Millisecond)
	defer ticker.Stop()
	for range 60 {
		<-ticker.C
		one, other := name(uint64(rng.IntN(3)+1)), name(uint64(rng.IntN(3)+1))
		switch rng.IntN(6) {
		case 0:
			w.network.Cut(one, other)
		case 1:
			w.network.Isolate(one, "n1", "n2", "n3")
		case 2:
			w.network.Break()
		case 3:
			w.network.Delay(time.Duration(rng.IntN(30)) * time.Millisecond)
		default:
			w.network.Heal()
		}
	}
	w.network.Heal()
	w.network.Delay(0)
	for _, from := range nodes {
		for _, to := range nodes {
			if from != to {
				from.reach(t, to)
				requireOrder(t, to.from(from.id))
			}
		}
	}
}

func requireOrder(t *testing.T, texts []string) {
	t.Helper()
	last := 0
	for _, text := range texts {
		var n int
		if _, err := fmt.Sscanf(text, "16:%d", &n); err == nil {
			require.Greater(t, n, last)
			last = n
		}
	}
	require.Positive(t, last)
}
