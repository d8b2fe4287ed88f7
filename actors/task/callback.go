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
	return &deliverypb.Delivery{Id: c.GetId(), At: c.GetAt(), Attempt: c.GetAttempt(), NextAt: c.GetNextAt(), Trying: c.GetTrying()}
}

// withDelivery is a callback that is as far as a delivery.
func withDelivery(c *taskpb.Callback, d *deliverypb.Delivery) *taskpb.Callback {
	return &taskpb.Callback{
		Id: d.GetId(), Status: c.GetStatus(), Error: c.GetError(), At: d.GetAt(), Attempt: d.GetAttempt(), NextAt: d.GetNextAt(),
		Trying: d.GetTrying(),
	}
}

// callBack begins to tell the task's address where the task is now, if it has one. What was not delivered of before is
// not told any more.
func (r *request) callBack() {
	state := r.State()
	switch state.GetStatus() {
	case taskpb.Status_COMPLETED, taskpb.Status_FAILED, taskpb.Status_WAITING_FOR_INPUT:
	default:
		return
	}
	if state.GetCallbackUrl() == "" {
		return
	}
	callback := &taskpb.Callback{Status: state.GetStatus(), Error: state.GetError()}
	r.attempt(withDelivery(callback, delivery.New(r.Env.NewID("evt"), "", r.Now)))
}

// attempt makes the attempt that is next, if one is left.
func (r *request) attempt(callback *taskpb.Callback) {
	r.callStep(callback, r.limits.callbacks().Begin(deliveryOf(callback), r.Now))
}

// callStep stores what becomes of the callback, and has its attempt made.
func (r *request) callStep(callback *taskpb.Callback, step delivery.Step) {
	if step.Next == nil {
		r.Emit(&taskpb.Event{Body: &taskpb.Event_CallbackOver{CallbackOver: &taskpb.CallbackOver{Delivered: step.Delivered}}})
		return
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_CallbackDue{
		CallbackDue: &taskpb.CallbackDue{Callback: withDelivery(callback, step.Next)},
	}})
	if step.Attempt != nil {
		state := r.State()
		r.Effect(Post{TaskID: state.GetId(), TenantID: state.GetTenantId(), URL: state.GetCallbackUrl(), Callback: withDelivery(callback, step.Attempt)})
	}
}

// reported takes what came of an attempt.
func (r *request) reported(report *deliverypb.Report) *machine.Failure {
	callback := r.Before.GetCallback()
	if step, known := r.limits.callbacks().Report(deliveryOf(callback), report, r.Now); known {
		r.callStep(callback, step)
	}
	return nil
}
