package actors

import "time"

// renewLeases is the lease renewer: it renews the proof of ownership of the shards on which runs stream. Appends renew it
// too, but a model may stream for a long time without one.
func (s *System) renewLeases() {
	pause := max(s.config.StreamLease/4, time.Millisecond)
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-s.work.Done():
			return
		case <-ticker.C:
		}
		for _, h := range *s.hosts.Load() {
			if h == nil {
				continue
			}
			t := h.term.Load()
			if t == nil || t.streams.Load() == 0 {
				continue
			}
			if t.unproven() >= pause && t.proving.CompareAndSwap(false, true) {
				s.tasks.Go(func() { s.renewLease(h, t) })
			} else if t.textHeld.Load() {
				s.publishHeld(h, t)
			}
		}
	}
}

// prove asks the journal once, for as long as the answer would be of use. That it fails needs no answer: who leads the shard is told by others.
func (s *System) renewLease(h *host, t *term) {
	defer t.proving.Store(false)
	start := time.Now()
	ctx, cancel := t.bound(s.work, s.config.StreamLease)
	defer cancel()
	if err := s.config.Journal.Confirm(ctx, h.shard); err == nil && h.prove(t, start) {
		s.publishHeld(h, t)
	}
}

func (s *System) publishHeld(h *host, t *term) {
	if t.textHeld.Swap(false) {
		s.streams.flush(h.shard)
	}
}
