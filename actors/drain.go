package actors

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// hold is which external commands wait in the host.
type hold int

const (
	holdNone   hold = iota
	holdStarts      // those that begin something that Finish waits for
	holdAll
)

type (
	// holdOrder changes what is held. quiet, if set, is closed once no activation has an earlier command.
	holdOrder struct {
		term  *term
		hold  hold
		quiet chan<- struct{}
	}
	becameQuiet struct{}
)

// Drain prepares a shard for a planned hand-over. New commands that would start turns are held while running turns get
// until ctx ends to finish; then all new commands are held, and when the last append has finished it returns nil: the
// shard is still owned, and quiet but for turns that would not end, whose commands pass. Then either Disown, which
// sends the held commands to the next owner, or Undrain, which serves them. Held commands count among MaxInFlight. Two
// drains of a shard are one.
//
// On an error nothing is held: NotOwnerError when the shard is not owned or is lost meanwhile; another one when appends
// do not finish in time.
func (s *System) Drain(ctx context.Context, shard uint32) error {
	h := s.hostIf(shard)
	if h == nil {
		return &NotOwnerError{Shard: shard}
	}
	t := h.term.Load()
	if t == nil {
		return h.refusal()
	}
	start := time.Now()
	turns, cancel := t.within(ctx)
	defer cancel()
	// A command that is with its activation already may still start a turn; a turn that has started is waited for.
	err := h.holdAndWait(turns, t, holdStarts)
	for _, kind := range s.kinds {
		if err == nil && kind.Finish != nil {
			kind.Finish(turns, shard)
		}
	}
	inTime := turns.Err() == nil
	appends, cancelAppends := t.bound(context.WithoutCancel(ctx), s.config.AppendTimeout)
	defer cancelAppends()
	if err := h.holdAndWait(appends, t, holdAll); err != nil {
		s.release(h)
		if t.over.Load() {
			return h.refusal()
		}
		return fmt.Errorf("drain shard %d: appends do not finish: %w", shard, err)
	}
	s.recordHandOver(appends, h, t, t.epoch)
	s.metrics.drains.Observe(time.Since(start).Seconds())
	s.log.Debug("shard drained", slog.Uint64("shard", uint64(shard)), slog.Uint64("epoch", t.epoch),
		slog.Bool("turns_finished", inTime), slog.Duration("took", time.Since(start)))
	return nil
}

// Underway is how much of what Drain waits for a shard has.
func (s *System) Underway(shard uint32) int {
	sum := 0
	for _, kind := range s.kinds {
		if kind.Underway != nil {
			sum += kind.Underway(shard)
		}
	}
	return sum
}

// Undrain ends a drain that was not followed by Disown: held commands are served.
func (s *System) Undrain(shard uint32) {
	h := s.hostIf(shard)
	if h == nil {
		return
	}
	if t := s.release(h); t != nil {
		ctx, cancel := t.bound(s.work, s.config.AppendTimeout)
		defer cancel()
		s.recordHandOver(ctx, h, t, 0)
	}
}

// release lets held commands be served and returns the current term, nil = none.
func (s *System) release(h *host) *term {
	t := h.term.Load()
	if t != nil {
		s.root.Send(h.pid, &holdOrder{term: t, hold: holdNone})
	}
	return t
}

// holdAndWait makes the host hold commands and waits until no activation has an earlier one.
func (h *host) holdAndWait(ctx context.Context, t *term, what hold) error {
	quiet := make(chan struct{})
	h.system.root.Send(h.pid, &holdOrder{term: t, hold: what, quiet: quiet})
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The rest is the host's.

func (h *host) applyHold(m *holdOrder) {
	if m.term != h.serving {
		return // the caller checks the term itself
	}
	if m.hold == holdNone {
		h.release()
		return
	}
	h.holding = max(h.holding, m.hold)
	h.quiet = append(h.quiet, m.quiet)
	h.watched.Store(true)
	if h.active.Load() == 0 {
		h.notifyQuiet()
	}
}

// holds reports whether a command has to wait. Internal commands pass, so that turns can end and recovery can start.
func (h *host) holds(a *ask) bool {
	switch {
	case h.holding == holdNone, a.inside:
		return false
	case h.holding == holdAll:
		return true
	}
	return a.kind.Starts != nil && a.kind.Starts(a.command)
}

// release ends the hold: held commands are served, or refused if the shard is no longer owned.
func (h *host) release() {
	held := h.held
	h.holding, h.held, h.quiet = holdNone, nil, nil
	h.watched.Store(false)
	for _, a := range held {
		h.route(a)
	}
}

// finished is called by an activation that is done with a command.
func (h *host) finished() {
	if h.active.Add(-1) == 0 && h.watched.Load() {
		h.system.root.Send(h.pid, &becameQuiet{})
	}
}

func (h *host) notifyQuiet() {
	if h.active.Load() > 0 {
		return // a turn's command has arrived in the meantime; becameQuiet follows it
	}
	h.watched.Store(false)
	for _, quiet := range h.quiet {
		close(quiet)
	}
	h.quiet = nil
}
