package sse

import (
	"parley/actors/core/letters"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// follower is one stream of a topic. Its fields are guarded by the topic's lock.
type follower struct {
	topic  *topic
	conn   *conn
	view   View
	cursor uint64 // seq of the newest event the client has
	run    string // the run whose text the client holds,
	gen    uint32 // which version of it (topic.gen),
	offset int32  // and how many bytes
	at     int32  // index in the topic's list

	shared  bool
	greeted bool // the opening snapshot has been sent or skipped
	live    bool // receives events as they come
	known   bool // the cursor is known to be in the log, even if it is ahead of the topic
	pumping bool // a worker is serving it
	over    bool // ended, or about to
	tries   uint8

	waiting bool // in the workers' list; guarded by its lock
}

// drained implements owner.
func (f *follower) drained() { f.topic.hub.catchup.add(f) }

// ended implements owner.
func (f *follower) ended(ending) {
	t := f.topic
	t.mu.Lock()
	f.over = true
	last := len(t.followers) - 1
	if int(f.at) <= last && t.followers[f.at] == f {
		t.followers[f.at] = t.followers[last]
		t.followers[f.at].at = f.at
		t.followers[last] = nil
		t.followers = t.followers[:last]
	}
	t.mu.Unlock()
	t.hub.leave(t)
}

// refused implements owner.
func (f *follower) refused(failure *machine.Failure) {
	why := Forbidden
	if failure.Code == failurepb.Code_AUTH_REQUIRED {
		why = Unauthorized
	}
	f.topic.mu.Lock()
	defer f.topic.mu.Unlock()
	f.end(why)
}

// deliver sends a durable event to the client.
func (f *follower) deliver(e *entry, on lane) {
	frame, done := e.render(f.view, f.shared)
	f.cursor = e.event.GetSeq()
	f.known = true
	switch {
	case done:
		f.over = true
		f.conn.finish(frame, endDone)
	case frame != nil:
		f.conn.push(frame, on)
	}
}

// end ends the stream with the view's final frame.
func (f *follower) end(why EndReason) {
	if f.over {
		return
	}
	f.over = true
	f.conn.finish(f.view.End(why), [...]ending{
		Stopping: endStop, Deleted: endGone, Lost: endLost, Unauthorized: endRefused, Forbidden: endRefused,
	}[why])
}

// greet sends the snapshot if a run is active. A client ahead of the topic may have seen that run's end.
func (f *follower) greet(t *topic) {
	if f.greeted {
		return
	}
	f.greeted = true
	if t.run.ID == "" || f.cursor > t.lastSeq {
		return
	}
	f.holds(t.run, t.gen)
	if frame := f.view.Snapshot(t.run); frame != nil {
		f.conn.push(frame, urgent)
	}
}

// holds records how much of the running text the client has.
func (f *follower) holds(run Run, gen uint32) {
	f.run, f.gen, f.offset = run.ID, gen, int32(len(run.Text))
}

// sendText sends the running text that the client has not received. To a client that lags it sends larger pieces, each once
// the client has read what is queued.
func (f *follower) sendText(t *topic, cache *renderedDeltas, on lane) {
	if t.run.ID == "" || f.cursor > t.lastSeq {
		return
	}
	for f.conn.awaitRoom() && f.sendPiece(t, cache, on) {
	}
}

// sendPiece sends the next piece. It is false when the client has everything.
func (f *follower) sendPiece(t *topic, cache *renderedDeltas, on lane) (more bool) {
	var frame Frame
	run := t.run
	if f.gen != t.gen && f.run == t.run.ID && f.offset > 0 {
		frame = f.view.Snapshot(run)
	} else {
		offset := 0
		if f.gen == t.gen {
			offset = int(f.offset)
		}
		if offset == len(run.Text) {
			return false
		}
		run.Text = letters.Head(run.Text, offset+t.hub.cfg.QueueBytes/2)
		frame = cache.delta(f, run, offset)
	}
	f.holds(run, t.gen)
	if frame != nil {
		f.conn.push(frame, on)
	}
	return len(run.Text) < len(t.run.Text)
}

// renderedDeltas caches the renderings of one delta while it is fanned out.
type renderedDeltas struct {
	kept []renderedDelta
}

type renderedDelta struct {
	view   View
	offset int
	frame  Frame
}

func (s *renderedDeltas) delta(f *follower, run Run, offset int) Frame {
	if !f.shared || s == nil {
		return f.view.Delta(run, offset)
	}
	for i := range s.kept {
		if k := &s.kept[i]; k.offset == offset && k.view == f.view {
			return k.frame
		}
	}
	frame := f.view.Delta(run, offset)
	if len(s.kept) < renderingsKept {
		s.kept = append(s.kept, renderedDelta{f.view, offset, frame})
	}
	return frame
}
