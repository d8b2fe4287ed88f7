package task

import (
	"parley/actors/machine"
	"parley/proto/taskpb"
)

// cancel ends a task that is not over. Its turn is cancelled, and what a person should have decided given up, as soon as
// the driver gets to it. A task that is over stays as it is: there is nothing to cancel.
func (r *request) cancel() (machine.Decision, *machine.Failure) {
	if f := r.allowed(); f != nil {
		return machine.Decision{}, f
	}
	first := r.outcome()
	if first.GetComment() != 0 {
		return machine.Decision{}, usedOtherwise()
	}
	if first != nil || r.state.GetRun().GetCancelling() && len(r.state.GetQueued()) == 0 ||
		r.state.GetRun() == nil && r.state.GetWaiting() == nil {
		return r.decide(), nil
	}
	r.emit(&taskpb.Event{Body: &taskpb.Event_Canceled{Canceled: &taskpb.Canceled{CommandId: r.command.GetCommandId()}}})
	return r.decide(Drive{Task: r.after()}), nil
}
