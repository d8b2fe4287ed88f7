package actors

import (
	"parley/actors/turn"
	"parley/proto/conversationpb"
)

// output is the text of one run as it grows. The live stream's lock guards all of it.
type output struct {
	stream      *liveStream
	term        *term // nil = no system governs the streams
	runID       string
	userMessage *conversationpb.Message
	epoch       uint64
	text        []byte
	sent        int // bytes of the text that were published; the rest waits for a proof of ownership
	sealed      bool
}

// deltaChange is a delta in one allocation.
type deltaChange struct {
	change conversationpb.Change
	delta  conversationpb.Delta
}

// govern sets the term under which a shard is owned, nil = it is not owned.
func (r *LiveStreams) govern(shard uint32, t *term) {
	r.governed.Store(true)
	r.terms.Store(shard, t)
}

// termOf returns the term under which a run was started, and false when that term has ended.
func (r *LiveStreams) termOf(at turn.Place) (*term, bool) {
	if !r.governed.Load() {
		return nil, true
	}
	found, _ := r.terms.Load(at.Shard)
	t, _ := found.(*term)
	return t, t != nil && t.epoch == at.Epoch && !t.over.Load()
}

// Begin starts the stream of a run and announces it to followers. A run that streamed to the conversation before is
// sealed. If the run's term has ended, its output starts sealed and nothing is published.
func (r *LiveStreams) Begin(at turn.Place, runID string, userMessage *conversationpb.Message) turn.Output {
	ls := r.lock(at.Shard, at.ConversationID)
	defer ls.unlock()
	t, current := r.termOf(at)
	o := &output{stream: ls, term: t, runID: runID, userMessage: userMessage, epoch: at.Epoch, sealed: !current}
	if !current {
		return o
	}
	if t != nil {
		t.streams.Add(1)
	}
	if ls.run != nil {
		ls.run.sealLocked()
	}
	ls.run = o
	var change *conversationpb.Change
	for _, fl := range ls.followers {
		if !fl.ready || fl.quit.Load() {
			continue
		}
		if change == nil {
			change = &conversationpb.Change{
				Epoch:      at.Epoch,
				RunStarted: &conversationpb.RunStarted{RunId: runID, UserMessage: userMessage},
			}
		}
		fl.sink.Change(change)
	}
	return o
}

// Write appends a piece of text and passes it on.
func (o *output) Write(piece string) {
	if piece == "" {
		return
	}
	o.stream.mu.Lock()
	defer o.stream.unlock()
	if o.sealed {
		return
	}
	o.text = append(o.text, piece...)
	o.flushLocked(piece)
}

// flushLocked publishes the unpublished text if the lease allows it. When newest is all of that text, it is passed on
// without a copy.
func (o *output) flushLocked(newest string) {
	if o.sent == len(o.text) || o.sealed {
		return
	}
	if o.term != nil && !o.term.mayPublish(o.stream.registry.lease) {
		o.term.textHeld.Store(true)
		return
	}
	o.publishLocked(newest)
}

// publishLocked sends the unpublished text to the followers.
func (o *output) publishLocked(newest string) {
	if o.sent == len(o.text) {
		return
	}
	offset := o.sent
	o.sent = len(o.text)
	if o.stream.run != o {
		return // the followers are gone, or follow another run
	}
	var change *conversationpb.Change
	for _, fl := range o.stream.followers {
		if !fl.ready || fl.quit.Load() {
			continue
		}
		if change == nil {
			if len(newest) != len(o.text)-offset {
				newest = string(o.text[offset:])
			}
			c := &deltaChange{}
			c.delta.RunId, c.delta.Offset, c.delta.Text = o.runID, uint64(offset), newest
			c.change.Epoch, c.change.Delta = o.epoch, &c.delta
			change = &c.change
		}
		fl.sink.Change(change)
	}
}

func (o *output) sealLocked() {
	if !o.sealed && o.term != nil {
		o.term.streams.Add(-1)
	}
	o.sealed = true
}

// Seal ends the text: later writes are ignored. Unpublished text is published with the event that ends the run.
func (o *output) Seal() string {
	o.stream.mu.Lock()
	defer o.stream.unlock()
	o.sealLocked()
	return string(o.text)
}

// Cut ends the text at the last published byte, unless it is sealed already.
func (o *output) Cut() {
	o.stream.mu.Lock()
	defer o.stream.unlock()
	if !o.sealed {
		o.text = o.text[:o.sent]
	}
	o.sealLocked()
}

// Release ends the stream of a run that will not be reported.
func (o *output) Release() {
	o.stream.mu.Lock()
	defer o.stream.unlock()
	o.sealLocked()
	if o.stream.run == o {
		o.stream.run = nil
	}
}

// flush publishes the unpublished text of all runs on a shard.
func (r *LiveStreams) flush(shard uint32) {
	r.visit(func(ls *liveStream) bool { return ls.shard == shard }, func(ls *liveStream) {
		if ls.run != nil {
			ls.run.flushLocked("")
		}
	})
}
