package kit

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
)

// Step is the execution of one command in its transition.
type Step[S State, C proto.Message, E Event] struct {
	Env     machine.Env
	Now     int64 // Unix milliseconds
	Command C
	// Before is the state as it is stored, nil when there is none. It is shared: only read.
	Before S
	// Decision holds what else becomes of the command. Emit and the methods below add to it; the reply is set.
	Decision machine.Decision

	rules   *Rules[S, C, E]
	after   S // the state after the folded events
	folded  int
	shared  bool // after was handed out: it is copied before it changes
	existed bool // before the command
	removed bool
	next    uint64           // the number of the next event
	room    [3]proto.Message // for the events: most commands emit no more
}

// Exists reports whether the entity exists, including one that this command has created.
func (s *Step[S, C, E]) Exists() bool { return s.existed || len(s.Decision.Events) > 0 }

// State returns the state after the events emitted so far. It is shared: only read. Events are folded when it is asked for, so
// a command that does not ask pays for that once, when it is stored.
func (s *Step[S, C, E]) State() S {
	for ; s.folded < len(s.Decision.Events); s.folded++ {
		if s.shared && (s.existed || s.folded > 0) {
			s.after = s.rules.Copy(s.after)
		}
		event, _ := s.Decision.Events[s.folded].(E)
		s.after, s.shared = s.rules.apply(s.after, event), false
	}
	s.shared = true
	return s.after
}

// Emit adds an event, and gives it its number and time. It must not change afterwards.
func (s *Step[S, C, E]) Emit(event E) {
	s.rules.stamp(event, s.next, s.Now)
	s.next++
	s.Decision.Events = append(s.Decision.Events, event)
}

// Emitted returns the events emitted so far.
func (s *Step[S, C, E]) Emitted() []proto.Message { return s.Decision.Events }

// Effect adds effects, which run once the events are durable.
func (s *Step[S, C, E]) Effect(effects ...machine.Effect) {
	s.Decision.Effects = append(s.Decision.Effects, effects...)
}

// LastSeq is the number of the newest event, those emitted included; 0 when there is none.
func (s *Step[S, C, E]) LastSeq() uint64 { return max(s.next, 1) - 1 }

// Urgent adds effects that run before the events are durable, whatever becomes of them (machine.Decision.Urgent).
func (s *Step[S, C, E]) Urgent(effects ...machine.Effect) {
	s.Decision.Urgent = append(s.Decision.Urgent, effects...)
}

// Await leaves the command unanswered until a later one settles the key.
func (s *Step[S, C, E]) Await(key string) { s.Decision.Wait = key }

// Settle answers those who wait for a key.
func (s *Step[S, C, E]) Settle(key string, reply proto.Message) {
	s.Decision.Settle = append(s.Decision.Settle, machine.Settlement{Key: key, Reply: reply})
}

// SettleRefused answers those who wait for a key with a failure.
func (s *Step[S, C, E]) SettleRefused(key string, refused *machine.Failure) {
	s.Decision.Settle = append(s.Decision.Settle, machine.Settlement{Key: key, Failure: refused})
}

// Remove deletes the entity with this command. Emitted events are dropped, because nobody could read them.
func (s *Step[S, C, E]) Remove() { s.removed = true }

// decision is what the handler leaves.
func (s *Step[S, C, E]) decision() machine.Decision {
	d := s.Decision
	switch {
	case s.removed:
		d.Delete, d.Events = true, nil
	case len(d.Events) == 0:
		d.Events = nil
	default:
		d.Create = !s.existed
	}
	if d.Reply == nil && d.Wait == "" && s.rules.Reply != nil {
		d.Reply = s.rules.Reply(s.State())
	}
	return d
}
