package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cluster/shard"
	"parley/persistence/keys"
	"parley/proto/logpb"
	"parley/proto/nodepb"
)

// usageMeter takes usage that belongs to no conversation. It adds it up in memory and writes it to a shard of this node, or to
// another's where this one leads none: at once after a second without a write, else a second after the last one. So a call in a
// quiet hour is counted when it ends, and what was added in the last second of a busy one is not counted after a crash.
type usageMeter struct {
	route
	log  *slog.Logger
	lost prometheus.Counter

	mu   sync.Mutex
	rows map[usageRow][]int64

	cancel context.CancelFunc // of the write under way
	added  chan struct{}      // a signal, at most one: there are rows
	quit   chan struct{}
	ended  chan struct{}
}

type usageRow struct{ name, member string }

const (
	// usageEvery is how often it is written at most.
	usageEvery = time.Second
	// maxUsageRows bounds what is held; what comes on top of it is lost, and counted.
	maxUsageRows = 16384
	// usageBatch bounds an entry.
	usageBatch = 1024
	// usageTimeout bounds a write.
	usageTimeout = 5 * time.Second
)

// newUsageMeter starts a meter. stop writes what is left and ends it.
func newUsageMeter(way route, log *slog.Logger, to prometheus.Registerer) (m *usageMeter, stop func(context.Context)) {
	m = &usageMeter{
		route: way, log: log, rows: make(map[usageRow][]int64),
		added: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	m.lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "parley_usage_lost_total", Help: "Rows of usage of gateway calls that were not counted, or may not have been.",
	})
	if to != nil {
		to.MustRegister(m.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_usage_waiting_rows", Help: "Rows of usage of gateway calls that are to be written.",
		}, m.waiting))
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.run(ctx)
	return m, m.stop
}

func (m *usageMeter) waiting() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.rows))
}

// Add raises a row. It never blocks. nil adds nothing.
func (m *usageMeter) Add(sum *logpb.Sum) {
	if len(sum.GetDeltas()) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(usageRow{sum.GetName(), sum.GetMember()}, sum.GetDeltas())
}

func (m *usageMeter) addLocked(row usageRow, deltas []int64) {
	if len(m.rows) == 0 {
		select {
		case m.added <- struct{}{}:
		default:
		}
	}
	numbers, known := m.rows[row]
	if !known && len(m.rows) >= maxUsageRows {
		m.lost.Inc()
		return
	}
	m.rows[row] = keys.AddNumbers(numbers, deltas)
}

func (m *usageMeter) run(ctx context.Context) {
	defer close(m.ended)
	pause := time.NewTimer(usageEvery)
	defer pause.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-m.added:
		}
		m.flush(ctx)
		pause.Reset(usageEvery)
		select {
		case <-m.quit:
			return
		case <-pause.C:
		}
	}
}

func (m *usageMeter) stop(ctx context.Context) {
	close(m.quit)
	defer context.AfterFunc(ctx, m.cancel)() // what is being written may end, as long as there is time
	<-m.ended
	m.cancel()
	m.flush(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := len(m.rows); left > 0 {
		m.lost.Add(float64(left))
		m.log.Warn("usage was not counted", slog.Int("rows", left))
	}
}

// flush writes what there is. What is known not to be written stays for the next time.
func (m *usageMeter) flush(ctx context.Context) {
	m.mu.Lock()
	rows := m.rows
	m.rows = make(map[usageRow][]int64)
	m.mu.Unlock()
	batch := make([]*logpb.Sum, 0, min(len(rows), usageBatch))
	failed := false
	write := func() {
		err := errNoOwner // after a failure the others stay for the next time
		if !failed {
			err = m.write(ctx, batch)
		}
		if failed = err != nil; failed {
			m.keep(batch, err)
		}
		batch = batch[:0]
	}
	for row, numbers := range rows {
		batch = append(batch, &logpb.Sum{Name: row.name, Member: row.member, Deltas: numbers})
		if len(batch) == usageBatch {
			write()
		}
	}
	if len(batch) > 0 {
		write()
	}
}

// keep takes back what was not written. What may have been written is not written again: better uncounted than twice.
func (m *usageMeter) keep(batch []*logpb.Sum, failed error) {
	if !undone(failed) {
		m.lost.Add(float64(len(batch)))
		m.log.Warn("usage may not have been counted", slog.Int("rows", len(batch)), slog.Any("err", failed))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sum := range batch {
		m.addLocked(usageRow{sum.GetName(), sum.GetMember()}, sum.GetDeltas())
	}
}

// write adds to a shard that this node leads, or to the first that has an owner.
func (m *usageMeter) write(ctx context.Context, batch []*logpb.Sum) error {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	var to *nodepb.AddSums
	node := ""
	for _, in := range m.all() {
		owner, known := m.owners.Owner(in)
		if known && (to == nil || owner.Node == m.node) {
			to, node = &nodepb.AddSums{Shard: uint32(in), Sums: batch}, owner.Node
		}
		if node == m.node {
			break
		}
	}
	if to == nil {
		return errNoOwner
	}
	_, err := m.router.Call(ctx, node, to)
	return err
}

// errNoOwner says that nothing was written: no shard has an owner.
var errNoOwner error = noOwnerError{}

type noOwnerError struct{}

func (noOwnerError) Error() string { return "no shard has an owner right now" }

// NotOwner says that nothing was done.
func (noOwnerError) NotOwner() (in uint32, epoch uint64) { return uint32(shard.Directory), 0 }
