package stranger

import "github.com/prometheus/client_golang/prometheus"

func newRefused() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_answer_memory_refused_total",
		Help: "Answers of strangers that were given up for want of memory, by reason: busy (the call ended while it waited), large, slow.",
	}, []string{"reason"})
}

// reasons are the errors' values of the label.
func reasons() map[error]string {
	return map[error]string{ErrBusy: "busy", ErrTooLarge: "large", ErrSlow: "slow"}
}

// Observe registers the budget's metrics, once in a process; a nil registerer takes nothing.
func (b *Budget) Observe(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	for _, reason := range reasons() {
		b.refused.WithLabelValues(reason)
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_answer_memory_" + name, Help: help}, value)
	}
	registerer.MustRegister(
		b.refused,
		gauge("bytes", "Memory that answers of strangers hold.", func() float64 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return float64(b.sumLocked())
		}),
		gauge("limit_bytes", "Memory that answers of strangers may hold: outbound.answer_memory.", func() float64 {
			return float64(b.pool + b.reserve)
		}),
		gauge("waiting_calls", "Calls that wait for memory for their answer.", func() (count float64) {
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, owner := range b.mu.ring {
				count += float64(len(owner.queue))
			}
			return count
		}),
	)
}

// sumLocked is what is held of pool and reserve.
func (b *Budget) sumLocked() int64 {
	if b.mu.last == nil {
		return b.mu.held
	}
	return b.mu.held + b.mu.last.extra
}
