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

// request is one command on its way through its rule. Before is nil when there is no task.
type request struct {
	*step

	limits Limits
}

// drive has the run of the task worked on, or looked after.
func (r *request) drive() { r.Effect(Drive{Task: r.State()}) }

// replyOf answers with the task as it is afterwards.
func replyOf(after *taskpb.State) proto.Message { return &taskpb.Reply{Task: after} }

func notFound() *machine.Failure { return failure.New(failurepb.Code_NOT_FOUND, failure.TaskNotFound) }

func usedOtherwise() *machine.Failure {
	return failure.New(failurepb.Code_VALIDATION, failure.CommandIDReused)
}

// allowed refuses a caller who may not touch the task, and an id that could not be stored with the outcome.
func (r *request) allowed() *machine.Failure {
	switch conversationpb.AccessTo(r.Before, r.Command.GetCaller()) {
	case conversationpb.AccessGranted:
	case conversationpb.AccessDenied:
		return failure.New(failurepb.Code_FORBIDDEN, failure.AccessDenied)
	default:
		return notFound()
	}
	return r.checkCommandID()
}

func (r *request) checkCommandID() *machine.Failure {
	if id := r.Command.GetCommandId(); len(id) > maxCommandID || !utf8.ValidString(id) {
		return failure.New(failurepb.Code_VALIDATION, failure.BadText).In("commandId").Param("what", "a command id").Param("most", maxCommandID)
	}
	return nil
}

// outcome finds what the command did when it came before.
func (r *request) outcome() *taskpb.Outcome {
	id := r.Command.GetCommandId()
	if id == "" {
		return nil
	}
	for _, o := range r.Before.GetOutcomes() {
		if o.GetCommandId() == id {
			return o
		}
	}
	return nil
}
