package actors

import (
	"slices"

	"parley/actors/machine"
)

// wait keeps the sender until its key is settled.
func (g *grain) wait(key string) {
	a := g.sender
	g.sender = nil
	a.command, a.kind = nil, nil // it may be long until the answer
	if g.waiters == nil {
		g.waiters = make(map[string][]*ask, 1)
	}
	g.waiters[key] = append(g.waiters[key], a)
	g.waiting++
}

// roomToWait says whether one more caller may wait.
func (g *grain) roomToWait() bool {
	limit := g.host.system.config.MaxWaiters
	if g.waiting >= limit {
		g.purge()
	}
	return g.waiting < limit && len(g.alarms) < maxAlarms
}

// settle answers everyone who waits for a key.
func (g *grain) settle(s machine.Settlement) {
	waiters := g.waiters[s.Key]
	if len(waiters) == 0 {
		return
	}
	delete(g.waiters, s.Key)
	g.waiting -= len(waiters)
	for _, a := range waiters {
		if s.Failure != nil {
			a.answer(nil, s.Failure)
			continue
		}
		a.answer(s.Reply, nil)
	}
}

// settleAll ends every wait with an error.
func (g *grain) settleAll(err error) {
	for _, waiters := range g.waiters {
		for _, a := range waiters {
			a.answer(nil, err)
		}
	}
	g.waiters, g.waiting = nil, 0
}

// purge forgets the waiters that have given up.
func (g *grain) purge() {
	for key, waiters := range g.waiters {
		left := slices.DeleteFunc(waiters, func(a *ask) bool { return a.gone.Load() })
		g.waiting -= len(waiters) - len(left)
		if len(left) == 0 {
			delete(g.waiters, key)
			continue
		}
		g.waiters[key] = left
	}
	if len(g.waiters) == 0 {
		g.waiters = nil
	}
}
