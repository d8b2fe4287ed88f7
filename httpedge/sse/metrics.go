package sse

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	streams prometheus.Gauge
	topics  prometheus.Gauge
	ended   [endings]prometheus.Counter
	refused prometheus.Counter
	writes  prometheus.Counter
	bytes   prometheus.Counter
	pages   prometheus.Counter
	resyncs prometheus.Counter
	blocked prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "parley_sse_streams", Help: "Open event streams."}),
		topics:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "parley_sse_topics", Help: "Followed conversations."}),
		refused: counter("parley_sse_refused_total", "Streams refused because too many were open."),
		writes:  counter("parley_sse_writes_total", "Write calls to event streams."),
		bytes:   counter("parley_sse_written_bytes_total", "Bytes written to event streams."),
		pages:   counter("parley_sse_log_pages_total", "Pages of the log read for streams behind the ring."),
		resyncs: counter("parley_sse_resyncs_total", "Subscriptions that were lost and made anew."),
		blocked: counter("parley_sse_blocked_total", "Writes that found the send buffer full."),
	}
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_sse_ended_total", Help: "Ended event streams by reason.",
	}, []string{"reason"})
	for e := range m.ended {
		m.ended[e] = ended.WithLabelValues(ending(e).String())
	}
	if registerer != nil {
		registerer.MustRegister(m.streams, m.topics, m.refused, m.writes, m.bytes, m.pages, m.resyncs, m.blocked, ended)
	}
	return m
}
