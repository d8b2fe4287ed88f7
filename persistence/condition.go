package persistence

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// condition records whether the store has failed and whether the disk is full. Every write checks it.
//
// A failure is permanent: after a failed write or sync the contents of the disk are unknown, and going on could make
// later writes durable on top of lost ones. Fullness comes and goes.
type condition struct {
	logger *slog.Logger
	failed atomic.Pointer[error]
	full   atomic.Bool

	mu     sync.Mutex // held while the first failure is reported
	report func(error)
}

func newCondition(logger *slog.Logger) *condition {
	return &condition{logger: logger}
}

// writable returns why writes are refused, or nil.
func (c *condition) writable() error {
	if err := c.failure(); err != nil {
		return err
	}
	if c.full.Load() {
		return ErrFull
	}
	return nil
}

func (c *condition) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail records the first failure and reports it to the listener, which must not call back. When fail returns, the
// failure has been reported, by this call or another. It may be called from anywhere, including from inside the storage
// engine.
func (c *condition) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record(err) && c.report != nil {
		c.report(err)
	}
}

// known returns the failure once it has been reported, so that a caller that acts on it can rely on the listener
// knowing of it.
func (c *condition) known() error {
	err := c.failure()
	if err != nil {
		c.mu.Lock() // waits for a fail in progress
		defer c.mu.Unlock()
	}
	return err
}

// record is fail without the report to the listener. It is false when there was a failure before.
func (c *condition) record(err error) bool {
	wrapped := fmt.Errorf("%w: %w", ErrFailed, err)
	if !c.failed.CompareAndSwap(nil, &wrapped) {
		return false
	}
	c.logger.Error("storage failed, writes are refused until restart", slog.Any("err", err))
	return true
}

// onFailure sets the listener for the first failure, and calls it at once if there has been one.
func (c *condition) onFailure(report func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = report
	if err := c.failure(); err != nil {
		report(err)
	}
}

// setFull records whether the disk is full, and logs a change.
func (c *condition) setFull(full bool, free uint64) {
	if c.full.Swap(full) == full {
		return
	}
	if full {
		c.logger.Error("disk is nearly full, writes are refused", slog.Uint64("free_bytes", free))
	} else {
		c.logger.Info("disk has room again, writes are accepted", slog.Uint64("free_bytes", free))
	}
}
