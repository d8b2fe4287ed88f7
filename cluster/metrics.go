package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/core/follow"
)

// metrics counts the router's calls.
type metrics struct {
	local, forwarded        prometheus.Counter
	noOwner, notOwner, lost prometheus.Counter
	gaveUp                  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_cluster_calls_total", Help: "Calls to owners of shards that were answered, by where the owner is (here, elsewhere).",
	}, []string{"owner"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_cluster_retries_total",
		Help: "Times a call had to wait for an owner, by reason (no_owner: none known, not_owner: it said it is none, lost: it was lost before it answered).",
	}, []string{"reason"})
	gaveUp := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "parley_cluster_gave_up_total", Help: "Calls refused because their shard had no owner in time.",
	})
	if registerer != nil {
		registerer.MustRegister(calls, retries, gaveUp)
	}
	return &metrics{
		local: calls.WithLabelValues("here"), forwarded: calls.WithLabelValues("elsewhere"),
		noOwner: retries.WithLabelValues("no_owner"), notOwner: retries.WithLabelValues("not_owner"),
		lost: retries.WithLabelValues("lost"), gaveUp: gaveUp,
	}
}

func (m *metrics) call(local bool) {
	if local {
		m.local.Inc()
		return
	}
	m.forwarded.Inc()
}

func (m *metrics) retry(asked bool, err error) {
	switch {
	case !asked:
		m.noOwner.Inc()
	case follow.IsNotOwner(err):
		m.notOwner.Inc()
	default:
		m.lost.Inc()
	}
}
