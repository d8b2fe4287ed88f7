package persistence

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserveName is the file that is deleted when the disk is full.
const reserveName = "RESERVE"

// space watches what the store may run out of: disk space and file descriptors. Below the watermark of free space
// writes are refused; a quarter above it they are accepted again, so that it does not flap.
type space struct {
	fs          vfs.FS
	path        string // of the reserve
	reserve     int64
	free        func() (uint64, error)
	low, high   uint64
	interval    time.Duration
	condition   *condition
	logger      *slog.Logger
	descriptors *descriptorReserve
	kick        chan struct{}
	seen        atomic.Uint64 // free bytes as last measured

	mu   sync.Mutex
	held bool // the reserve file exists
	dumb bool // the file system does not report free space
}

func newSpace(o Options, c *condition) *space {
	return &space{
		fs: o.FS, path: o.FS.PathJoin(o.Dir, reserveName), reserve: o.ReserveBytes, free: o.FreeBytes,
		low: uint64(o.MinFreeBytes), high: uint64(o.MinFreeBytes) + uint64(o.MinFreeBytes)/4,
		interval: o.SpaceInterval, condition: c, logger: o.Logger, kick: make(chan struct{}, 1),
		descriptors: newDescriptorReserve(o.SpareFiles),
	}
}

// watch measures free space until ctx ends.
func (s *space) watch(ctx context.Context) {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.kick:
		}
		s.check()
		s.descriptors.fill()
	}
}

func (s *space) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dumb {
		s.condition.setFull(false, 0)
		return
	}
	free, err := s.free()
	if err != nil {
		s.dumb = errors.Is(err, vfs.ErrUnsupported)
		s.logger.Warn("free space is not known", slog.Any("err", err))
		return
	}
	s.seen.Store(free)
	switch {
	case free < s.low:
		s.condition.setFull(true, free)
	case free >= s.high:
		s.condition.setFull(false, free)
		s.hold(free)
	}
}

// hold creates the reserve file if there is room for it.
func (s *space) hold(free uint64) {
	if s.held || s.reserve <= 0 || free < s.high+uint64(s.reserve) || s.condition.failure() != nil {
		return
	}
	f, err := s.fs.Create(s.path, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, s.reserve), f.Close())
	}
	if outOfDescriptors(err) {
		return
	}
	if err != nil {
		s.reserve = 0
		s.logger.Warn("no reserve of disk space can be made", slog.Any("err", err))
		_ = s.fs.Remove(s.path)
		return
	}
	s.held = true
}

// exhausted is called inside a write that found the disk full. The write is retried once when it returns.
func (s *space) exhausted() {
	s.condition.setFull(true, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fs.Remove(s.path); err == nil {
		s.logger.Warn("disk is full, the reserve was given up")
	}
	s.held = false
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
