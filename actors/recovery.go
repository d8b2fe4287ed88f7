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
	for passes := 0; ; {
		found, err := s.recoverOnce(h, t, passes < 2)
		if s.work.Err() != nil || t.over.Load() {
			return
		}
		switch {
		case err != nil:
			log.Warn("recovery of open turns goes on later", slog.Any("err", err))
			pause = min(2*pause, lastRecovery)
		case passes > 0:
			passes, pause = passes+1, s.config.RecoverEvery
		default:
			if found > 0 {
				s.metrics.recoveries.Add(float64(found))
				log.Info("open turns recovered", slog.Int("count", found))
			}
			passes, pause = 1, secondRecovery
		}
		if !sleep(s.work, t.ctx, pause) {
			return
		}
	}
}

// ahead is what is added to Due.Ahead for clocks of nodes that differ.
const ahead = 10 * time.Second

// maxAhead bounds the entities of one kind that are activated because they are due soon: others are tried when they are.
const maxAhead = 16 * maxDue

// recoverOnce makes one pass. It returns the number of entities with open work that it found, and any one of the errors. fresh says that
// what a former owner was to report on is activated, too (Due.Ahead).
func (s *System) recoverOnce(h *host, t *term, fresh bool) (int, error) {
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
	found := len(ids)
	for _, due := range s.dues {
		if !fresh || due.Ahead == 0 {
			continue
		}
		query := DueQuery{List: due.List, Until: start.Add(due.Ahead + ahead), Limit: maxAhead}
		if err := s.config.Journal.Due(ctx, h.shard, query, func(id string) { ids = append(ids, id) }); err != nil {
			return 0, err
		}
	}
	if !h.prove(t, start) {
		return 0, h.notOwner()
	}
	return found, s.askAll(h, t, ids, func(id string) question { return inside(id, nil) })
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
