package peer

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a transport. They say how well batches fill, what is lost, and who cannot be reached.
type metrics struct {
	sentBytes, sentWrites, sentBatches prometheus.Counter
	receivedBytes, receivedBatches     prometheus.Counter
	droppedFrames, notAccepted         prometheus.Counter
	dials, streams                     *prometheus.CounterVec
	connected                          prometheus.Gauge
	all                                []prometheus.Collector
}

func newMetrics() *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.all = append(m.all, c)
		return c
	}
	m.sentBytes = counter("parley_peer_sent_bytes_total", "Bytes of batches written to other nodes, before encryption.")
	m.sentWrites = counter("parley_peer_sent_writes_total", "Writes of one or more batches to other nodes.")
	m.sentBatches = counter("parley_peer_sent_batches_total", "Batches queued for other nodes.")
	m.receivedBytes = counter("parley_peer_received_bytes_total", "Bytes of batches from other nodes.")
	m.receivedBatches = counter("parley_peer_received_batches_total", "Batches from other nodes.")
	m.droppedFrames = counter("parley_peer_dropped_frames_total", "Frames for other nodes that were not queued or were queued in vain.")
	m.notAccepted = counter("parley_peer_accept_failures_total", "Connections of other nodes that could not be accepted.")
	m.dials = vector("parley_peer_dials_total", "Attempts to connect to another node by outcome.", "outcome")
	m.streams = vector("parley_peer_streams_total", "Snapshots and fetches by side and outcome.", "purpose", "side", "outcome")
	m.connected = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_peer_connected_nodes", Help: "Nodes this node has a connection to.",
	})
	m.all = append(m.all, m.connected)
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			for _, held := range m.all[:i] {
				r.Unregister(held)
			}
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	if r == nil {
		return
	}
	for _, c := range m.all {
		r.Unregister(c)
	}
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}
