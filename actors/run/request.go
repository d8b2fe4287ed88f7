package run

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// What callers wait for.
const (
	keyAdmitted = "admitted"
	keyRest     = "rest" // it is over, or requires an action
)

// request is one command on its way through its rule. Before is nil when there is no run.
type request struct {
	*step

	limits Limits
}

// replyOf answers with the run as it is afterwards.
func replyOf(after *runpb.State) proto.Message { return &runpb.Reply{Run: after} }

// drive has somebody do what the state asks for.
func (r *request) drive() {
	if run := r.State(); Driven(run) {
		r.Effect(Drive{Run: run})
	}
}

func notFound() *machine.Failure {
	return failure.New(failurepb.Code_RUN_NOT_FOUND, failure.RunNotFound)
}

// allowed refuses a caller who may not touch the run, without saying that there is one.
func (r *request) allowed() *machine.Failure {
	if conversationpb.AccessTo(r.Before, r.Command.GetCaller()) != conversationpb.AccessGranted {
		return notFound()
	}
	return nil
}

// checkAt is when to look next after so many looks.
func (r *request) checkAt(checks uint32) int64 {
	pause := r.limits.MaxCheckEvery
	if checks < 16 {
		pause = min(r.limits.CheckEvery<<checks, pause)
	}
	return r.Now + pause.Milliseconds()
}
