package persistence

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// registration registers for as long as a store is open, and turns the panic of MustRegister into an error of Open.
type registration struct {
	to prometheus.Registerer // nil: nowhere

	mu   sync.Mutex
	held []prometheus.Collector
	errs []error
}

// Register passes a collector on.
func (r *registration) Register(c prometheus.Collector) error {
	if r.to == nil {
		return nil
	}
	if err := r.to.Register(c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, c)
	return nil
}

// MustRegister passes collectors on; err tells whether all were taken.
func (r *registration) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
		}
	}
}

// Unregister takes a collector back.
func (r *registration) Unregister(c prometheus.Collector) bool {
	return r.to != nil && r.to.Unregister(c)
}

func (r *registration) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.errs...); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// close takes everything back.
func (r *registration) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.held {
		r.to.Unregister(c)
	}
	r.held = nil
}
