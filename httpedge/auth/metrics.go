package auth

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	decisions *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_auth_decisions_total",
			Help: "Requests by what authentication made of them: identified, anonymous, missing, refused, unavailable.",
		}, []string{"result"}),
	}
	registerer.MustRegister(m.decisions)
	return m
}
