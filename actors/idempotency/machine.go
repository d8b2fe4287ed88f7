package idempotency

import (
	"bytes"
	"cmp"
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
	"parley/proto/logpb"
)

// ListDue is the list of all keys by the time at which they are forgotten: the shell gives each that is due a Due command.
const ListDue = "idem/due"

// Machine is the rules of idempotency keys. It holds no state and is safe for concurrent use.
type Machine struct{ maxAnswer int }

var _ machine.Machine = (*Machine)(nil)

// DefaultMaxAnswer is the largest answer that is kept, in bytes. A larger one is made again from what the first request has
// made.
const DefaultMaxAnswer = 256 << 10

// New returns the rules; answers above maxAnswer bytes are not kept.
func New(maxAnswer int) *Machine { return &Machine{maxAnswer: maxAnswer} }

// Kind is the prefix of ids.
func (*Machine) Kind() string { return "idem" }

// NewState returns an empty idempotencypb.State.
func (*Machine) NewState() proto.Message { return new(idempotencypb.State) }

// Seq returns the number of the newest event.
func (*Machine) Seq(state proto.Message) uint64 {
	s, _ := state.(*idempotencypb.State)
	return s.GetLastSeq()
}

// OnActivate has nothing to recover.
func (*Machine) OnActivate(proto.Message, machine.Env) proto.Message { return nil }

// Decide applies the rule of the command.
func (m *Machine) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(*idempotencypb.State)
	c, _ := command.(*idempotencypb.Command)
	switch body := c.GetBody().(type) {
	case *idempotencypb.Command_Begin:
		return begin(s, c.GetId(), body.Begin, env)
	case *idempotencypb.Command_Keep:
		return m.keep(s, body.Keep, env)
	case *idempotencypb.Command_Release:
		held := s != nil && s.GetAnswer() == nil && bytes.Equal(s.GetRequest(), body.Release.GetRequest())
		return machine.Decision{Delete: held, Reply: &idempotencypb.Reply{}}, nil
	case *idempotencypb.Command_Due:
		return machine.Decision{Delete: s != nil && s.GetExpiresAt() <= env.Now.UnixMilli()}, nil
	}
	return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).Param("entity", "an idempotency key")
}

// begin takes the request for the key's, or finds that it is.
func begin(s *idempotencypb.State, id string, c *idempotencypb.Begin, env machine.Env) (machine.Decision, *machine.Failure) {
	switch {
	case len(c.GetRequest()) != sha256.Size || c.GetKeepMs() <= 0 || id == "":
		return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.IncompleteKey)
	case s != nil && !bytes.Equal(s.GetRequest(), c.GetRequest()):
		return machine.Decision{}, failure.New(failurepb.Code_IDEMPOTENCY_CONFLICT, failure.IdempotencyKeyReused)
	case s != nil && s.GetAnswer() == nil && c.GetHolder() != "" && c.GetHolder() != s.GetHolder():
		return machine.Decision{}, failure.New(failurepb.Code_IDEMPOTENCY_CONFLICT, failure.IdempotencyKeyInUse)
	case s != nil:
		return machine.Decision{Reply: &idempotencypb.Reply{State: s}}, nil
	}
	now := env.Now.UnixMilli()
	state := &idempotencypb.State{
		Id: id, Request: c.GetRequest(), Seed: env.NewID("seed"), CreatedAt: now, ExpiresAt: now + c.GetKeepMs(), Holder: c.GetHolder(),
	}
	return machine.Decision{
		Create: true,
		Events: []proto.Message{&idempotencypb.Event{CreatedAt: now, Body: &idempotencypb.Event_Begun{Begun: state}}},
		Reply:  &idempotencypb.Reply{State: state},
	}, nil
}

// keep stores the first answer.
func (m *Machine) keep(s *idempotencypb.State, c *idempotencypb.Keep, env machine.Env) (machine.Decision, *machine.Failure) {
	switch {
	case s == nil || !bytes.Equal(s.GetRequest(), c.GetRequest()):
		return machine.Decision{}, failure.New(failurepb.Code_NOT_FOUND, failure.IdempotencyKeyOfAnother)
	case s.GetAnswer() != nil || c.GetAnswer() == nil || len(c.GetAnswer().GetBody()) > m.maxAnswer:
		return machine.Decision{Reply: &idempotencypb.Reply{State: s}}, nil
	}
	event := &idempotencypb.Event{
		Seq: s.GetLastSeq() + 1, CreatedAt: env.Now.UnixMilli(), Body: &idempotencypb.Event_Answered{Answered: c.GetAnswer()},
	}
	after, _ := m.Evolve(s, []proto.Message{event}).(*idempotencypb.State)
	return machine.Decision{Events: []proto.Message{event}, Reply: &idempotencypb.Reply{State: after}}, nil
}

// Evolve returns the state after the events.
func (*Machine) Evolve(state proto.Message, events []proto.Message) proto.Message {
	s, _ := state.(*idempotencypb.State)
	for _, message := range events {
		event, _ := message.(*idempotencypb.Event)
		switch body := event.GetBody().(type) {
		case *idempotencypb.Event_Begun:
			s = proto.CloneOf(body.Begun)
		case *idempotencypb.Event_Answered:
			s = proto.CloneOf(s)
			s.Answer = body.Answered
		}
		s.LastSeq = event.GetSeq()
	}
	return s
}

// Project keeps the key's place in the list of what is to be forgotten.
func (*Machine) Project(before, after proto.Message, _ []proto.Message, into *logpb.Append) {
	was, _ := before.(*idempotencypb.State)
	is, _ := after.(*idempotencypb.State)
	machine.Relist(into, ListDue, cmp.Or(is.GetId(), was.GetId()), was.GetExpiresAt(), is.GetExpiresAt())
}
