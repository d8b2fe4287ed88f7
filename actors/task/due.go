package task

import (
	"time"

	"parley/actors/machine"
	"parley/proto/taskpb"
)

// due does what its time has come for: an attempt to call back, and a look at the turn of a task that waits. Its person
// may have acted on the conversation instead of commenting on the task, or its action have expired.
func (r *request) due(*taskpb.Due) *machine.Failure {
	if callback := r.Before.GetCallback(); callback != nil && callback.GetNextAt() <= r.Now {
		r.attempt(callback)
	}
	if waiting := r.Before.GetWaiting(); waiting != nil && waiting.GetCheckAt() <= r.Now {
		looked := &taskpb.Waiting{Checks: waiting.GetChecks() + 1, Pending: waiting.GetPending()}
		r.Emit(&taskpb.Event{Body: &taskpb.Event_Checked{
			Checked: &taskpb.Checked{Checks: looked.GetChecks(), CheckAt: r.checkAt(looked)},
		}})
		r.drive()
	}
	return nil
}

// checkAt is when to look at a paused turn next: ever more rarely, and right after its first action expires.
func (r *request) checkAt(waiting *taskpb.Waiting) int64 {
	pause := r.limits.MaxCheckEvery
	if checks := waiting.GetChecks(); checks < 16 {
		pause = min(r.limits.CheckEvery<<checks, pause)
	}
	at := r.Now + pause.Milliseconds()
	for _, action := range waiting.GetPending() {
		if expired := action.GetExpiresAt() + time.Second.Milliseconds(); expired > r.Now && expired < at {
			at = expired
		}
	}
	return at
}
