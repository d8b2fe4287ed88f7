package provider

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/stranger"
	"parley/proto/agentpb"
)

// Config is how an Executor makes calls.
type Config struct {
	// RetryBase is the first pause before another attempt; it doubles with each, up to RetryMax. A random part of it, at most
	// half, is taken off, so that calls which failed together do not return together.
	RetryBase, RetryMax time.Duration
	// MaxRetryAfter is the longest pause that a provider may ask for with Retry-After. When it asks for more, the call fails at once.
	MaxRetryAfter time.Duration
	// Circuits are shared by all executors of a process. nil = no call is refused because others failed.
	Circuits *Circuits
	// Metrics is the prefix of the names of the metrics, Label their label: Call.Name is its value.
	Metrics, Label string

	Jitter     func() float64        // in [0,1); nil = math/rand
	Logger     *slog.Logger          // hears of further attempts; nil = nobody
	Registerer prometheus.Registerer // nil = the metrics are not registered
}

// Executor makes calls. It is safe for concurrent use.
type Executor struct {
	config  Config
	metrics *metrics
}

// New returns an Executor.
func New(config Config) *Executor {
	if config.Jitter == nil {
		config.Jitter = rand.Float64
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{config: config, metrics: newMetrics(config.Registerer, config.Metrics, config.Label)}
}

// Call is one call of a provider: one or more attempts. One goroutine uses it.
type Call struct {
	// Name is the label of the call's metrics: the provider or the service.
	Name string
	// Circuit names the service that is called (CircuitID). "" = it is not watched.
	Circuit string
	// Patient says that an open circuit is waited for, as far as the deadline of the call allows. Otherwise the call is
	// refused at once.
	Patient bool
	// Retries is how many further attempts are made.
	Retries int
	// Attrs are of the log records about the call.
	Attrs []slog.Attr

	executor *Executor
	meters   *meters
	started  time.Time
	begun    bool
	watched  bool // the circuit waits for a report
}

// Start begins a call. Call.End ends it.
func (e *Executor) Start(call Call) *Call {
	call.executor, call.meters, call.started = e, e.metrics.of(call.Name), time.Now()
	call.meters.running.Inc()
	return &call
}

// Begun says that a piece of the answer was passed on: the service works, and nothing is repeated any more.
func (c *Call) Begun() {
	if c.begun {
		return
	}
	c.begun = true
	c.report(healthy)
	c.meters.firstToken.Observe(time.Since(c.started).Seconds())
}

// End counts the call by its outcome: "ok", "cancelled" or a word of the surface for what went wrong.
func (c *Call) End(outcome string) {
	c.meters.running.Dec()
	c.executor.metrics.calls.WithLabelValues(c.Name, outcome).Inc()
	c.meters.duration.Observe(time.Since(c.started).Seconds())
}

// Run makes attempts until one succeeds, none is worth it, or a piece of the answer was passed on. When ctx ends it returns
// context.Cause(ctx), or why there is no memory for the answer, otherwise the error of the last attempt, or a *Failure of class CircuitOpen.
func (c *Call) Run(ctx context.Context, try func(ctx context.Context, number int) error) error {
	if err := c.admit(ctx); err != nil {
		return err
	}
	found := unknown
	defer func() { c.report(found) }()
	for number := 0; ; number++ {
		err := try(ctx, number)
		if err == nil {
			found = healthy
			return nil
		}
		if why := stranger.From(ctx).Err(); why != nil {
			return why // our memory says nothing of the service
		}
		if ctx.Err() != nil {
			cause := context.Cause(ctx)
			if IsTimeLimit(cause) {
				found = failing
			}
			return cause
		}
		failed, judged := errors.AsType[Verdict](err)
		if !judged {
			return err // the adapter's own refusal says nothing of the service
		}
		pause, again := c.pause(ctx, failed, number)
		if !again {
			found = healthy
			if failed.Outage() {
				found = failing
			}
			return err
		}
		c.executor.metrics.retries.WithLabelValues(c.Name).Inc()
		c.executor.config.Logger.LogAttrs(ctx, slog.LevelWarn, "model call is tried again", c.attrs(
			slog.Int("attempt", number+1), slog.Duration("pause", pause), slog.String("err", err.Error()))...)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Verdict is an error of an attempt that says what it means for the call. Failure is one.
type Verdict interface {
	error
	// Again says that another attempt now may help.
	Again() bool
	// Pause is how long the provider asks to be left alone; 0 = it did not say.
	Pause() time.Duration
	// Outage says that the service failed, and not the request.
	Outage() bool
}

// admit waits for the circuit, or says why the call is not made.
func (c *Call) admit(ctx context.Context) error {
	circuits := c.executor.config.Circuits
	if circuits == nil || c.Circuit == "" {
		return nil
	}
	for waited := false; ; waited = true {
		wait, trial, ok := circuits.enter(c.Circuit)
		if ok {
			c.watched = true
			return nil
		}
		deadline, bounded := ctx.Deadline()
		hopeless := waited && trial == nil // it was tried meanwhile, and failed again
		if !c.Patient || hopeless || bounded && time.Until(deadline) <= wait {
			c.executor.metrics.refused.WithLabelValues(c.Name).Inc()
			return &Failure{Class: CircuitOpen, After: cmp.Or(wait, circuits.reset)} // without a wait another call tries it just now
		}
		if !waited {
			c.executor.config.Logger.LogAttrs(ctx, slog.LevelInfo, "model call waits: its provider has failed too often",
				c.attrs(slog.Duration("pause", wait))...)
		}
		if err := await(ctx, wait, trial); err != nil {
			return err
		}
	}
}

func (c *Call) report(found health) {
	if c.watched {
		c.watched = false
		c.executor.config.Circuits.report(c.Circuit, found)
	}
}

// pause is how long to wait before the next attempt, and whether there is one.
func (c *Call) pause(ctx context.Context, failed Verdict, number int) (time.Duration, bool) {
	config := &c.executor.config
	asked := failed.Pause()
	if c.begun || !failed.Again() || number >= c.Retries || asked > config.MaxRetryAfter {
		return 0, false
	}
	wait := config.RetryMax
	if number < 32 && config.RetryBase<<number > 0 {
		wait = min(wait, config.RetryBase<<number)
	}
	wait = max(wait-time.Duration(config.Jitter()*float64(wait/2)), asked)
	deadline, bounded := ctx.Deadline()
	return wait, !bounded || time.Until(deadline) > wait
}

func (c *Call) attrs(more ...slog.Attr) []slog.Attr {
	return append(append([]slog.Attr{slog.String(c.executor.config.Label, c.Name)}, c.Attrs...), more...)
}

// sleep waits, or returns the cause when ctx ends first.
func sleep(ctx context.Context, wait time.Duration) error { return await(ctx, wait, nil) }

// await waits for an event, or where there is none for a time; it returns the cause when ctx ends first.
func await(ctx context.Context, wait time.Duration, event <-chan struct{}) error {
	var due <-chan time.Time
	if event == nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-due:
		return nil
	case <-event:
		return nil
	}
}

// maxRetries bounds what the record of a model may ask for.
const maxRetries = 10

// Retries is how many further attempts a model gets: its own number (negative = none), or the default where it has none.
func Retries(model *agentpb.Model, otherwise int) int {
	if own := model.GetMaxRetries(); own != 0 {
		otherwise = int(own)
	}
	return min(max(otherwise, 0), maxRetries)
}
