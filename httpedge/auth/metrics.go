package auth

import "github.com/prometheus/client_golang/prometheus"

// metrics counts decisions, one counter for each, looked up once.
type metrics struct {
	identified, anonymous, missing, refused, unavailable prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_auth_decisions_total",
		Help: "Tokens and requests by what authentication made of them: identified, anonymous, missing, refused, unavailable.",
	}, []string{"result"})
	registerer.MustRegister(decisions)
	return &metrics{
		identified:  decisions.WithLabelValues("identified"),
		anonymous:   decisions.WithLabelValues("anonymous"),
		missing:     decisions.WithLabelValues("missing"),
		refused:     decisions.WithLabelValues("refused"),
		unavailable: decisions.WithLabelValues("unavailable"),
	}
}
