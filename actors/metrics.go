package actors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	active       prometheus.Gauge
	tidied       prometheus.Gauge
	activations  prometheus.Counter
	passivations prometheus.Counter
	recoveries   prometheus.Counter
	due          prometheus.Counter
	panics       prometheus.Counter
	appends      prometheus.Histogram
	owned        prometheus.Gauge
	refused      *prometheus.CounterVec
	drains       prometheus.Histogram
}

// newMetrics registers the shell's metrics; a nil registerer keeps them private.
func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_active_entities", Help: "Entities that are active in memory.",
		}),
		tidied: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_tidied_entities", Help: "Entities that are packing their state or being retired.",
		}),
		activations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_actors_activations_total", Help: "Entities that were activated.",
		}),
		passivations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_actors_passivations_total", Help: "Entities that were retired, idle or with their shard.",
		}),
		recoveries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_actors_recoveries_total", Help: "Entities with an open turn that were activated after a change of owner.",
		}),
		due: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_actors_due_total", Help: "Commands given because their time had come.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_actors_panics_total", Help: "Commands whose handling panicked.",
		}),
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_actors_append_seconds", Help: "Time from append to durable, as the shell sees it.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_owned_shards", Help: "Shards that this node owns.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_actors_unwritten_total", Help: "Commands whose events could not be made durable, by reason.",
		}, []string{"reason"}),
	}
	m.drains = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "parley_actors_drain_seconds", Help: "Time in which a shard became quiet before it was handed over.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	})
	if registerer != nil {
		registerer.MustRegister(m.active, m.tidied, m.activations, m.passivations, m.recoveries, m.due, m.panics, m.appends, m.owned,
			m.refused, m.drains)
	}
	return m
}

// observe registers what is counted anyway; a nil registerer takes nothing.
func (s *System) observe(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_actors_" + name, Help: help}, value)
	}
	registerer.MustRegister(
		gauge("commands", "Commands that are queued, held or being decided.", func() (sum float64) {
			for _, h := range *s.hosts.Load() {
				if h != nil {
					sum += float64(h.inFlight.Load())
				}
			}
			return sum
		}),
		gauge("outbox_rows", "Rows of outboxes that wait to be given to webhook endpoints, at most 1,024 of each shard.", func() (sum float64) {
			for _, h := range *s.hosts.Load() {
				if h != nil {
					sum += float64(h.outbox.waiting.Load())
				}
			}
			return sum
		}),
		gauge("outbox_oldest_seconds", "Age of the oldest row of an outbox.", func() (oldest float64) {
			for _, h := range *s.hosts.Load() {
				if h == nil {
					continue
				}
				if position := h.outbox.oldest.Load(); position != 0 {
					oldest = max(oldest, time.Since(time.UnixMicro(position)).Seconds())
				}
			}
			return oldest
		}),
		gauge("workers", "Goroutines that run mailboxes or wait for one.", func() float64 {
			return float64(s.workers.count.Load())
		}),
	)
}
