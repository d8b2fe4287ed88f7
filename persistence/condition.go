package persistence

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// condition is what everybody asks before writing: has the store failed, is the disk full.
//
// A failure is for ever: after a failed write or sync nobody knows what is on the disk, and going on could make later
// writes durable on top of lost ones. Fullness comes and goes.
type condition struct {
	logger *slog.Logger
	failed atomic.Pointer[error]
	full   atomic.Bool

	mu   sync.Mutex // held while the first failure is told
	hear func(error)
}

func newCondition(logger *slog.Logger) *condition {
	return &condition{logger: logger}
}

// writable is the reason why nothing may be written, nil if there is none.
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

// fail records the first failure and tells it. When it returns, whoever called it, the failure is known to all: what
// hears it must not call back. It may be called from anywhere, also from inside the storage engine.
func (c *condition) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record(err) && c.hear != nil {
		c.hear(err)
	}
}

// known is the failure once it has been told: whoever acts on it may rely on the hearer knowing it too.
func (c *condition) known() error {
	err := c.failure()
	if err != nil {
		c.mu.Lock() // waits for a fail under way
		defer c.mu.Unlock()
	}
	return err
}

// record is fail for the one who would hear it.
func (c *condition) record(err error) bool {
	wrapped := fmt.Errorf("%w: %w", ErrFailed, err)
	if !c.failed.CompareAndSwap(nil, &wrapped) {
		return false
	}
	c.logger.Error("storage failed, writes are refused until restart", slog.Any("err", err))
	return true
}

// onFailure has hear called with the first failure, at once if it was before.
func (c *condition) onFailure(hear func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear = hear
	if err := c.failure(); err != nil {
		hear(err)
	}
}

// setFull notes whether the disk is full, and logs the change.
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
