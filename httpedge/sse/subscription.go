package sse

import (
	"sync"
	"sync/atomic"

	"parley/proto/conversationpb"
)

// subscription is one upstream subscription of a topic. Changes that arrive before its snapshot is installed are held
// back.
type subscription struct {
	topic  *topic
	cancel func()
	begun  atomic.Bool

	mu   sync.Mutex
	held []*conversationpb.Change
	lost bool // ended, or too much held back
}

// heldChanges bounds the changes that one subscription holds back.
const heldChanges = 4096

// Change implements Sink.
func (s *subscription) Change(change *conversationpb.Change) {
	if !s.begun.Load() && s.hold(change) {
		return
	}
	s.topic.change(s, change)
}

func (s *subscription) hold(change *conversationpb.Change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun.Load() {
		return false
	}
	if len(s.held) >= heldChanges {
		s.lost = true
	} else {
		s.held = append(s.held, change)
	}
	return true
}

// Closed implements Sink.
func (s *subscription) Closed(error) {
	s.mu.Lock()
	s.lost = true
	begun := s.begun.Load()
	s.mu.Unlock()
	if begun {
		s.topic.resync(s)
	}
}

// begin installs the snapshot, then the changes since. missed are the events between the topic and the snapshot.
func (s *subscription) begin(snapshot *conversationpb.Snapshot, missed []*conversationpb.Event) {
	s.mu.Lock()
	if !s.topic.install(s, snapshot, missed) {
		s.mu.Unlock()
		s.cancel()
		return
	}
	for _, change := range s.held {
		s.topic.change(s, change)
	}
	s.held = nil
	s.begun.Store(true)
	lost := s.lost
	s.mu.Unlock()
	if lost {
		s.topic.resync(s)
	}
}
