package run

import (
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

// request is one command on its way through its rule.
type request struct {
	*Machine

	step    *step
	state   *runpb.State // nil = there is none
	command *runpb.Command
	now     int64 // Unix milliseconds
}

// emit adds an event and gives it its number and time.
func (r *request) emit(event *runpb.Event) { r.step.Emit(event) }

// after is the state after the events emitted so far.
func (r *request) after() *runpb.State { return r.step.State() }

// decide makes the decision of what was emitted, answered with the run as it then is.
func (r *request) decide(effects ...machine.Effect) machine.Decision {
	return machine.Decision{Effects: effects, Reply: &runpb.Reply{Run: r.after()}}
}

// drive is decide, and has somebody do what the state asks for.
func (r *request) drive() machine.Decision {
	decision := r.decide()
	if reply, _ := decision.Reply.(*runpb.Reply); Driven(reply.GetRun()) {
		decision.Effects = []machine.Effect{Drive{Run: reply.GetRun()}}
	}
	return decision
}

func notFound() *machine.Failure {
	return failure.New(failurepb.Code_RUN_NOT_FOUND, failure.RunNotFound)
}

// allowed refuses a caller who may not touch the run, without saying that there is one.
func (r *request) allowed() *machine.Failure {
	if r.state.AccessOf(r.command.GetCaller()) != conversationpb.AccessGranted {
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
	return r.now + pause.Milliseconds()
}
