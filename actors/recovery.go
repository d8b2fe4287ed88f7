package actors

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstRecovery and lastRecovery bound the pause before a recovery that failed is tried again.
	firstRecovery = 50 * time.Millisecond
	lastRecovery  = 5 * time.Second
	// secondRecovery is the pause before the second pass, which finds what a late append of the former term left open.
	secondRecovery = time.Second
)

// recover activates every entity of a shard that a former owner left with an open turn: activation begins with the
// machine's own recovery command. Entities that cannot be activated yet are tried again until they can, or until the
// term is over. Afterwards it looks again now and then: a turn may have been opened by an append that was given up.
// No turn stays open because nobody asked for its conversation.
func (s *System) recover(h *host, t *term) {
	log := s.log.With(slog.Uint64("shard", uint64(h.shard)), slog.Uint64("epoch", t.epoch))
	pause := firstRecovery
	for recovered := false; ; {
		found, err := s.recoverOnce(h, t)
		if s.work.Err() != nil || t.over.Load() {
			return
		}
		switch {
		case err != nil:
			log.Warn("recovery of open turns goes on later", slog.Any("err", err))
			pause = min(2*pause, lastRecovery)
		case recovered:
			pause = s.config.RecoverEvery
		default:
			if found > 0 {
				s.metrics.recoveries.Add(float64(found))
				log.Info("open turns recovered", slog.Int("count", found))
			}
			recovered, pause = true, secondRecovery
		}
		if !sleep(s.work, t.ctx, pause) {
			return
		}
	}
}

// recoverOnce makes one pass. It returns the number of entities it found, and any one of the errors.
func (s *System) recoverOnce(h *host, t *term) (int, error) {
	var ids []string
	start := time.Now()
	ctx, cancel := t.bound(s.work, s.config.LoadTimeout)
	defer cancel()
	for _, kind := range s.kinds {
		if kind.Running == "" {
			continue
		}
		if err := s.config.Journal.Running(ctx, h.shard, kind.Running, func(id string) { ids = append(ids, id) }); err != nil {
			return 0, err
		}
	}
	if !h.prove(t, start) {
		return 0, h.notOwner()
	}
	return len(ids), s.askAll(h, t, ids, func(id string) question { return inside(id, nil) })
}

// askAll sends a command to each of some entities, as many at a time as RecoverConcurrency allows, and returns one of
// the errors.
func (s *System) askAll(h *host, t *term, ids []string, of func(id string) question) error {
	ctx, cancel := t.within(s.work)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	var failed atomic.Pointer[error]
	for _, id := range ids {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		wg.Go(func() {
			defer func() { <-s.slots }()
			if t.over.Load() {
				return
			}
			if _, err := s.ask(ctx, h.shard, of(id)); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if one := failed.Load(); one != nil {
		return *one
	}
	return nil
}

// sleep waits for d and returns false if one of the contexts ends first.
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
