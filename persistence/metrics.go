package persistence

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/proto/logpb"
)

// metrics are the store's own metrics; those of the logs are in package replica.
type metrics struct {
	outcomes map[logpb.Outcome]prometheus.Counter
	errors   prometheus.Counter
	seconds  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, s *Store) *metrics {
	appends := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_persistence_appends_total", Help: "Appends by outcome; error is no outcome.",
	}, []string{"outcome"})
	m := &metrics{
		outcomes: map[logpb.Outcome]prometheus.Counter{},
		errors:   appends.WithLabelValues("error"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "parley_persistence_append_seconds", Help: "Time until an append is durable and applied.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
	}
	for value, name := range logpb.Outcome_name {
		if outcome := logpb.Outcome(value); outcome != logpb.Outcome_OUTCOME_UNSPECIFIED {
			m.outcomes[outcome] = appends.WithLabelValues(strings.ToLower(name))
		}
	}
	r.MustRegister(appends, m.seconds, newGauges(s))
	return m
}

func (m *metrics) appended(result *logpb.Result, err error, took time.Duration) {
	if err != nil {
		m.errors.Inc()
		return
	}
	m.outcomes[result.GetOutcome()].Inc()
	m.seconds.Observe(took.Seconds())
}

// gauges reads Pebble's metrics on each scrape.
type gauges struct {
	store *Store
	descs [11]*prometheus.Desc
}

func newGauges(s *Store) *gauges {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("parley_persistence_"+name, help, nil, nil)
	}
	return &gauges{store: s, descs: [11]*prometheus.Desc{
		gauge("failed", "1 when the store has failed and accepts no writes until restart."),
		gauge("full", "1 while writes are refused because the disk is nearly full."),
		gauge("free_bytes", "Free space of the disk when last looked at."),
		gauge("disk_bytes", "Space that the data takes on disk."),
		gauge("wal_bytes", "Size of the write-ahead log that a restart would read."),
		gauge("memtable_bytes", "Memory of the write buffers."),
		gauge("cache_bytes", "Memory of the block cache."),
		gauge("cache_hit_ratio", "Share of block reads that the cache answered."),
		gauge("compaction_debt_bytes", "Bytes that compactions still have to rewrite."),
		gauge("read_amplification_tables", "Tables that a read may have to look at."),
		gauge("open_tables", "Files of the store that are open for reads, a descriptor each."),
	}}
}

// Describe implements prometheus.Collector.
func (c *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *gauges) Collect(out chan<- prometheus.Metric) {
	s := c.store
	if !s.uses.enter() {
		return
	}
	defer s.uses.leave()
	m := s.db.Metrics()
	hits := 0.0
	if all := m.BlockCache.Hits + m.BlockCache.Misses; all > 0 {
		hits = float64(m.BlockCache.Hits) / float64(all)
	}
	for i, v := range [len(c.descs)]float64{
		number(s.condition.failure() != nil),
		number(s.condition.full.Load()),
		float64(s.space.seen.Load()),
		float64(m.DiskSpaceUsage()),
		float64(m.WAL.Size),
		float64(m.MemTable.Size),
		float64(m.BlockCache.Size),
		hits,
		float64(m.Compact.EstimatedDebt),
		float64(m.ReadAmp()),
		float64(m.FileCache.TableCount + m.FileCache.BlobFileCount),
	} {
		out <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, v)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
