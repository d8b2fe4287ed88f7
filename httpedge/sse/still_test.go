package sse

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// A stream whose client would not be let in any more says so and ends with the next ping; the others go on. So it does when
// its client takes nothing.
func TestWhoMayNotStay(t *testing.T) {
	cfg := testConfig()
	cfg.PingEvery = 20 * time.Millisecond
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"loops":          nil,
		"own_goroutines": func(c net.Conn) net.Conn { return hidden{c} },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, cfg)
			e.wrap = wrap
			mayNotStay(t, e)
		})
	}
}

func mayNotStay(t *testing.T, e *edge) {
	t.Helper()
	for name, c := range map[string]struct {
		code failurepb.Code
		why  EndReason
	}{
		"token":      {failurepb.Code_AUTH_REQUIRED, Unauthorized},
		"permission": {failurepb.Code_FORBIDDEN, Forbidden},
		"licence":    {failurepb.Code_LICENSE_REQUIRED, Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			still := func() *machine.Failure {
				if gone.Load() {
					return failure.Verbatim(c.code, "no more")
				}
				return nil
			}
			e.upstream.create(name)
			e.still.Store(&still)
			one, two := e.follow(name, 0), e.follow(name, 0)
			one.pings = true
			f, err := one.next()
			require.NoError(t, err)
			require.Equal(t, "ping", f.comment, "as long as it may")
			one.pings = false
			e.still.Store(nil)
			stays := e.follow(name, 0)
			gone.Store(true)
			for _, left := range []*client{one, two} {
				left.expect(t, "parting", fmt.Sprint(int(c.why)), 0)
				_, err := left.next()
				require.ErrorIs(t, err, io.EOF)
			}
			e.upstream.publish(name, updated("a"))
			stays.expect(t, "updated", "a", 1)
		})
	}
	require.Eventually(t, func() bool { return reading(e.hub.metrics.ended[endRefused]) == 6 }, 30*time.Second, time.Millisecond)
}

// What waits for a client that is not let in any more does not keep the stream.
func TestWhoMayNotStayAndDoesNotRead(t *testing.T) {
	cfg := testConfig()
	cfg.PingEvery, cfg.StallTimeout = 50*time.Millisecond, time.Second
	cfg.QueueBytes, cfg.QueueFrames = 16<<20, 1<<20
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"loops":          func(c net.Conn) net.Conn { return c },
		"own_goroutines": func(c net.Conn) net.Conn { return hidden{c} },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, cfg)
			e.wrap = wrap
			var gone atomic.Bool
			still := func() *machine.Failure {
				if gone.Load() {
					return failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "no more")
				}
				return nil
			}
			e.still.Store(&still)
			e.upstream.create("c")
			e.follow("c", 0) // never reads
			for range 500 {  // more than the kernel takes
				e.upstream.publish("c", updated(strings.Repeat("x", 32<<10)))
			}
			gone.Store(true)
			require.Eventually(t, func() bool { return reading(e.hub.metrics.streams) == 0 }, 30*time.Second, 5*time.Millisecond)
		})
	}
}
