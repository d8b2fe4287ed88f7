package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/proto/runpb"
)

// callBack begins to tell the run's address of the state that the run has come to, if it has one.
func (r *request) callBack() []machine.Effect {
	state := r.after()
	if state.GetCallback() == nil {
		return nil
	}
	return r.attempt(&runpb.Call{
		EventId: eventID(state), Event: "agent_run." + strings.ToLower(state.GetStatus().String()), At: r.now, Attempt: 1,
	})
}

// eventID names the change of state that the run has just come to: evt_ and 32 hexadecimal digits, the same whenever it is
// asked again.
func eventID(state *runpb.State) string {
	sum := sha256.Sum256([]byte(state.GetId() + "/" + strconv.FormatUint(state.GetLastSeq(), 10)))
	return "evt_" + hex.EncodeToString(sum[:16])
}

// attempt makes the attempt that is next, if one is left.
func (r *request) attempt(call *runpb.Call) []machine.Effect {
	if _, more := backoff(call.GetAttempt() - 1); call.GetAttempt() > 1 && !more {
		r.callOver(call, false, "")
		return nil
	}
	next := proto.CloneOf(call)
	next.Attempt, next.NextAt = call.GetAttempt()+1, r.now+r.limits.CallbackTimeout.Milliseconds()
	r.callDue(next, "")
	return []machine.Effect{Post{Run: r.after(), Call: call}}
}

// posted says what came of an attempt.
func (r *request) posted(c *runpb.Posted) machine.Decision {
	for _, call := range r.state.GetCallback().GetCalls() {
		if call.GetEventId() != c.GetEventId() || call.GetAttempt() != c.GetAttempt()+1 {
			continue // of an attempt that was counted as lost
		}
		pause, more := backoff(c.GetAttempt())
		if c.GetOk() || c.GetHopeless() || !more {
			r.callOver(call, c.GetOk(), c.GetError())
			continue
		}
		next := proto.CloneOf(call)
		next.NextAt = r.now + pause.Milliseconds()
		r.callDue(next, c.GetError())
	}
	return r.decide()
}

func (r *request) callDue(next *runpb.Call, failed string) {
	r.emit(&runpb.Event{Body: &runpb.Event_CallDue{CallDue: &runpb.CallDue{Call: next, Error: failed}}})
}

func (r *request) callOver(call *runpb.Call, delivered bool, failed string) {
	r.emit(&runpb.Event{Body: &runpb.Event_CallOver{CallOver: &runpb.CallOver{
		EventId: call.GetEventId(), Delivered: delivered, Error: failed,
	}}})
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
			effects = append(effects, r.attempt(call)...)
		}
	}
	if at := r.state.GetCheckAt(); at != 0 && at <= r.now && !Driven(r.state) {
		checks := r.state.GetChecks() + 1
		r.emit(&runpb.Event{Body: &runpb.Event_Checked{Checked: &runpb.Checked{Checks: checks, CheckAt: r.checkAt(checks)}}})
		effects = append(effects, Drive{Run: r.after()})
	}
	return r.decide(effects...)
}
