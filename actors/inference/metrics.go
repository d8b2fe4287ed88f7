package inference

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts calls. Labels are the service (three of them) and the outcome: ok, error, cancelled.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	retries  prometheus.Counter
	refused  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		calls: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_gateway_calls_total", Help: "Model calls of the gateway that ended, by service and outcome.",
		}, []string{"service", "outcome"}),
		duration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_gateway_call_duration_seconds", Help: "Time of a whole model call of the gateway, retries included.",
			Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"service"}),
		retries: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_retries_total", Help: "Attempts of the gateway made again.",
		}),
		refused: factory.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_breaker_refusals_total", Help: "Calls that were not made because their provider had failed too often.",
		}),
	}
}
