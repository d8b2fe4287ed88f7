package task

import (
	"parley/actors/machine"
	"parley/proto/taskpb"
)

// cancel ends a task that is not over. Its turn is cancelled, and what a person should have decided given up, as soon as
// the driver gets to it. A task that is over stays as it is: there is nothing to cancel.
func (r *request) cancel(*taskpb.Cancel) *machine.Failure {
	if f := r.allowed(); f != nil {
		return f
	}
	first := r.outcome()
	if first.GetComment() != 0 {
		return usedOtherwise()
	}
	if first != nil || r.Before.GetRun().GetCancelling() && len(r.Before.GetQueued()) == 0 ||
		r.Before.GetRun() == nil && r.Before.GetWaiting() == nil {
		return nil
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_Canceled{Canceled: &taskpb.Canceled{CommandId: r.Command.GetCommandId()}}})
	r.drive()
	return nil
}
