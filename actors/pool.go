package actors

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/kit"
)

// PoolConfig is what a Pool needs. Gauge is required; the other zero values mean the defaults.
type PoolConfig struct {
	// Gauge is the name of the metric of workers that run now, and its help.
	Gauge, Help string
	// MaxWorkers bounds the entities that are worked on at a time. Others wait. Default 10,000.
	MaxWorkers int
	// MaxCalls bounds the calls at a time. Default 1024.
	MaxCalls int

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// Pool is a kit.Pool.
type Pool struct {
	*drivers

	places chan struct{} // of calls
}

var _ kit.Pool = (*Pool)(nil)

// NewPool returns a pool. It begins nothing by itself.
func NewPool(config PoolConfig) (*Pool, error) {
	if config.Gauge == "" || config.MaxWorkers < 0 || config.MaxCalls < 0 {
		return nil, errors.New("actors: a Pool needs a Gauge, and MaxWorkers and MaxCalls that are not negative")
	}
	orDefault(&config.MaxWorkers, 10_000)
	orDefault(&config.MaxCalls, 1024)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	working := prometheus.NewGauge(prometheus.GaugeOpts{Name: config.Gauge, Help: config.Help})
	if config.Registerer != nil {
		config.Registerer.MustRegister(working)
	}
	return &Pool{drivers: newDrivers(config.MaxWorkers, working, config.Logger), places: make(chan struct{}, config.MaxCalls)}, nil
}

// Work implements kit.Pool.
func (p *Pool) Work(at Entity, job any, run func(ctx context.Context)) { p.drive(at, job, run) }

// Working implements kit.Pool.
func (p *Pool) Working(at Entity) bool { return p.drives(at) }

// Call implements kit.Pool.
func (p *Pool) Call(at Entity, what string, do func(ctx context.Context) error) bool {
	return p.spare(p.places, func(ctx context.Context) {
		if err := do(ctx); err != nil {
			p.log.Debug("a call for an entity failed", slog.String("call", what), slog.String("entity", at.ID), slog.Any("err", err))
		}
	})
}

// Log implements kit.Pool.
func (p *Pool) Log(at Entity, what string, err error) {
	p.log.Warn("an entity is not worked on any further", slog.String("work", what), slog.String("entity", at.ID), slog.Any("err", err))
}

// Release implements kit.Pool.
func (p *Pool) Release(shard uint32, epoch uint64) { p.release(shard, epoch) }

// Drain implements kit.Pool.
func (p *Pool) Drain(ctx context.Context) { p.drain(ctx) }
