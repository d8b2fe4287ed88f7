package actors

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
)

const (
	// maxAlarms bounds the timers of one entity that callers can cause: above it no more callers may wait.
	maxAlarms = 256
	// firstRetry and lastRetry bound the pause before an own command (timer, recovery) that storage refused is tried
	// again.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
	// maxDoubts bounds how often an entity is read again because an append may still be applied: over a minute.
	maxDoubts = 6
)

// alarm is a command of the entity's own that is due later: a timer of the rules, or a retry.
type alarm struct {
	command proto.Message // nil: activate
	key     string        // of the rules; "" = none
	retries int
	timer   *time.Timer
}

func (g *grain) arm(after time.Duration, al *alarm) {
	if i := slices.IndexFunc(g.alarms, func(old *alarm) bool { return al.key != "" && old.key == al.key }); i >= 0 {
		g.alarms[i].timer.Stop()
		g.alarms = slices.Delete(g.alarms, i, i+1)
	}
	g.alarms = append(g.alarms, al)
	root, pid := g.host.system.root, g.pid
	al.timer = time.AfterFunc(after, func() { root.Send(pid, al) })
}

// retry brings an own command back after a pause.
func (g *grain) retry(command proto.Message, retries int) {
	pause := lastRetry
	if retries < 6 {
		pause = min(firstRetry<<retries, lastRetry)
	}
	g.arm(pause, &alarm{command: command, retries: retries})
}

// wake activates the entity again soon, though nobody asks for it.
func (g *grain) wake() {
	for _, al := range g.alarms {
		if al.command == nil {
			return
		}
	}
	g.retry(nil, 0)
}

// ring runs an own command that is due. What storage refuses is tried again: nobody else would.
func (g *grain) ring(al *alarm) {
	if i := slices.Index(g.alarms, al); i >= 0 {
		g.alarms = slices.Delete(g.alarms, i, i+1)
		g.host.active.Add(1)
		defer g.host.finished()
		g.guard(func() {
			err := g.serve(al.command)
			if worthRetry(err) || al.command == nil && g.doubt.open && al.retries < maxDoubts {
				g.retry(al.command, al.retries+1)
			}
		})
	}
	if len(g.alarms) == 0 {
		g.alarms = nil
	}
	g.note()
}

func (g *grain) disarm() {
	for _, al := range g.alarms {
		al.timer.Stop()
	}
	g.alarms = nil
}
