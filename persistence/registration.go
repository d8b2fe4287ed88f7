package persistence

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// registration registers metrics while a store is open. Its MustRegister does not panic: the error becomes one of Open.
type registration struct {
	to prometheus.Registerer // nil: nowhere

	mu   sync.Mutex
	held []prometheus.Collector
	errs []error
}

// Register registers a collector.
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

// MustRegister registers collectors; err returns what went wrong.
func (r *registration) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
		}
	}
}

// Unregister removes a collector.
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

// close unregisters everything.
func (r *registration) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.held {
		r.to.Unregister(c)
	}
	r.held = nil
}
