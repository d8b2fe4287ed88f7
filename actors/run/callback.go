package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"parley/actors/delivery"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/runpb"
)

// callBack begins to tell the run's address of the state that the run has come to, if it has one.
func (r *request) callBack() []machine.Effect {
	state := r.after()
	if state.GetCallback() == nil {
		return nil
	}
	call := delivery.New(eventID(state), "agent_run."+strings.ToLower(state.GetStatus().String()), r.now)
	return r.callStep(call, r.limits.callbacks().Begin(call, r.now))
}

// eventID names the change of state that the run has just come to: evt_ and 32 hexadecimal digits, the same whenever it is
// asked again.
func eventID(state *runpb.State) string {
	sum := sha256.Sum256([]byte(state.GetId() + "/" + strconv.FormatUint(state.GetLastSeq(), 10)))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// callStep stores what becomes of a call, and has its attempt made.
func (r *request) callStep(call *deliverypb.Delivery, step delivery.Step) []machine.Effect {
	if step.Next == nil {
		r.emit(&runpb.Event{Body: &runpb.Event_CallOver{CallOver: &deliverypb.Over{
			Id: call.GetId(), Delivered: step.Delivered, Error: step.Error,
		}}})
		return nil
	}
	r.emit(&runpb.Event{Body: &runpb.Event_CallDue{CallDue: &deliverypb.Due{Delivery: step.Next, Error: step.Error}}})
	if step.Attempt == nil {
		return nil
	}
	return []machine.Effect{Post{Run: r.after(), Call: step.Attempt}}
}

// posted takes what came of an attempt.
func (r *request) posted(report *deliverypb.Report) machine.Decision {
	for _, call := range r.state.GetCallback().GetCalls() {
		if step, known := r.limits.callbacks().Report(call, report, r.now); known {
			r.callStep(call, step)
		}
	}
	return r.decide()
}

// due does what its time has come for: attempts to call back, a look at what the run waits for, the removal of one that
// was over long ago.
func (r *request) due(*runpb.Due) machine.Decision {
	if removed := r.removedAt(r.state); removed != 0 && removed <= r.now && len(r.state.GetCallback().GetCalls()) == 0 {
		return machine.Decision{Delete: true, Reply: &runpb.Reply{}}
	}
	var effects []machine.Effect
	for _, call := range r.state.GetCallback().GetCalls() {
		if call.GetNextAt() <= r.now {
			effects = append(effects, r.callStep(call, r.limits.callbacks().Begin(call, r.now))...)
		}
	}
	if at := r.state.GetCheckAt(); at != 0 && at <= r.now && !Driven(r.state) {
		checks := r.state.GetChecks() + 1
		r.emit(&runpb.Event{Body: &runpb.Event_Checked{Checked: &runpb.Checked{Checks: checks, CheckAt: r.checkAt(checks)}}})
		effects = append(effects, Drive{Run: r.after()})
	}
	return r.decide(effects...)
}
