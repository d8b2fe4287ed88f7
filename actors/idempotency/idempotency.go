package idempotency

import (
	"bytes"
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
)

// ListDue is the list of all keys by the time at which they are forgotten: the shell gives each that is due a Due command.
const ListDue = "idem/due"

// DefaultMaxAnswer is the largest answer that is kept, in bytes. A larger one is made again from what the first request has
// made.
const DefaultMaxAnswer = 256 << 10

// New returns the kind of idempotency keys; answers above maxAnswer bytes are not kept.
func New(maxAnswer int) kit.Entity {
	return rules(maxAnswer).Entity()
}

// Phases of a key.
const (
	begun    kit.Phase = "begun"    // a request has taken it
	answered kit.Phase = "answered" // and its answer is kept
)

type (
	step  = kit.Step[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
	row   = kit.Transition[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
	table = kit.Rules[*idempotencypb.State, *idempotencypb.Command, *idempotencypb.Event]
)

func rules(maxAnswer int) table {
	begin, keep := (*idempotencypb.Command).GetBegin, (*idempotencypb.Command).GetKeep
	release := (*idempotencypb.Command).GetRelease
	return table{
		Prefix: "idem",
		Phases: []kit.Phase{begun, answered},
		Phase: func(s *idempotencypb.State) kit.Phase {
			if s.GetAnswer() != nil {
				return answered
			}
			return begun
		},
		Transitions: []row{
			kit.On(begin, take).From(kit.Absent).To(begun),
			kit.On(begin, again).From(begun, answered),
			kit.On(keep, keepUpTo(maxAnswer)).From(begun).To(begun, answered),
			kit.On(keep, kept).From(answered),
			kit.On(release, forget).From(begun).To(begun, kit.Absent),
			kit.On(release, nothing[*idempotencypb.Release]).From(kit.Absent, answered),
		},
		Missing: notTheRequests,
		Apply:   apply,
		Lapse: kit.Lapse[*idempotencypb.State, *idempotencypb.Command]{
			List: ListDue, At: (*idempotencypb.State).GetExpiresAt,
			Due: func(id string) *idempotencypb.Command {
				return &idempotencypb.Command{Id: id, Body: &idempotencypb.Command_Due{Due: &idempotencypb.Due{}}}
			},
		},
	}
}

func notTheRequests() *machine.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, failure.IdempotencyKeyOfAnother)
}

// take has the key stand for the request.
func take(s *step, c *idempotencypb.Begin) *machine.Failure {
	if refused := check(s, c); refused != nil {
		return refused
	}
	s.Emit(&idempotencypb.Event{Body: &idempotencypb.Event_Begun{Begun: &idempotencypb.State{
		Id: s.Command.GetId(), Request: c.GetRequest(), Seed: s.Env.NewID("seed"), CreatedAt: s.Now, ExpiresAt: s.Now + c.GetKeepMs(),
		Holder: c.GetHolder(),
	}}})
	return answer(s)
}

func check(s *step, c *idempotencypb.Begin) *machine.Failure {
	if len(c.GetRequest()) != sha256.Size || c.GetKeepMs() <= 0 || s.Command.GetId() == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.IncompleteKey)
	}
	return nil
}

// again answers a request whose key is taken: by the same request, or by another.
func again(s *step, c *idempotencypb.Begin) *machine.Failure {
	if refused := check(s, c); refused != nil {
		return refused
	}
	switch known := s.Before; {
	case !bytes.Equal(known.GetRequest(), c.GetRequest()):
		return failure.New(failurepb.Code_IDEMPOTENCY_CONFLICT, failure.IdempotencyKeyReused)
	case known.GetAnswer() == nil && c.GetHolder() != known.GetHolder(): // also one of a release in which the route was carried out once, and is not now
		return failure.New(failurepb.Code_IDEMPOTENCY_CONFLICT, failure.IdempotencyKeyInUse)
	}
	return answer(s)
}

// keepUpTo stores the first answer, unless it is too large.
func keepUpTo(maxAnswer int) func(*step, *idempotencypb.Keep) *machine.Failure {
	return func(s *step, c *idempotencypb.Keep) *machine.Failure {
		if same(s, c) && c.GetAnswer() != nil && len(c.GetAnswer().GetBody()) <= maxAnswer {
			s.Emit(&idempotencypb.Event{Body: &idempotencypb.Event_Answered{Answered: c.GetAnswer()}})
		}
		return kept(s, c)
	}
}

// kept answers with what is kept.
func kept(s *step, c *idempotencypb.Keep) *machine.Failure {
	if !same(s, c) {
		return notTheRequests()
	}
	return answer(s)
}

// forget frees the key of a request that was refused before it did anything.
func forget(s *step, c *idempotencypb.Release) *machine.Failure {
	if same(s, c) {
		s.Remove()
	}
	return nothing(s, c)
}

func nothing[B any](s *step, _ B) *machine.Failure {
	s.Decision.Reply = &idempotencypb.Reply{}
	return nil
}

func same(s *step, c interface{ GetRequest() []byte }) bool {
	return bytes.Equal(s.Before.GetRequest(), c.GetRequest())
}

func answer(s *step) *machine.Failure {
	s.Decision.Reply = &idempotencypb.Reply{State: s.State()}
	return nil
}

// apply folds an event into the state.
func apply(s *idempotencypb.State, event *idempotencypb.Event) *idempotencypb.State {
	switch body := event.GetBody().(type) {
	case *idempotencypb.Event_Begun:
		return proto.CloneOf(body.Begun)
	case *idempotencypb.Event_Answered:
		s.Answer = body.Answered
	}
	return s
}
