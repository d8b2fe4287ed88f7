package placement

import (
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/follow"
	"parley/proto/nodepb"
)

type metrics struct {
	calls        *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	links        prometheus.Gauge
	disconnects  prometheus.Counter
	follows      prometheus.Gauge
	publications prometheus.Gauge
	batches      prometheus.Counter
	overflows    prometheus.Counter
	refused      prometheus.Counter
	congested    prometheus.Counter
	dropped      prometheus.Counter
	relayed      prometheus.Counter
	passedOn     prometheus.Counter
}

// newMetrics registers the metrics; a nil registerer keeps them private.
func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "parley_placement_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_placement_" + name, Help: help})
	}
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_placement_calls_total", Help: "Calls to other nodes, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_placement_call_seconds", Help: "Time from a call to another node to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"kind"}),
		links:        gauge("links", "Other nodes that are connected."),
		disconnects:  counter("disconnects_total", "Links that went down."),
		follows:      gauge("follows", "Conversations of other nodes that this node follows."),
		publications: gauge("publications", "Conversations of this node that others follow."),
		batches:      counter("batches_total", "Batches of news sent to other nodes."),
		overflows:    counter("overflows_total", "Follows that were closed because the follower fell behind."),
		refused:      counter("refused_total", "Calls and follows of other nodes that were refused because there were too many."),
		congested:    counter("congested_total", "Messages that were not sent because too much waited for the same node."),
		dropped:      counter("dropped_total", "Messages that were dropped: of an older connection, or not for this node."),
		relayed:      counter("relayed_total", "Calls and follows that another node passed on, since the one they are for was not reached."),
		passedOn:     counter("passed_on_total", "Calls and follows of other nodes that this one has passed on."),
	}
	if registerer != nil {
		registerer.MustRegister(m.calls, m.seconds, m.links, m.disconnects, m.follows, m.publications, m.batches,
			m.overflows, m.refused, m.congested, m.dropped, m.relayed, m.passedOn)
	}
	return m
}

// asked counts a call.
func (m *metrics) asked(kind nodepb.Kind, err error, took time.Duration) {
	name := strings.ToLower(kind.String())
	var lost *lostError
	outcome := "error"
	switch {
	case err == nil:
		outcome = "ok"
	case follow.IsNotOwner(err):
		outcome = "not_owner"
	case errors.As(err, &lost):
		outcome = "lost"
	}
	m.calls.WithLabelValues(name, outcome).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}
