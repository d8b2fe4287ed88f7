package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Driver runs the raft groups of one node.
type Driver struct {
	cfg     Config
	logger  *slog.Logger
	metrics *metrics
	table   table

	inbox   *inbox
	appends *queue[appendItem]
	applies *queue[applyItem]
	pool    proposalPool

	loop loopState // raft loop

	// start is the zero of the loop's clock.
	start time.Time
	// committing is when the append goroutine began the commit it is in, by the loop's clock; 0 when it is in none.
	committing atomic.Int64
	delays     delays
	// background starts a goroutine that Stop cancels and waits for.
	background func(func(context.Context))
	spools     atomic.Uint64
	running    atomic.Bool
	failure    atomic.Pointer[failure]
	failed     chan struct{}

	life lifecycle
}

// loopState is what only the raft loop touches.
type loopState struct {
	order []*group
	// dropping are the groups whose rows are being deleted. None of them may be created again before that is durable.
	dropping map[GroupID]bool
	// changed is set when Config.OnChange has to be called.
	changed bool
	// now is the time since Driver.start, taken once per round.
	now      time.Duration
	round    mail
	dirty    []*group
	outgoing map[NodeID][]Message
	// sends counts the snapshots that are being sent.
	sends        int
	ticks        tickClock
	nextHandOver time.Duration
}

// lifecycle is what Start and Stop need.
type lifecycle struct {
	mu         sync.Mutex
	started    bool
	stopped    bool
	stopping   chan struct{}
	loopDone   chan struct{}
	appendDone chan struct{}
	applyDone  chan struct{}
	cancel     context.CancelFunc
	workers    sync.WaitGroup
}

type failure struct{ err error }

func newDriver(cfg Config) *Driver {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Driver{
		cfg:     cfg,
		logger:  cfg.Logger,
		inbox:   newInbox(cfg.MaxInbox),
		appends: newQueue[appendItem](),
		applies: newQueue[applyItem](),
		loop:    loopState{dropping: make(map[GroupID]bool), outgoing: make(map[NodeID][]Message)},
		start:   time.Now(),
		failed:  make(chan struct{}),
		life: lifecycle{
			stopping:   make(chan struct{}),
			loopDone:   make(chan struct{}),
			appendDone: make(chan struct{}),
			applyDone:  make(chan struct{}),
			cancel:     cancel,
		},
	}
	d.background = func(f func(context.Context)) {
		d.life.workers.Go(func() { d.guard("background", func() { f(ctx) }) })
	}
	return d
}

// Start starts the goroutines. Groups whose only voter is this node elect it at once.
func (d *Driver) Start() {
	d.life.mu.Lock()
	defer d.life.mu.Unlock()
	if d.life.started || d.life.stopped {
		return
	}
	d.life.started = true
	d.running.Store(true)
	go func() {
		defer close(d.life.appendDone)
		d.guard("append", (&appender{driver: d}).run)
	}()
	go func() {
		defer close(d.life.applyDone)
		a := &applier{driver: d}
		d.guard("apply", a.run)
		a.abandon()
	}()
	go func() {
		defer close(d.life.loopDone)
		d.guard("raft loop", d.runLoop)
		d.closeLoop()
	}()
}

// Stop answers waiting calls, completes queued writes and waits for every goroutine. It may be called twice and before
// Start. Proposals that have not been applied are answered ErrOutcomeUnknown: stop the callers first.
func (d *Driver) Stop() {
	d.life.mu.Lock()
	defer d.life.mu.Unlock()
	if d.life.stopped {
		return
	}
	d.life.stopped = true
	d.running.Store(false)
	d.life.cancel()
	if !d.life.started {
		return
	}
	close(d.life.stopping)
	if d.join("raft loop", d.life.loopDone) {
		d.standDown(func(*group) bool { return true })
	}
	d.appends.close()
	d.join("append", d.life.appendDone)
	d.applies.close()
	d.join("apply", d.life.applyDone)
	workersDone := make(chan struct{})
	go func() {
		d.life.workers.Wait()
		close(workersDone)
	}()
	d.join("background", workersDone)
}

// stuckWait is how long Stop waits for a goroutine of a failed store: Pebble may never return from a commit whose memtable cannot be flushed.
const stuckWait = 3 * time.Second

// join waits for a goroutine and reports whether it ended.
func (d *Driver) join(name string, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-d.failed:
	}
	timer := time.NewTimer(stuckWait)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		d.logger.Error("goroutine is stuck in a failed store", slog.String("goroutine", name))
		return false
	}
}

// Fail marks the store as failed, like a failed commit. It is for a Pebble logger whose Fatalf must not end the
// process.
func (d *Driver) Fail(err error) {
	if err == nil {
		err = errors.New("failed without a reason")
	}
	f := &failure{err: fmt.Errorf("%w: %w", ErrFailed, err)}
	if !d.failure.CompareAndSwap(nil, f) {
		return
	}
	close(d.failed)
	d.logger.Error("store failed, no writes until restart", slog.Any("err", err))
	d.metrics.failed.Set(1)
	d.appends.close()
	d.applies.close()
	d.inbox.signal()
	d.cfg.OnFatal(f.err)
}

// Err returns why the store failed (an ErrFailed), nil if it has not.
func (d *Driver) Err() error {
	if f := d.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// closedErr is the error for callers once the loop accepts no more mail.
func (d *Driver) closedErr() error {
	if err := d.Err(); err != nil {
		return err
	}
	return ErrStopped
}

func (d *Driver) unknownErr() error {
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, d.closedErr())
}

// guard turns a panic into the failure of the store: raft panics on an inconsistent log, and a Pebble logger may panic
// on a failed write.
func (d *Driver) guard(name string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			err, ok := r.(error)
			if !ok {
				err = fmt.Errorf("%v", r)
			}
			d.logger.Error("panic in the replica driver", slog.String("goroutine", name), slog.Any("err", err), slog.String("stack", string(debug.Stack())))
			d.Fail(fmt.Errorf("%s panicked: %w", name, err))
		}
	}()
	f()
}

// Ready reports whether every group that this node is a member of has a known leader and this node has applied
// everything it knew to be committed when it started. Replicas that have no state yet or know of their removal do not
// count.
func (d *Driver) Ready() bool {
	return d.all(func(g *group) bool { return g.shared.settled.Load() && g.shared.view.Load() != nil })
}

// Settled is Ready without the condition on leaders, which this node may not hear of while others do.
func (d *Driver) Settled() bool {
	return d.all(func(g *group) bool { return g.shared.settled.Load() })
}

func (d *Driver) all(fine func(*group) bool) bool {
	if !d.running.Load() {
		return false
	}
	for g := range d.table.all() {
		if g.shared.initialised.Load() && g.shared.member.Load() && !fine(g) {
			return false
		}
	}
	return true
}

// tickClock turns real time into ticks. When the loop is late it catches up, but by no more than maxTicks at once.
type tickClock struct {
	ticker *time.Ticker
	last   time.Time
}

const maxTicks = 3

func (c *tickClock) channel() <-chan time.Time {
	if c.ticker == nil {
		return nil
	}
	return c.ticker.C
}

func (c *tickClock) enable(interval time.Duration) {
	if c.ticker == nil {
		c.ticker, c.last = time.NewTicker(interval), time.Now()
	}
}

func (c *tickClock) disable() {
	if c.ticker != nil {
		c.ticker.Stop()
		c.ticker = nil
	}
}

// due returns how many ticks are due and how many were dropped.
func (c *tickClock) due(now time.Time, interval time.Duration) (ticks, dropped int) {
	n := int((now.Sub(c.last) + interval/2) / interval)
	if n > maxTicks {
		c.last = now
		return maxTicks, n - maxTicks
	}
	c.last = c.last.Add(time.Duration(n) * interval)
	return n, 0
}
