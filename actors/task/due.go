package task

import (
	"time"

	"parley/actors/machine"
	"parley/proto/taskpb"
)

// due does what its time has come for: an attempt to call back, and a look at the turn of a task that waits. Its person
// may have acted on the conversation instead of commenting on the task, or its action have expired.
func (r *request) due() machine.Decision {
	var effects []machine.Effect
	if callback := r.state.GetCallback(); callback != nil && callback.GetNextAt() <= r.now {
		effects = append(effects, r.attempt(callback)...)
	}
	if waiting := r.state.GetWaiting(); waiting != nil && waiting.GetCheckAt() <= r.now {
		looked := &taskpb.Waiting{Checks: waiting.GetChecks() + 1, Pending: waiting.GetPending()}
		r.emit(&taskpb.Event{Body: &taskpb.Event_Checked{
			Checked: &taskpb.Checked{Checks: looked.GetChecks(), CheckAt: r.checkAt(looked)},
		}})
		effects = append(effects, Drive{Task: r.after()})
	}
	return r.decide(effects...)
}

// checkAt is when to look at a paused turn next: ever more rarely, and right after its first action expires.
func (r *request) checkAt(waiting *taskpb.Waiting) int64 {
	pause := r.limits.MaxCheckEvery
	if checks := waiting.GetChecks(); checks < 16 {
		pause = min(r.limits.CheckEvery<<checks, pause)
	}
	at := r.now + pause.Milliseconds()
	for _, action := range waiting.GetPending() {
		if expired := action.GetExpiresAt() + time.Second.Milliseconds(); expired > r.now && expired < at {
			at = expired
		}
	}
	return at
}
