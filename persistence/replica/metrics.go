package replica

import "github.com/prometheus/client_golang/prometheus"

// metrics of the driver. They show how well batches fill, how slow the disk is, and what was refused.
type metrics struct {
	applied, refused, unknown prometheus.Counter
	appendEntries             prometheus.Histogram
	appendSeconds             prometheus.Histogram
	applySeconds              prometheus.Histogram
	appendBytes               prometheus.Counter
	appliedEntries            prometheus.Counter
	cuts                      prometheus.Counter
	lateTicks                 prometheus.Counter
	dropped                   prometheus.Counter
	snapshots                 *prometheus.CounterVec
	failed                    prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, d *Driver) *metrics {
	proposals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_replica_proposals_total", Help: "Proposals by outcome.",
	}, []string{"outcome"})
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		})
	}
	m := &metrics{
		applied: proposals.WithLabelValues("applied"),
		refused: proposals.WithLabelValues("refused"),
		unknown: proposals.WithLabelValues("unknown"),
		appendEntries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_replica_append_batch_entries", Help: "Log entries of all groups made durable by one fsync.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		appendSeconds:  seconds("parley_replica_append_commit_seconds", "Time to commit and fsync one batch of log entries."),
		applySeconds:   seconds("parley_replica_apply_commit_seconds", "Time to apply and commit one batch of entries."),
		appendBytes:    counter("parley_replica_append_bytes_total", "Bytes of log batches."),
		appliedEntries: counter("parley_replica_applied_entries_total", "Entries applied to the state machine."),
		cuts:           counter("parley_replica_log_cuts_total", "Times a log was cut."),
		lateTicks:      counter("parley_replica_dropped_ticks_total", "Ticks dropped because the raft loop was late."),
		dropped:        counter("parley_replica_dropped_messages_total", "Messages from other nodes dropped because the inbox was full."),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_replica_snapshots_total", Help: "Snapshots by direction and outcome.",
		}, []string{"direction", "outcome"}),
		failed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_replica_store_failed_state", Help: "1 after a failed commit, until restart.",
		}),
	}
	leading := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_replica_leading_groups", Help: "Groups this node leads.",
	}, func() float64 { return d.count(func(g *group) bool { return g.shared.leading.Load() }) })
	leaderless := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_replica_leaderless_groups", Help: "Groups without a leader known to this node.",
	}, func() float64 { return d.count(func(g *group) bool { return g.shared.view.Load() == nil }) })
	pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "parley_replica_pending_proposals", Help: "Proposals waiting for their answer.",
	}, func() float64 {
		var sum int64
		for g := range d.table.all() {
			sum += g.shared.pendingProposals.Load()
		}
		return float64(sum)
	})
	if reg != nil {
		reg.MustRegister(proposals, m.appendEntries, m.appendSeconds, m.applySeconds, m.appendBytes, m.appliedEntries, m.cuts,
			m.lateTicks, m.dropped, m.snapshots, m.failed, leading, leaderless, pending)
	}
	return m
}

func (d *Driver) count(match func(*group) bool) float64 {
	n := 0
	for g := range d.table.all() {
		if match(g) {
			n++
		}
	}
	return float64(n)
}
