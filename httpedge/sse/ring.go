package sse

import (
	"google.golang.org/protobuf/proto"

	"parley/proto/conversationpb"
)

// entry is a durable event with its renderings.
type entry struct {
	event  *conversationpb.Event
	size   int
	frames []rendering
}

// rendering is the event as rendered by one view.
type rendering struct {
	view  View
	frame Frame
	done  bool
}

// renderingsKept bounds the renderings of an event: clients choose their views.
const renderingsKept = 4

func (e *entry) render(view View, shared bool) (Frame, bool) {
	if !shared {
		return view.Event(e.event)
	}
	for i := range e.frames {
		if e.frames[i].view == view {
			return e.frames[i].frame, e.frames[i].done
		}
	}
	frame, done := view.Event(e.event)
	if len(e.frames) < renderingsKept {
		e.frames = append(e.frames, rendering{view, frame, done})
	}
	return frame, done
}

// ring holds the newest durable events of a conversation, without gaps, bounded in number and bytes.
type ring struct {
	entries []*entry
	bytes   int
}

func (r *ring) push(event *conversationpb.Event, maxEvents, maxBytes int) *entry {
	e := &entry{event: event, size: proto.Size(event)}
	r.entries = append(r.entries, e)
	r.bytes += e.size
	drop := 0
	for len(r.entries)-drop > 1 && (len(r.entries)-drop > maxEvents || r.bytes > maxBytes) {
		r.bytes -= r.entries[drop].size
		drop++
	}
	if drop > 0 {
		n := copy(r.entries, r.entries[drop:])
		clear(r.entries[n:])
		r.entries = r.entries[:n]
	}
	return e
}

// at returns the entry of a seq, or nil if the ring does not hold it.
func (r *ring) at(seq uint64) *entry {
	if len(r.entries) == 0 {
		return nil
	}
	first := r.entries[0].event.GetSeq()
	if seq < first || seq-first >= uint64(len(r.entries)) {
		return nil
	}
	return r.entries[seq-first]
}

func (r *ring) clear() {
	r.entries = nil
	r.bytes = 0
}
