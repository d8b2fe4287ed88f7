package actors

import (
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// ask is a pending command and the channel on which its caller waits. Asks are pooled: whoever answers one must not touch
// it afterwards. A caller that gives up leaves its ask to the garbage collector.
type ask struct {
	id      string
	kind    *Kind
	command proto.Message // nil: only activate the entity
	inside  bool          // from the shell or a turn: not held while the shard is drained
	reply   chan outcome  // capacity 1: answering never blocks
	gone    atomic.Bool   // the caller has given up
}

type outcome struct {
	reply proto.Message
	err   error
}

func newAsk() any { return &ask{reply: make(chan outcome, 1)} }

func (a *ask) answer(reply proto.Message, err error) {
	select {
	case a.reply <- outcome{reply: reply, err: err}:
	default: // answered before: a bug of the shell, which must not block an activation
	}
}

// question is a command and the entity it is for.
type question struct {
	id      string
	command proto.Message
	inside  bool
}

func outside(id string, command proto.Message) question { return question{id, command, false} }
func inside(id string, command proto.Message) question  { return question{id, command, true} }

func (s *System) newAsk(kind *Kind, q question) *ask {
	a, ok := s.asks.Get().(*ask)
	if !ok {
		a = &ask{reply: make(chan outcome, 1)}
	}
	a.id, a.kind, a.command, a.inside = q.id, kind, q.command, q.inside
	return a
}

func (s *System) releaseAsk(a *ask) {
	a.id, a.kind, a.command = "", nil, nil
	s.asks.Put(a)
}

// forget tells a host that a caller of an entity has given up, so that its waiter can be removed.
type forget struct{ id string }

func unavailable(why failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_UNAVAILABLE, why)
}
