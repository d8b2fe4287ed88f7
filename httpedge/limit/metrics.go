package limit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests, streams, evictions prometheus.Counter
}

// newMetrics registers the limiter's metrics; callers returns how many callers are tracked.
func newMetrics(registerer prometheus.Registerer, callers func() float64) *metrics {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_limit_refusals_total",
		Help: "Requests and streams refused because their caller had used up what it may ask for.",
	}, []string{"kind"})
	m := &metrics{
		requests: refusals.WithLabelValues("request"),
		streams:  refusals.WithLabelValues("stream"),
		evictions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_limit_evictions_total",
			Help: "Callers whose rate was forgotten to make room for another's.",
		}),
	}
	registerer.MustRegister(refusals, m.evictions, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_limit_callers", Help: "Callers whose rate is remembered.",
	}, callers))
	return m
}
