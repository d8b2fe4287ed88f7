package run

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// Machine is the rules of runs. It holds no state and is safe for concurrent use.
type Machine struct {
	limits Limits
}

var _ machine.Machine = (*Machine)(nil)

// New returns the rules under the given limits, which must be valid.
func New(limits Limits) *Machine { return &Machine{limits: limits} }

// Kind is the prefix of run ids.
func (*Machine) Kind() string { return "run" }

// NewState returns an empty runpb.State.
func (*Machine) NewState() proto.Message { return new(runpb.State) }

// Seq returns the number of the newest event.
func (*Machine) Seq(state proto.Message) uint64 {
	s, _ := state.(*runpb.State)
	return s.GetLastSeq()
}

// OnActivate asks for recovery when somebody was at work on the run as it was last written.
func (*Machine) OnActivate(state proto.Message, _ machine.Env) proto.Message {
	s, _ := state.(*runpb.State)
	if !Driven(s) {
		return nil
	}
	return &runpb.Command{RunId: s.GetId(), Body: &runpb.Command_Recover{Recover: &runpb.Recover{}}}
}

// Driven says that the run needs a driver now: there is something to be done, and it is not waited for.
func Driven(s *runpb.State) bool {
	switch {
	case s == nil || s.GetSettled():
		return false
	case s.Over(), !s.GetAdmitted(), s.GetCancelling(), s.GetPlaced():
		return true
	}
	return s.GetStatus() == runpb.Status_RUNNING
}

// Decide applies the rule of the command.
func (m *Machine) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(*runpb.State)
	c, _ := command.(*runpb.Command)
	r := &request{Machine: m, state: s, command: c, env: env, now: env.Now.UnixMilli()}
	if create, is := c.GetBody().(*runpb.Command_Create); is {
		return r.create(create.Create)
	}
	if s == nil {
		return machine.Decision{}, notFound()
	}
	switch body := c.GetBody().(type) {
	case *runpb.Command_Cancel:
		return r.cancel()
	case *runpb.Command_Await:
		return r.await()
	case *runpb.Command_Look:
		return r.look(), nil
	case *runpb.Command_Placed:
		return r.placed(), nil
	case *runpb.Command_Posted:
		return r.posted(body.Posted), nil
	case *runpb.Command_Due:
		return r.due(), nil
	case *runpb.Command_Recover:
		return r.recover(), nil
	}
	return r.report(c)
}

// report takes what the driver says.
func (r *request) report(c *runpb.Command) (machine.Decision, *machine.Failure) {
	switch body := c.GetBody().(type) {
	case *runpb.Command_Admitted:
		return r.admitted(body.Admitted), nil
	case *runpb.Command_Began:
		return r.began(body.Began), nil
	case *runpb.Command_Paused:
		return r.paused(body.Paused), nil
	case *runpb.Command_Resumed:
		return r.resumed(), nil
	case *runpb.Command_Parked:
		return r.parked(), nil
	case *runpb.Command_Ended:
		return r.ended(body.Ended), nil
	case *runpb.Command_Settled:
		return r.settled(), nil
	}
	return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).Param("entity", "a run")
}
