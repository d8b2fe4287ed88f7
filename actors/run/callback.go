package run

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"parley/actors/delivery"
	"parley/proto/deliverypb"
	"parley/proto/runpb"
)

// callBack begins to tell the run's address of the state that the run has come to, if it has one.
func (r *request) callBack() {
	state := r.State()
	if state.GetCallback() == nil {
		return
	}
	call := delivery.New(eventID(state), "agent_run."+strings.ToLower(state.GetStatus().String()), r.Now)
	r.callStep(call, r.limits.callbacks().Begin(call, r.Now))
}

// eventID names the change of state that the run has just come to: evt_ and 32 hexadecimal digits, the same whenever it is
// asked again.
func eventID(state *runpb.State) string {
	sum := sha256.Sum256([]byte(state.GetId() + "/" + strconv.FormatUint(state.GetLastSeq(), 10)))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// callStep stores what becomes of a call, and has its attempt made.
func (r *request) callStep(call *deliverypb.Delivery, step delivery.Step) {
	if step.Next == nil {
		r.Emit(&runpb.Event{Body: &runpb.Event_CallOver{CallOver: &deliverypb.Over{
			Id: call.GetId(), Delivered: step.Delivered, Error: step.Error,
		}}})
		return
	}
	r.Emit(&runpb.Event{Body: &runpb.Event_CallDue{CallDue: &deliverypb.Due{Delivery: step.Next, Error: step.Error}}})
	if step.Attempt != nil {
		r.Effect(Post{Run: r.State(), Call: step.Attempt})
	}
}

// trying says that an attempt to call back is under way.
func trying(s *runpb.State) bool {
	return slices.ContainsFunc(s.GetCallback().GetCalls(), (*deliverypb.Delivery).GetTrying)
}

// posted takes what came of an attempt.
func (r *request) posted(report *deliverypb.Report) {
	for _, call := range r.Before.GetCallback().GetCalls() {
		if step, known := r.limits.callbacks().Report(call, report, r.Now); known {
			r.callStep(call, step)
		}
	}
}

// due does what its time has come for: attempts to call back, a look at what the run waits for, the removal of one that
// was over long ago.
func (r *request) due(*runpb.Due) {
	if removed := r.limits.removedAt(r.Before); removed != 0 && removed <= r.Now && len(r.Before.GetCallback().GetCalls()) == 0 {
		r.Remove()
		r.Decision.Reply = &runpb.Reply{}
		return
	}
	for _, call := range r.Before.GetCallback().GetCalls() {
		if call.GetNextAt() <= r.Now {
			r.callStep(call, r.limits.callbacks().Begin(call, r.Now))
		}
	}
	if at := r.Before.GetCheckAt(); at != 0 && at <= r.Now && !Driven(r.Before) {
		checks := r.Before.GetChecks() + 1
		r.Emit(&runpb.Event{Body: &runpb.Event_Checked{Checked: &runpb.Checked{Checks: checks, CheckAt: r.checkAt(checks)}}})
		r.Effect(Drive{Run: r.State()})
	}
}
