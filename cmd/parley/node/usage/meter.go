// Package usage sums up the usage of gateway calls and has it counted about once a second.
//
// What was added is in a file of the node before Add returns, and counted under the number of its batch (package actors/meter): a process
// that is killed loses nothing and counts nothing twice, its next start gives what the files hold. They are not synced, so a machine
// that fails as a whole may lose what came in its last second.
package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/meter"
	"parley/proto/logpb"
	"parley/proto/meterpb"
)

// Config is what a Meter needs.
type Config struct {
	Entities entity.Client
	NewID    func(kind string) string
	Folder   string      // of the files; it is made when it is first needed
	Ready    func() bool // every node of the cluster knows of meters; until then usage waits
	Logger   *slog.Logger
	// Registerer may be nil: nobody collects.
	Registerer prometheus.Registerer
}

// Meter records usage that belongs to no conversation. It is safe for concurrent use.
type Meter struct {
	config Config
	id     string
	lost   prometheus.Counter

	mu      sync.Mutex
	open    *batch   // takes rows; nil = there are none
	closed  []*batch // to be counted, oldest first
	last    uint64   // number of a batch of this start
	unfiled bool     // the files cannot be written, which was said

	cancel context.CancelFunc // cancels the writing under way
	added  chan struct{}      // capacity 1: there are rows
	quit   chan struct{}
	ended  chan struct{}
}

const (
	// every is the shortest time between two rounds of writing.
	every = time.Second
	// maxBatches bounds those that wait, of meter.MaxRows rows each; what comes after is lost.
	maxBatches = 32
	// timeout bounds the counting of one batch.
	timeout = 5 * time.Second
)

// New starts a meter with what earlier ones have left in the folder. stop writes what is there and stops it.
func New(config Config) (m *Meter, stop func(context.Context)) {
	m = &Meter{
		config: config, id: config.NewID(meter.Prefix),
		added: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	m.lost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "parley_usage_lost_total", Help: "Rows of usage of gateway calls that were not counted: too many waited.",
	})
	if config.Registerer != nil {
		config.Registerer.MustRegister(m.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_usage_waiting_rows", Help: "Rows of usage of gateway calls that are to be counted.",
		}, func() float64 { return float64(m.Waiting()) }))
	}
	left, err := readBatches(config.Folder)
	if err != nil {
		config.Logger.Error("usage of before the start cannot be read", slog.String("folder", config.Folder), slog.Any("err", err))
	}
	if m.closed = left; len(left) > 0 {
		m.added <- struct{}{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go m.run(ctx)
	return m, m.stop
}

// Waiting is how many rows are to be counted.
func (m *Meter) Waiting() (rows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.closed {
		rows += len(b.rows)
	}
	if m.open != nil {
		rows += len(m.open.rows)
	}
	return rows
}

// Add adds to a row. It waits for nothing but a short write to a file that is not synced. A nil sum is ignored.
func (m *Meter) Add(sum *logpb.Sum) {
	if len(sum.GetDeltas()) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil && !m.open.hasRoom(sum) {
		m.seal()
	}
	if m.open == nil {
		if len(m.closed) >= maxBatches {
			m.lost.Inc()
			return
		}
		m.last++
		m.open = newBatch(m.config.Folder, m.id, m.last)
	}
	if err := m.open.add(sum); err != nil && !m.unfiled {
		m.unfiled = true
		m.config.Logger.Warn("usage is kept in memory only until it is counted", slog.Any("err", err))
	}
	select {
	case m.added <- struct{}{}:
	default:
	}
}

// seal closes the batch that takes rows. m.mu is held.
func (m *Meter) seal() {
	m.open.close()
	m.closed, m.open = append(m.closed, m.open), nil
}

func (m *Meter) run(ctx context.Context) {
	defer close(m.ended)
	pause := time.NewTimer(every)
	defer pause.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-m.added:
		}
		if !m.write(ctx) {
			select { // again after the pause
			case m.added <- struct{}{}:
			default:
			}
		}
		pause.Reset(every)
		select {
		case <-m.quit:
			return
		case <-pause.C:
		}
	}
}

func (m *Meter) stop(ctx context.Context) {
	close(m.quit)
	defer context.AfterFunc(ctx, m.cancel)() // what is under way may finish until ctx ends
	<-m.ended
	m.cancel()
	m.write(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open != nil {
		m.seal()
	}
	if len(m.closed) > 0 {
		m.config.Logger.Warn("usage waits for the next start of this node", slog.Int("batches", len(m.closed)))
	}
}

// write has all rows counted, oldest first, until one batch is not: then it is false.
func (m *Meter) write(ctx context.Context) bool {
	if !m.config.Ready() {
		return false // rows add up meanwhile
	}
	for {
		next := m.next()
		if next == nil {
			return true
		}
		if err := m.count(ctx, next); err != nil {
			m.config.Logger.Debug("usage is counted later", slog.Any("err", err))
			return false
		}
		m.mu.Lock()
		m.closed = m.closed[1:]
		m.mu.Unlock()
		next.remove()
	}
}

// next is the oldest batch, closed; nil = there is none.
func (m *Meter) next() *batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.closed) == 0 && m.open != nil {
		m.seal()
	}
	if len(m.closed) == 0 {
		return nil
	}
	return m.closed[0]
}

// count has a batch counted. One that was counted before, of which this node does not know, is not counted again.
func (m *Meter) count(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := entity.Ask[proto.Message](ctx, m.config.Entities, b.meter, &meterpb.Command{
		Id: b.meter, Body: &meterpb.Command_Count{Count: &meterpb.Count{Batch: b.number, Sums: b.sums()}},
	})
	return err
}
