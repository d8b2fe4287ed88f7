package model

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts model calls. Labels are the provider (four of them) and the outcome: ok, cancelled or a code of Error.
type metrics struct {
	calls      *prometheus.CounterVec
	retries    *prometheus.CounterVec
	running    *prometheus.GaugeVec
	firstToken *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	buckets := []float64{0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600}
	return &metrics{
		calls: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_model_calls_total", Help: "Model calls that ended, by provider and outcome.",
		}, []string{"provider", "outcome"}),
		retries: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_model_retries_total", Help: "Attempts made again before the first token.",
		}, []string{"provider"}),
		running: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "parley_model_running_calls", Help: "Model calls under way.",
		}, []string{"provider"}),
		firstToken: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_model_first_token_seconds", Help: "Time from the call to its first piece, retries included.", Buckets: buckets,
		}, []string{"provider"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_model_call_duration_seconds", Help: "Time of a whole model call.", Buckets: buckets,
		}, []string{"provider"}),
	}
}
