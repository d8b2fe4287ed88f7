package run

import (
	"parley/actors/machine"
	"parley/proto/runpb"
)

// cancel has a run that is not over ended: its turn is cancelled as soon as the driver gets to it. A turn that ends by
// itself before that has ended as it has. A run that is over stays as it is.
func (r *request) cancel(*runpb.Cancel) (machine.Decision, *machine.Failure) {
	if f := r.allowed(); f != nil {
		return machine.Decision{}, f
	}
	if r.state.Over() || r.state.GetCancelling() {
		return r.decide(), nil
	}
	r.emit(&runpb.Event{Body: &runpb.Event_Cancelling{Cancelling: &runpb.Cancel{}}})
	return r.drive(), nil
}

// await answers when the run is over or requires an action.
func (r *request) await(*runpb.Await) (machine.Decision, *machine.Failure) {
	if f := r.allowed(); f != nil {
		return machine.Decision{}, f
	}
	if r.state.Over() || r.state.GetStatus() == runpb.Status_REQUIRES_ACTION && !r.state.GetCancelling() {
		return r.decide(), nil
	}
	return machine.Decision{Wait: keyRest}, nil
}
