package balance

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cluster/shard"
)

// Status is the state of the loop for operators.
type Status struct {
	// Acting means that this node's loop acts. Otherwise the other fields are from the last time it did.
	Acting bool
	// Pending is the number of steps planned in the last round, plus the shards that wait after their last step; 0 = the
	// placement is as wanted, or nothing can be done right now.
	Pending int
	// Nodes are those that belong to the cluster, as last observed.
	Nodes []shard.Node
	// Done are the most recent steps, newest last.
	Done []Done
}

// Done is a step that was carried out or failed.
type Done struct {
	At   time.Time
	Step string // as text for operators
	Err  error  // nil = carried out
}

// keepDone is how many steps Status keeps.
const keepDone = 64

// Status returns the present state of the loop.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := l.status
	status.Done = slices.Clone(status.Done)
	return status
}

func (l *Loop) note(seen *observation, pending int) {
	l.metrics.pending.Set(float64(pending))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Acting, l.status.Pending = seen != nil, pending
	if seen != nil {
		l.status.Nodes = seen.view.Nodes
	}
}

func (l *Loop) record(step string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := append(l.status.Done, Done{At: time.Now(), Step: step, Err: err})
	l.status.Done = done[max(0, len(done)-keepDone):]
}

type metrics struct {
	acting, pending prometheus.Gauge
	steps           *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		acting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_balance_acting", Help: "1 where the placement loop acts.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_balance_pending_steps", Help: "Shards that the placement loop had steps for when it last looked.",
		}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_balance_steps_total", Help: "Steps of the placement loop by change and outcome (made, failed).",
		}, []string{"change", "outcome"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.acting, m.pending, m.steps)
	}
	return m
}

func (m *metrics) made(change shard.Change, err error) {
	outcome := "made"
	if err != nil {
		outcome = "failed"
	}
	m.steps.WithLabelValues(change.String(), outcome).Inc()
}
