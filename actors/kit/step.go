package kit

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/machine"
)

// Step is the execution of one command in its transition.
type Step[S State, C proto.Message, E Event] struct {
	Env     machine.Env
	Now     int64 // Unix milliseconds
	Command C
	// Before is the state as it is stored, nil when there is none. It is shared: only read.
	Before S
	// Decision holds the effects, the reply and the settlements. Events are added by Emit.
	Decision machine.Decision

	rules   *Rules[S, C, E]
	after   S
	existed bool // before the command
	exists  bool
	shared  bool // after was handed out: it is copied before it changes
	removed bool
	events  []proto.Message
}

// Exists reports whether the entity exists, including one that this command has created.
func (s *Step[S, C, E]) Exists() bool { return s.exists }

// State returns the state after the events emitted so far. It is shared: only read.
func (s *Step[S, C, E]) State() S {
	s.shared = true
	return s.after
}

// Emit adds an event, gives it its number and time, and folds it into State.
func (s *Step[S, C, E]) Emit(event E) {
	var seq uint64
	if s.exists {
		seq = s.after.GetLastSeq() + 1
	}
	message := event.ProtoReflect()
	message.Set(s.rules.seq, protoreflect.ValueOfUint64(seq))
	message.Set(s.rules.createdAt, protoreflect.ValueOfInt64(s.Now))
	if s.exists && s.shared {
		s.after = s.rules.Copy(s.after)
	}
	s.after, s.shared = s.rules.apply(s.after, event), false
	s.exists = true
	s.events = append(s.events, event)
}

// Emitted returns the events emitted so far.
func (s *Step[S, C, E]) Emitted() []proto.Message { return s.events }

// Effect adds effects, which run once the events are durable.
func (s *Step[S, C, E]) Effect(effects ...machine.Effect) {
	s.Decision.Effects = append(s.Decision.Effects, effects...)
}

// Remove deletes the entity with this command. Emitted events are dropped, because nobody could read them.
func (s *Step[S, C, E]) Remove() { s.removed = true }

func (s *Step[S, C, E]) decision() machine.Decision {
	d := s.Decision
	if s.removed {
		d.Delete = true
	} else {
		d.Events = s.events
		d.Create = !s.existed && len(s.events) > 0
	}
	if d.Reply == nil && d.Wait == "" && s.rules.Reply != nil {
		d.Reply = s.rules.Reply(s.State())
	}
	return d
}
