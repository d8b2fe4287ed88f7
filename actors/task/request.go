package task

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// maxCommandID is in bytes.
const maxCommandID = 128

// request is one command on its way through its rule.
type request struct {
	*Machine

	state   *taskpb.State // nil = there is none
	command *taskpb.Command
	env     machine.Env
	now     int64 // Unix milliseconds
	events  []proto.Message
}

// emit adds an event and gives it its number and time.
func (r *request) emit(event *taskpb.Event) {
	event.Seq = r.state.GetLastSeq() + uint64(len(r.events)) + 1
	event.CreatedAt = r.now
	r.events = append(r.events, event)
}

// after is the state after the events emitted so far.
func (r *request) after() *taskpb.State { return r.evolve(r.state, r.events) }

// decide makes the decision of what was emitted, answered with the task as it then is.
func (r *request) decide(effects ...machine.Effect) machine.Decision {
	state := r.state
	if len(r.events) > 0 {
		state = r.after()
	}
	return machine.Decision{Events: r.events, Effects: effects, Reply: &taskpb.Reply{Task: state}}
}

func notFound() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.TaskNotFound) }

func usedOtherwise() *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.CommandIDReused)
}

// allowed refuses a caller who may not touch the task, and an id that could not be stored with the outcome.
func (r *request) allowed() *machine.Failure {
	switch r.state.AccessOf(r.command.GetCaller()) {
	case conversationpb.AccessGranted:
	case conversationpb.AccessDenied:
		return failure.New(failurepb.Code_FORBIDDEN, failure.AccessDenied)
	default:
		return notFound()
	}
	return r.checkCommandID()
}

func (r *request) checkCommandID() *machine.Failure {
	if id := r.command.GetCommandId(); len(id) > maxCommandID || !utf8.ValidString(id) {
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("commandId").Param("what", "a command id").Param("most", maxCommandID)
	}
	return nil
}

// outcome finds what the command did when it came before.
func (r *request) outcome() *taskpb.Outcome {
	id := r.command.GetCommandId()
	if id == "" {
		return nil
	}
	for _, o := range r.state.GetOutcomes() {
		if o.GetCommandId() == id {
			return o
		}
	}
	return nil
}
