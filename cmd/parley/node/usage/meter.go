// Package usage sums up the usage of gateway calls and adds it to the sums of its project about once a second.
package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cluster/shard"
	"parley/cmd/parley/node/reads"
	"parley/cmd/parley/node/records"
	"parley/persistence/keys"
	"parley/proto/logpb"
	"parley/proto/nodepb"
)

// Meter records usage that belongs to no conversation. It sums it up in memory and writes it to a shard that this node leads,
// else to one of another node, at most once a second: usage after a quiet second is written at once. A crash loses at most what
// was added in the last second.
type Meter struct {
	reads.Route
	log  *slog.Logger
	lost prometheus.Counter

	mu   sync.Mutex
	rows map[usageRow][]int64

	cancel context.CancelFunc // cancels the write under way
	added  chan struct{}      // capacity 1: there are rows
	quit   chan struct{}
	ended  chan struct{}
}

type usageRow struct{ name, member string }

const (
	// usageEvery is the shortest time between two writes.
	usageEvery = time.Second
	// maxUsageRows bounds the rows in memory; more are dropped and counted as lost.
	maxUsageRows = 16384
	// usageBatch bounds the rows of one write.
	usageBatch = 1024
	// usageTimeout bounds a write.
	usageTimeout = 5 * time.Second
)

// New starts a meter. stop writes what is left and stops it.
func New(way reads.Route, log *slog.Logger, to prometheus.Registerer) (m *Meter, stop func(context.Context)) {
	m = &Meter{
		Route: way, log: log, rows: make(map[usageRow][]int64),
		added: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	m.lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "parley_usage_lost_total", Help: "Rows of usage of gateway calls that were not counted, or may not have been.",
	})
	if to != nil {
		to.MustRegister(m.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_usage_waiting_rows", Help: "Rows of usage of gateway calls that are to be written.",
		}, func() float64 { return float64(m.Waiting()) }))
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.run(ctx)
	return m, m.stop
}

// Waiting is how many rows are to be written.
func (m *Meter) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// Add adds to a row. It never blocks. A nil sum is ignored.
func (m *Meter) Add(sum *logpb.Sum) {
	if len(sum.GetDeltas()) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(usageRow{sum.GetName(), sum.GetMember()}, sum.GetDeltas())
}

func (m *Meter) addLocked(row usageRow, deltas []int64) {
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

func (m *Meter) run(ctx context.Context) {
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

func (m *Meter) stop(ctx context.Context) {
	close(m.quit)
	defer context.AfterFunc(ctx, m.cancel)() // a write under way may finish until ctx ends
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

// flush writes all rows. Those that were certainly not written are kept for the next flush.
func (m *Meter) flush(ctx context.Context) {
	m.mu.Lock()
	rows := m.rows
	m.rows = make(map[usageRow][]int64)
	m.mu.Unlock()
	batch := make([]*logpb.Sum, 0, min(len(rows), usageBatch))
	failed := false
	write := func() {
		err := errNoOwner // after a failure the other batches are kept for the next flush
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

// keep takes back a batch that was not written. One that may have been written is dropped: usage is never counted twice.
func (m *Meter) keep(batch []*logpb.Sum, failed error) {
	if !records.Undone(failed) {
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
func (m *Meter) write(ctx context.Context, batch []*logpb.Sum) error {
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	var to *nodepb.AddSums
	node := ""
	for _, in := range m.All() {
		owner, known := m.Owners.Owner(in)
		if known && (to == nil || owner.Node == m.Node) {
			to, node = &nodepb.AddSums{Shard: uint32(in), Sums: batch}, owner.Node
		}
		if node == m.Node {
			break
		}
	}
	if to == nil {
		return errNoOwner
	}
	_, err := m.Router.Call(ctx, node, to)
	return err
}

// errNoOwner means that no shard has an owner, so nothing was written.
var errNoOwner error = noOwnerError{}

type noOwnerError struct{}

func (noOwnerError) Error() string { return "no shard has an owner right now" }

// NotOwner marks the error as one after which nothing was written.
func (noOwnerError) NotOwner() (in uint32, epoch uint64) { return uint32(shard.Directory), 0 }
