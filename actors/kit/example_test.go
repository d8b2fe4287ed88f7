package kit_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
	"parley/proto/logpb"
)

// An entity is its table of transitions: which command is accepted in which phase, and what it does. This one, a ticket, is
// opened by Begin and given back by Release; a ticket that is open cannot be opened again.
func Example() {
	type (
		State   = *idempotencypb.State
		Command = *idempotencypb.Command
		Event   = *idempotencypb.Event
		Step    = kit.Step[State, Command, Event]
	)
	rules := kit.Rules[State, Command, Event]{
		Prefix: "ticket", Phases: []kit.Phase{"open"},
		Phase: func(State) kit.Phase { return "open" },
		Transitions: []kit.Transition[State, Command, Event]{
			kit.On(Command.GetBegin, func(s *Step, _ *idempotencypb.Begin) *failure.Failure {
				s.Emit(&idempotencypb.Event{Body: &idempotencypb.Event_Begun{Begun: &idempotencypb.State{Id: "ticket_1"}}})
				return nil
			}).From(kit.Absent).To("open"),
			kit.Refuse(Command.GetBegin, func(*Step) *failure.Failure {
				return failure.New(failurepb.Code_IDEMPOTENCY_CONFLICT, failure.IdempotencyKeyInUse)
			}).From("open"),
			kit.On(Command.GetRelease, func(s *Step, _ *idempotencypb.Release) *failure.Failure {
				s.Remove()
				return nil
			}).From("open").To(kit.Absent),
		},
		Apply:   func(_ State, event Event) State { return proto.CloneOf(event.GetBegun()) },
		Project: func(_, _ State, _ []proto.Message, _ *logpb.Append) {}, // no rows of storage follow from a ticket
	}.Machine()

	ticket := machinetest.NewEntity(rules)
	begin := &idempotencypb.Command{Body: &idempotencypb.Command_Begin{Begin: &idempotencypb.Begin{}}}
	release := &idempotencypb.Command{Body: &idempotencypb.Command_Release{Release: &idempotencypb.Release{}}}
	for _, command := range []Command{begin, begin, release, begin} {
		_, refused, err := ticket.Do(command, machine.Env{})
		switch {
		case err != nil:
			fmt.Println("error:", err)
		case refused != nil:
			fmt.Println("refused:", refused.Code)
		default:
			fmt.Println("accepted")
		}
	}
	// Output:
	// accepted
	// refused: IDEMPOTENCY_CONFLICT
	// accepted
	// accepted
}
