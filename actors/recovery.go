package actors

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// recover activates every entity of a shard that a former owner left with an open turn: activation begins with the
// machine's own recovery command. Entities that cannot be activated yet are tried again until they can, or until the
// epoch is over. No turn stays open because nobody asked for its conversation.
func (s *System) recover(h *host, t *tenure) {
	pause, epoch := 50*time.Millisecond, t.epoch
	for s.work.Err() == nil && !t.over.Load() {
		found, err := s.recoverOnce(h, t)
		if err == nil {
			if found > 0 {
				s.log.Info("open turns recovered", slog.Uint64("shard", uint64(h.shard)), slog.Uint64("epoch", epoch),
					slog.Int("count", found))
			}
			return
		}
		if t.over.Load() {
			return
		}
		s.log.Warn("recovery of open turns goes on later", slog.Uint64("shard", uint64(h.shard)),
			slog.Uint64("epoch", epoch), slog.Any("err", err))
		if !sleep(s.work, t.ctx, pause) {
			return
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// recoverOnce makes one pass and returns how many entities it found, and one of the errors.
func (s *System) recoverOnce(h *host, t *tenure) (int, error) {
	var ids []string
	start := time.Now()
	ctx, cancel := t.bound(s.work, s.config.LoadTimeout)
	err := s.config.Journal.Running(ctx, h.shard, func(id string) { ids = append(ids, id) })
	cancel()
	if err != nil {
		return 0, err
	}
	t.prove(start)
	var wg sync.WaitGroup
	defer wg.Wait()
	var failed atomic.Pointer[error]
	for _, id := range ids {
		select {
		case s.slots <- struct{}{}:
		case <-s.work.Done():
			return 0, s.work.Err()
		}
		wg.Go(func() {
			defer func() { <-s.slots }()
			if t.over.Load() {
				return
			}
			if _, wakeErr := s.ask(s.work, h.shard, inside(id, nil)); wakeErr != nil {
				failed.Store(&wakeErr)
				return
			}
			s.metrics.recoveries.Inc()
		})
	}
	wg.Wait()
	if first := failed.Load(); first != nil {
		return len(ids), *first
	}
	return len(ids), nil
}

// sleep waits; false when one of the contexts ended first.
func sleep(ctx, other context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-other.Done():
		return false
	}
}
