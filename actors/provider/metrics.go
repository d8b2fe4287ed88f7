package provider

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts the calls of one executor, by the few values of its label, and by their outcome.
type metrics struct {
	calls      *prometheus.CounterVec
	retries    *prometheus.CounterVec
	refused    *prometheus.CounterVec
	running    *prometheus.GaugeVec
	firstToken *prometheus.HistogramVec
	duration   *prometheus.HistogramVec

	byName sync.Map // string -> *meters
}

// meters are the metrics of one value of the label. Looked up at each call they cost more than all else that a call does here.
type meters struct {
	running              prometheus.Gauge
	firstToken, duration prometheus.Observer
}

func (m *metrics) of(name string) *meters {
	if known, ok := m.byName.Load(name); ok {
		return known.(*meters) //nolint:errcheck,forcetypeassert // the map holds nothing else
	}
	known, _ := m.byName.LoadOrStore(name, &meters{
		running: m.running.WithLabelValues(name), firstToken: m.firstToken.WithLabelValues(name), duration: m.duration.WithLabelValues(name),
	})
	return known.(*meters) //nolint:errcheck,forcetypeassert // the map holds nothing else
}

func newMetrics(registerer prometheus.Registerer, prefix, label string) *metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, append([]string{label}, labels...))
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + name, Help: help,
			Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
		}, []string{label})
	}
	return &metrics{
		calls:   counter("_calls_total", "Model calls that ended, by "+label+" and outcome.", "outcome"),
		retries: counter("_retries_total", "Attempts that were made again."),
		refused: counter("_breaker_refusals_total", "Calls that were not made because their provider had failed too often."),
		running: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "_running_calls", Help: "Model calls under way.",
		}, []string{label}),
		firstToken: seconds("_first_token_seconds", "Time from the call to the first piece of a streamed answer, retries included."),
		duration:   seconds("_call_duration_seconds", "Time of a whole model call, retries included."),
	}
}
