package task

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// Machine is the rules of tasks. It holds no state and is safe for concurrent use.
type Machine struct {
	limits Limits
}

var _ machine.Machine = (*Machine)(nil)

// New returns the rules under the given limits, which must be valid.
func New(limits Limits) *Machine { return &Machine{limits: limits} }

// Kind is the prefix of task ids.
func (*Machine) Kind() string { return "task" }

// NewState returns an empty taskpb.State.
func (*Machine) NewState() proto.Message { return new(taskpb.State) }

// Seq returns the number of the newest event.
func (*Machine) Seq(state proto.Message) uint64 {
	s, _ := state.(*taskpb.State)
	return s.GetLastSeq()
}

// OnActivate asks for recovery when a run was open as the task was last written.
func (*Machine) OnActivate(state proto.Message, _ machine.Env) proto.Message {
	s, _ := state.(*taskpb.State)
	if s.GetRun() == nil {
		return nil
	}
	return &taskpb.Command{TaskId: s.GetId(), Body: &taskpb.Command_Recover{Recover: &taskpb.Recover{}}}
}

// Decide applies the rule of the command.
func (m *Machine) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(*taskpb.State)
	c, _ := command.(*taskpb.Command)
	r := &request{Machine: m, state: s, command: c, env: env, now: env.Now.UnixMilli()}
	if create, is := c.GetBody().(*taskpb.Command_Create); is {
		return r.create(create.Create)
	}
	if s == nil {
		return machine.Decision{}, notFound()
	}
	switch body := c.GetBody().(type) {
	case *taskpb.Command_AddComment:
		return r.addComment(body.AddComment)
	case *taskpb.Command_Cancel:
		return r.cancel()
	case *taskpb.Command_Started:
		return r.started(body.Started), nil
	case *taskpb.Command_Ended:
		return r.ended(body.Ended), nil
	case *taskpb.Command_Recover:
		return r.recover(), nil
	case *taskpb.Command_Due:
		return r.due(), nil
	case *taskpb.Command_Reported:
		return r.reported(body.Reported), nil
	}
	return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).Param("entity", "a task")
}
