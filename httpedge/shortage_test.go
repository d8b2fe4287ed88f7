package httpedge_test

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
)

// shortListener has no descriptors left now and then.
type shortListener struct {
	net.Listener
	short atomic.Bool
	fails atomic.Int64
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.short.Load() {
		l.fails.Add(1)
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	conn, err := l.Listener.Accept()
	if l.short.Load() && err == nil { // the one that Accept was waiting for
		_ = conn.Close()
		l.fails.Add(1)
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return conn, err
}

// TestNoDescriptorsLeft: the server goes on when it can accept again, and meanwhile closes connections that are between two
// requests, but none that is in one.
func TestNoDescriptorsLeft(t *testing.T) {
	var short *shortListener
	b := serve(t, func(_ *httpedge.Config, parts *httpedge.Parts) {
		short = &shortListener{Listener: parts.Listener}
		parts.Listener = short
	})
	idle, busy := b.dial(), b.dial()
	require.Equal(t, 200, idle.send(get("/desk/echo/a")).answer().status)
	busy.send(get("/desk/wait"))
	<-b.desk.entered
	require.Eventually(t, func() bool { return b.metric(t, "parley_http_connections_open") == 2 }, 30*time.Second, time.Millisecond)

	short.short.Store(true)
	wake := b.dial() // it reaches the kernel only
	idle.ended()
	require.Eventually(t, func() bool { return short.fails.Load() > 3 }, 30*time.Second, time.Millisecond)
	wake.ended()
	short.short.Store(false)

	require.Equal(t, 200, b.do(get("/desk/echo/a")).status)
	close(b.desk.release)
	require.Equal(t, 204, busy.answer().status)
	require.Equal(t, 200, busy.send(get("/desk/echo/a")).answer().status, "who was being answered stays")
	require.Len(t, b.log.with("connections cannot be accepted at the moment"), 1)
	require.Positive(t, b.metric(t, "parley_http_accept_failures_total"))
	require.InDelta(t, 1, b.metric(t, "parley_http_connections_shed_total"), 0)
}

// TestTooManySockets: streams count with the connections.
func TestTooManySockets(t *testing.T) {
	b := serve(t, limited(func(c *httpedge.Config) { c.MaxSockets = 2 }))
	b.dial().send(get("/desk/stream"))
	take := <-b.desk.streams
	second := b.dial()
	require.Equal(t, 200, second.send(get("/desk/echo/a")).answer().status)
	third := b.dial()
	require.Equal(t, 503, third.send(get("/desk/echo/a")).answer().status, "it has asked before it was told")
	third.ended()
	require.NoError(t, take.Conn.Close())
	take.Release()
	require.Eventually(t, func() bool {
		return b.dial().send(get("/desk/echo/a")).answer().status == 200
	}, 30*time.Second, 10*time.Millisecond)
}

func (b *bench) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			metric := family.GetMetric()[0]
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	require.Failf(t, "no metric", "%s", name)
	return 0
}
