package run

import (
	"parley/actors/machine"
	"parley/proto/runpb"
)

// cancel has a run that is not over ended: its turn is cancelled as soon as the driver gets to it. A turn that ends by
// itself before that has ended as it has. A run that is over stays as it is.
func (r *request) cancel(*runpb.Cancel) *machine.Failure {
	if f := r.allowed(); f != nil {
		return f
	}
	if r.Before.Over() || r.Before.GetCancelling() {
		return nil
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_Cancelling{Cancelling: &runpb.Cancel{}}})
	r.drive()
	return nil
}

// await answers when the run is over or requires an action.
func (r *request) await(*runpb.Await) *machine.Failure {
	if f := r.allowed(); f != nil {
		return f
	}
	if r.Before.Over() || r.Before.GetStatus() == runpb.Status_REQUIRES_ACTION && !r.Before.GetCancelling() {
		return nil
	}
	r.Await(keyRest)
	return nil
}
