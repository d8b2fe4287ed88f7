package task

import (
	"parley/actors/machine"
	"parley/proto/taskpb"
)

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
	return r.attempt(&taskpb.Callback{Status: state.GetStatus(), Error: state.GetError(), At: r.now, Attempt: 1})
}

// attempt makes the attempt that is next, if one is left.
func (r *request) attempt(callback *taskpb.Callback) []machine.Effect {
	number := callback.GetAttempt()
	if _, more := r.limits.Backoff(int(number) - 1); number > 1 && !more {
		r.callbackOver(false)
		return nil
	}
	r.callbackDue(callback, number+1, r.now+r.limits.CallbackTimeout.Milliseconds())
	return []machine.Effect{Post{
		TaskID: r.state.GetId(), URL: r.state.GetCallbackUrl(), Status: callback.GetStatus(), Error: callback.GetError(),
		At: callback.GetAt(), Attempt: number,
	}}
}

// delivered says what came of an attempt.
func (r *request) delivered(c *taskpb.Delivered) machine.Decision {
	callback := r.state.GetCallback()
	if callback == nil || callback.GetAttempt() != c.GetAttempt()+1 {
		return r.decide() // of a state that is not told any more, or counted as lost
	}
	pause, more := r.limits.Backoff(int(c.GetAttempt()))
	if c.GetOk() || c.GetHopeless() || !more {
		r.callbackOver(c.GetOk())
	} else {
		r.callbackDue(callback, callback.GetAttempt(), r.now+pause.Milliseconds())
	}
	return r.decide()
}

func (r *request) callbackDue(callback *taskpb.Callback, attempt uint32, nextAt int64) {
	r.emit(&taskpb.Event{Body: &taskpb.Event_CallbackDue{CallbackDue: &taskpb.CallbackDue{Callback: &taskpb.Callback{
		Status: callback.GetStatus(), Error: callback.GetError(), At: callback.GetAt(), Attempt: attempt, NextAt: nextAt,
	}}}})
}

func (r *request) callbackOver(delivered bool) {
	r.emit(&taskpb.Event{Body: &taskpb.Event_CallbackOver{CallbackOver: &taskpb.CallbackOver{Delivered: delivered}}})
}
