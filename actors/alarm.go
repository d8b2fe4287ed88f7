package actors

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

const (
	// maxAlarms bounds the timers of one entity that callers can cause: above it no more callers may wait.
	maxAlarms = 256
	// firstRetry and lastRetry bound the pause before an internal command (timer, recovery) is retried after a storage
	// error.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
	// maxDoubts bounds how often an entity is read again because an append may still be applied: about a minute.
	maxDoubts = 6
)

// alarm is an internal command that is due later: a timer of the rules, or a retry.
type alarm struct {
	command proto.Message // nil: activate
	key     string        // of the rules; "" = none
	retries int
	timer   *time.Timer
}

func (act *activation) arm(after time.Duration, al *alarm) {
	if i := slices.IndexFunc(act.alarms, func(old *alarm) bool { return al.key != "" && old.key == al.key }); i >= 0 {
		act.alarms[i].timer.Stop()
		act.alarms = slices.Delete(act.alarms, i, i+1)
	}
	act.alarms = append(act.alarms, al)
	root, pid := act.host.system.root, act.pid
	al.timer = time.AfterFunc(after, func() { root.Send(pid, al) })
}

// retry schedules an internal command again after a pause.
func (act *activation) retry(command proto.Message, retries int) {
	pause := lastRetry
	if retries < 6 {
		pause = min(firstRetry<<retries, lastRetry)
	}
	act.arm(pause, &alarm{command: command, retries: retries})
}

// wake schedules an activation without a command, unless one is pending.
func (act *activation) wake() {
	for _, al := range act.alarms {
		if al.command == nil {
			return
		}
	}
	act.retry(nil, 0)
}

// ring runs an internal command that is due. It is retried after a storage error, because no caller would retry it.
func (act *activation) ring(al *alarm) {
	if i := slices.Index(act.alarms, al); i >= 0 {
		act.alarms = slices.Delete(act.alarms, i, i+1)
		act.host.active.Add(1)
		defer act.host.finished()
		act.guard(func() {
			err := act.serve(al.command)
			if worthRetry(err) || al.command == nil && act.doubt.open && al.retries < maxDoubts {
				act.retry(al.command, al.retries+1)
			}
		})
	}
	if len(act.alarms) == 0 {
		act.alarms = nil
	}
	act.note()
}

func (act *activation) disarm() {
	for _, al := range act.alarms {
		al.timer.Stop()
	}
	act.alarms = nil
}
