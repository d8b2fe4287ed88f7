package actors

import (
	"slices"

	"parley/actors/machine"
)

// wait parks the sender until its key is settled.
func (act *activation) wait(key string) {
	a := act.sender
	act.sender = nil
	a.command, a.kind = nil, nil // it may be long until the answer
	if act.waiters == nil {
		act.waiters = make(map[string][]*ask, 1)
	}
	act.waiters[key] = append(act.waiters[key], a)
	act.waiting++
}

// roomToWait reports whether one more caller may wait.
func (act *activation) roomToWait() bool {
	limit := act.host.system.config.MaxWaiters
	if act.waiting >= limit {
		act.purge()
	}
	return act.waiting < limit && len(act.alarms) < maxAlarms
}

// settle answers everyone who waits for a key.
func (act *activation) settle(s machine.Settlement) {
	waiters := act.waiters[s.Key]
	if len(waiters) == 0 {
		return
	}
	delete(act.waiters, s.Key)
	act.waiting -= len(waiters)
	for _, a := range waiters {
		if s.Failure != nil {
			a.answer(nil, s.Failure)
			continue
		}
		a.answer(s.Reply, nil)
	}
}

// settleAll ends every wait with an error.
func (act *activation) settleAll(err error) {
	for _, waiters := range act.waiters {
		for _, a := range waiters {
			a.answer(nil, err)
		}
	}
	act.waiters, act.waiting = nil, 0
}

// purge removes the waiters that have given up.
func (act *activation) purge() {
	for key, waiters := range act.waiters {
		left := slices.DeleteFunc(waiters, func(a *ask) bool { return a.gone.Load() })
		act.waiting -= len(waiters) - len(left)
		if len(left) == 0 {
			delete(act.waiters, key)
			continue
		}
		act.waiters[key] = left
	}
	if len(act.waiters) == 0 {
		act.waiters = nil
	}
}
