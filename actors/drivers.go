package actors

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/kit"
	"parley/proto/failurepb"
)

// drivers is a worker pool with at most one worker, a driver, per entity: a goroutine that carries out what the entity's
// rules asked for and reports the result by a command. A newer driver of an entity replaces the one before and starts when
// that has ended.
type drivers struct {
	max   int // drivers that run at the same time; others wait
	gauge prometheus.Gauge
	log   *slog.Logger
	life  context.Context //nolint:containedctx // of everything that runs here, until drained
	end   context.CancelFunc
	wg    sync.WaitGroup

	mu struct {
		sync.Mutex
		newest  map[string]*drive // of each entity, by its id
		queue   []*drive          // wait for room, oldest first
		running int
		over    bool
	}
}

// drive is one driver's job.
type drive struct {
	at      Entity
	job     any // comparable: another drive of the entity with the same job would do just the same; nil = who knows
	run     func(ctx context.Context)
	ctx     context.Context //nolint:containedctx // a driver's life, not a request
	cancel  context.CancelFunc
	former  <-chan struct{} // closed when what drove the entity before has ended
	done    chan struct{}
	started bool
}

func newDrivers(most int, gauge prometheus.Gauge, log *slog.Logger) *drivers {
	d := &drivers{max: most, gauge: gauge, log: log}
	d.life, d.end = context.WithCancel(context.Background())
	d.mu.newest = make(map[string]*drive)
	return d
}

// drive starts a driver for an entity, after the present one has ended. It does nothing while a driver with the same job
// runs in the same epoch. The run must return soon after its context has ended.
func (d *drivers) drive(at Entity, job any, run func(ctx context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.over {
		return
	}
	next := &drive{at: at, job: job, run: run, done: make(chan struct{})}
	if former := d.mu.newest[at.ID]; former != nil {
		if former.ctx.Err() == nil && former.at.Epoch == at.Epoch && job != nil && former.job == job {
			return
		}
		d.dismissLocked(former)
		next.former = former.done
	}
	next.ctx, next.cancel = context.WithCancel(d.life)
	d.mu.newest[at.ID] = next
	d.mu.queue = append(d.mu.queue, next)
	d.startLocked()
}

// drives reports whether an entity has a driver of its epoch, running or waiting for room.
func (d *drivers) drives(at Entity) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.mu.newest[at.ID]
	return d.mu.over || one != nil && one.at.Epoch == at.Epoch
}

// startLocked starts waiting drives while there is room.
func (d *drivers) startLocked() {
	for len(d.mu.queue) > 0 && d.mu.running < d.max {
		next := d.mu.queue[0]
		d.mu.queue[0] = nil
		d.mu.queue = d.mu.queue[1:]
		d.mu.running++
		d.gauge.Inc()
		next.started = true
		d.wg.Go(func() {
			defer d.ended(next)
			if next.former != nil {
				<-next.former // it has been told to end
			}
			d.guard(next)
		})
	}
}

// guard confines a panic to the drive that caused it.
func (d *drivers) guard(one *drive) {
	defer func() {
		if fault := recover(); fault != nil {
			d.log.Error("driver panicked", slog.String("entity", one.at.ID), slog.String("fault", fmt.Sprint(fault)),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	one.run(one.ctx)
}

// dismissLocked removes a drive and cancels it.
func (d *drivers) dismissLocked(one *drive) {
	one.cancel()
	delete(d.mu.newest, one.at.ID)
	if one.started {
		return
	}
	d.mu.queue = slices.DeleteFunc(d.mu.queue, func(other *drive) bool { return other == one })
	former := one.former
	if former == nil {
		close(one.done)
		return
	}
	d.wg.Go(func() { // it has ended once the one before it has
		<-former
		close(one.done)
	})
}

func (d *drivers) ended(one *drive) {
	one.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	close(one.done)
	if d.mu.newest[one.at.ID] == one {
		delete(d.mu.newest, one.at.ID)
	}
	d.mu.running--
	d.gauge.Dec()
	d.startLocked()
}

// spare runs a short call on its own goroutine. It returns false if there is no place for it.
func (d *drivers) spare(places chan struct{}, do func(ctx context.Context)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.over {
		return false
	}
	select {
	case places <- struct{}{}:
	default:
		return false
	}
	d.wg.Go(func() {
		defer func() { <-places }()
		do(d.life)
	})
	return true
}

// release cancels the drivers of a shard that were started under epochs up to the given one.
func (d *drivers) release(shard uint32, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.mu.newest {
		if one.at.Shard == shard && one.at.Epoch <= epoch {
			d.dismissLocked(one)
		}
	}
}

// drain cancels all drivers and waits for them. Their entities stay open for the next owner.
func (d *drivers) drain(context.Context) {
	d.mu.Lock()
	d.mu.over = true
	for _, one := range d.mu.newest {
		d.dismissLocked(one)
	}
	d.mu.Unlock()
	d.end()
	d.wg.Wait()
}

// Short names for functions of the kit.
func repeat(ctx context.Context, do func() error) error { return kit.Repeat(ctx, do) }

func pause(ctx context.Context, try int) { kit.Pause(ctx, try) }

func codeIs(err error, code failurepb.Code) bool { return kit.IsCode(err, code) }
