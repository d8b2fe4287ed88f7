package peer

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// shortListener has no descriptors left for a while.
type shortListener struct {
	net.Listener
	left atomic.Int64
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestNoDescriptorsForAWhile: other nodes are let in when there are descriptors again, and the log is not filled with it.
func TestNoDescriptorsForAWhile(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer // of one goroutine, and read when it has ended
	registry := prometheus.NewRegistry()
	a := w.start(1, func(c *Config) {
		short := &shortListener{Listener: c.Listener}
		short.left.Store(5)
		c.Listener, c.Logger, c.Registerer = short, slog.New(slog.NewTextHandler(&log, nil)), registry
	})
	b := w.start(2, nil)
	b.reach(t, a)
	families, err := registry.Gather()
	require.NoError(t, err)
	failures := 0.0
	for _, family := range families {
		if family.GetName() == "parley_peer_accept_failures_total" {
			failures = family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.InDelta(t, 5, failures, 0)
	a.Stop()
	require.Equal(t, 1, strings.Count(log.String(), "connection not accepted"))
}
