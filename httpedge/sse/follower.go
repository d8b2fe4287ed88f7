package sse

import (
	"unicode/utf8"

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
	gen    uint32 // which saying of it,
	offset int32  // and how many bytes
	at     int32  // index in the topic's list

	shared  bool
	greeted bool // the snapshot's turn has passed
	live    bool // hears events as they come
	known   bool // the cursor is in the log, even where it is ahead of the topic
	pumping bool // a worker has it
	over    bool // ended, or about to
	tries   uint8

	waiting bool // in the list of the workers; guarded by their lock
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
	f.part(why)
}

// deliver sends a durable event.
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

// part ends the stream with the view's last words.
func (f *follower) part(why Parting) {
	if f.over {
		return
	}
	f.over = true
	f.conn.finish(f.view.Parting(why), [...]ending{
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

// holds notes what the client has of the running text.
func (f *follower) holds(run Run, gen uint32) {
	f.run, f.gen, f.offset = run.ID, gen, int32(len(run.Text))
}

// say sends what the client misses of the running text, unless it lags: then it is said in larger pieces, each once the client
// has taken what waits for it.
func (f *follower) say(t *topic, said *sayings, on lane) {
	if t.run.ID == "" || f.cursor > t.lastSeq {
		return
	}
	for f.conn.awaitRoom() && f.sayPiece(t, said, on) {
	}
}

// sayPiece is false when the client has heard all.
func (f *follower) sayPiece(t *topic, said *sayings, on lane) (more bool) {
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
		run.Text = upTo(run.Text, offset+t.hub.cfg.QueueBytes/2)
		frame = said.delta(f, run, offset)
	}
	f.holds(run, t.gen)
	if frame != nil {
		f.conn.push(frame, on)
	}
	return len(run.Text) < len(t.run.Text)
}

// upTo cuts a text where a character begins.
func upTo(text []byte, end int) []byte {
	if end >= len(text) {
		return text
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// sayings keeps the renderings of one delta while it is fanned out.
type sayings struct {
	kept []saying
}

type saying struct {
	view   View
	offset int
	frame  Frame
}

func (s *sayings) delta(f *follower, run Run, offset int) Frame {
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
		s.kept = append(s.kept, saying{f.view, offset, frame})
	}
	return frame
}
