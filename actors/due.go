package actors

import (
	"log/slog"
	"time"
)

// maxDue bounds the due entities of one kind and shard that one pass handles.
const maxDue = 1024

// watchDue sends due entities their command for as long as the shard is owned, starting at once. Due times are rows in
// storage, so they survive the activation, the node and a change of owner. The commands are held during a hand-over like
// a client's; the next owner finds the same rows.
func (s *System) watchDue(h *host, t *term) {
	for {
		more := false
		for _, due := range s.dues {
			more = s.sweepDue(h, t, due) || more
		}
		pause := s.config.DueEvery
		if more {
			pause /= 16
		}
		if !sleep(s.work, t.ctx, pause) {
			return
		}
	}
}

// sweepDue handles the due entities of one list. It reports whether more of them are probably due already.
func (s *System) sweepDue(h *host, t *term, due Due) (more bool) {
	var ids []string
	ctx, cancel := t.bound(s.work, s.config.LoadTimeout)
	query := DueQuery{List: due.List, Until: time.Now(), Limit: maxDue}
	err := s.config.Journal.Due(ctx, h.shard, query, func(id string) { ids = append(ids, id) })
	cancel()
	if err == nil && len(ids) > 0 {
		s.metrics.due.Add(float64(len(ids)))
		err = s.askAll(h, t, ids, func(id string) question { return outside(id, due.Command(id)) })
	}
	if err != nil && s.work.Err() == nil && !t.over.Load() {
		s.log.Warn("what is due is done later", slog.String("list", due.List), slog.Uint64("shard", uint64(h.shard)),
			slog.Uint64("epoch", t.epoch), slog.Any("err", err))
	}
	return err == nil && len(ids) == maxDue
}
