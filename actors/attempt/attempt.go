package attempt

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/attemptpb"
	"parley/proto/failurepb"
)

// ListDue is the list of all windows by the time at which they end: the shell gives each that is due a Due command.
const ListDue = "attempt/due"

// New returns the kind of attempts.
func New() kit.Entity {
	return rules().Entity()
}

// counting is the phase of a window that has begun.
const counting kit.Phase = "counting"

type (
	step  = kit.Step[*attemptpb.State, *attemptpb.Command, *attemptpb.Event]
	row   = kit.Transition[*attemptpb.State, *attemptpb.Command, *attemptpb.Event]
	table = kit.Rules[*attemptpb.State, *attemptpb.Command, *attemptpb.Event]
)

func rules() table {
	take := (*attemptpb.Command).GetTake
	return table{
		Prefix: "attempt",
		Phases: []kit.Phase{counting},
		Phase:  func(*attemptpb.State) kit.Phase { return counting },
		Transitions: []row{
			kit.On(take, open).From(kit.Absent).To(counting),
			kit.On(take, count).From(counting),
		},
		Missing: missing,
		Apply:   apply,
		Lapse: kit.Lapse[*attemptpb.State, *attemptpb.Command]{
			List: ListDue, At: (*attemptpb.State).GetExpiresAt,
			Due: func(id string) *attemptpb.Command {
				return &attemptpb.Command{Id: id, Body: &attemptpb.Command_Due{Due: &attemptpb.Due{}}}
			},
		},
	}
}

func missing() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound) }

// open begins a window with its first attempt.
func open(s *step, c *attemptpb.Take) *machine.Failure {
	if c.GetLimit() <= 0 || c.GetWindowMs() <= 0 || s.Command.GetId() == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.BadAttempt)
	}
	s.Emit(&attemptpb.Event{Body: &attemptpb.Event_Opened{Opened: &attemptpb.State{
		Id: s.Command.GetId(), Count: 1, ExpiresAt: s.Now + c.GetWindowMs(),
	}}})
	s.Decision.Reply = &attemptpb.Reply{Allowed: true}
	return nil
}

// count takes one more attempt while the window lasts.
func count(s *step, c *attemptpb.Take) *machine.Failure {
	switch known := s.Before; {
	case known.GetExpiresAt() <= s.Now:
		return open(s, c)
	case known.GetCount() >= c.GetLimit():
		s.Decision.Reply = &attemptpb.Reply{ExpiresAt: known.GetExpiresAt()}
		return nil
	}
	s.Emit(&attemptpb.Event{Body: &attemptpb.Event_Taken{Taken: &attemptpb.Taken{}}})
	s.Decision.Reply = &attemptpb.Reply{Allowed: true}
	return nil
}

// apply folds an event into the state.
func apply(s *attemptpb.State, event *attemptpb.Event) *attemptpb.State {
	switch body := event.GetBody().(type) {
	case *attemptpb.Event_Opened:
		if s == nil {
			return proto.CloneOf(body.Opened)
		}
		s.Count, s.ExpiresAt = body.Opened.GetCount(), body.Opened.GetExpiresAt()
	case *attemptpb.Event_Taken:
		s.Count++
	}
	return s
}
