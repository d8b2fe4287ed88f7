package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

const (
	histogramMax    = int64(10 * time.Minute / time.Microsecond)
	histogramDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramMax, histogramDigits)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Never out of range: the value is clamped.
	_ = h.RecordValue(min(max(int64(d/time.Microsecond), 1), histogramMax))
}

// operation is one request of a caller. n counts the caller's requests.
type operation func(caller, n int) error

// load runs an operation with many callers and measures it.
type load struct {
	options *Options
	live    *progress
	op      operation
	issued  atomic.Int64
	begin   func() // called between warm-up and measuring; nil = nothing
}

type tally struct {
	latency *hdrhistogram.Histogram
	ok      int64
	errors  map[string]int64
}

func newTally() *tally { return &tally{latency: newHistogram(), errors: map[string]int64{}} }

func (t *tally) add(err error, took time.Duration) {
	if err == nil {
		t.ok++
		record(t.latency, took)
		return
	}
	t.errors[err.Error()]++
}

func (t *tally) merge(other *tally) {
	t.latency.Merge(other.latency)
	t.ok += other.ok
	for code, n := range other.errors {
		t.errors[code] += n
	}
}

// run warms up, then measures, and returns what was measured and how long that took.
func (l *load) run(ctx context.Context) (*tally, time.Duration) {
	if l.options.WarmUp > 0 {
		l.live.warmUp(l.options)
		l.phase(ctx, time.Now().Add(l.options.WarmUp), 0)
	}
	l.live.measuring(l.options)
	if l.begin != nil {
		l.begin()
	}
	start := time.Now()
	var until time.Time
	if l.options.Count == 0 {
		until = start.Add(l.options.Duration)
	}
	total := l.phase(ctx, until, int64(l.options.Count))
	return total, time.Since(start)
}

// phase runs callers until a time or until count operations have been issued.
func (l *load) phase(ctx context.Context, until time.Time, count int64) *tally {
	l.issued.Store(0)
	start := time.Now()
	total := newTally()
	var mu sync.Mutex
	var callers sync.WaitGroup
	for caller := range l.options.Concurrency {
		callers.Go(func() {
			own := newTally()
			l.caller(ctx, caller, start, until, count, own)
			mu.Lock()
			defer mu.Unlock()
			total.merge(own)
		})
	}
	callers.Wait()
	return total
}

//nolint:revive // argument-limit: the phase's own numbers, private to it
func (l *load) caller(ctx context.Context, caller int, start, until time.Time, count int64, own *tally) {
	for n := 0; ctx.Err() == nil; n++ {
		turn := l.issued.Add(1) - 1
		if count > 0 && turn >= count {
			return
		}
		begin := time.Now()
		if l.options.Rate > 0 {
			begin = start.Add(time.Duration(float64(turn) / l.options.Rate * float64(time.Second)))
			if !until.IsZero() && begin.After(until) {
				return
			}
			if !sleepUntil(ctx, begin) {
				return
			}
		} else if !until.IsZero() && begin.After(until) {
			return
		}
		err := l.op(caller, n)
		own.add(err, time.Since(begin))
		l.live.count(err)
	}
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// preparers is how many preparations run at once.
const preparers = 64

// prepare runs n preparations, a bounded number at once, and stops at the first that fails.
func prepare(ctx context.Context, live *progress, what string, n int, do func(i int) error) error {
	live.preparing(what, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(preparers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := do(i); err != nil {
				return err
			}
			live.count(nil)
			return nil
		})
	}
	return group.Wait()
}
