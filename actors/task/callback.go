package task

import (
	"parley/actors/delivery"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/taskpb"
)

func (l Limits) callbacks() delivery.Policy {
	return delivery.Policy{Attempts: uint32(l.CallbackAttempts), Timeout: l.CallbackTimeout}
}

// deliveryOf is a callback as the rules of deliveries know it, nil = there is none.
func deliveryOf(c *taskpb.Callback) *deliverypb.Delivery {
	if c == nil {
		return nil
	}
	return &deliverypb.Delivery{Id: c.GetId(), At: c.GetAt(), Attempt: c.GetAttempt(), NextAt: c.GetNextAt()}
}

// withDelivery is a callback that is as far as a delivery.
func withDelivery(c *taskpb.Callback, d *deliverypb.Delivery) *taskpb.Callback {
	return &taskpb.Callback{
		Id: d.GetId(), Status: c.GetStatus(), Error: c.GetError(), At: d.GetAt(), Attempt: d.GetAttempt(), NextAt: d.GetNextAt(),
	}
}

// callBack begins to tell the task's address where the task is now, if it has one. What was not delivered of before is
// not told any more.
func (r *request) callBack() []machine.Effect {
	state := r.after()
	switch state.GetStatus() {
	case taskpb.Status_COMPLETED, taskpb.Status_FAILED, taskpb.Status_WAITING_FOR_INPUT:
	default:
		return nil
	}
	if state.GetCallbackUrl() == "" {
		return nil
	}
	callback := &taskpb.Callback{Status: state.GetStatus(), Error: state.GetError()}
	return r.attempt(withDelivery(callback, delivery.New(r.env.NewID("evt"), "", r.now)))
}

// attempt makes the attempt that is next, if one is left.
func (r *request) attempt(callback *taskpb.Callback) []machine.Effect {
	return r.callStep(callback, r.limits.callbacks().Begin(deliveryOf(callback), r.now))
}

// callStep stores what becomes of the callback, and has its attempt made.
func (r *request) callStep(callback *taskpb.Callback, step delivery.Step) []machine.Effect {
	if step.Next == nil {
		r.emit(&taskpb.Event{Body: &taskpb.Event_CallbackOver{CallbackOver: &taskpb.CallbackOver{Delivered: step.Delivered}}})
		return nil
	}
	r.emit(&taskpb.Event{Body: &taskpb.Event_CallbackDue{
		CallbackDue: &taskpb.CallbackDue{Callback: withDelivery(callback, step.Next)},
	}})
	if step.Attempt == nil {
		return nil
	}
	return []machine.Effect{Post{
		TaskID: r.state.GetId(), URL: r.state.GetCallbackUrl(), Callback: withDelivery(callback, step.Attempt),
	}}
}

// reported takes what came of an attempt.
func (r *request) reported(report *deliverypb.Report) machine.Decision {
	callback := r.state.GetCallback()
	if step, known := r.limits.callbacks().Report(deliveryOf(callback), report, r.now); known {
		r.callStep(callback, step)
	}
	return r.decide()
}
