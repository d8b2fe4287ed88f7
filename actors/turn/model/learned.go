package model

import "sync"

// maxLearned bounds what is remembered.
const maxLearned = 1000

// learned remembers what agents or models have refused, so that it is waited for once: agents, by their URLs, the first version of their
// protocol. What it forgets, or what is no longer so, costs that one round trip again. The zero value knows of none; it is
// safe for concurrent use.
type learned struct {
	mu    sync.Mutex
	known map[string]struct{}
}

func (l *learned) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.known[name]
	return found
}

// note takes what one has just shown.
func (l *learned) note(name string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, name)
	if !is {
		return
	}
	if l.known == nil {
		l.known = make(map[string]struct{})
	}
	for other := range l.known {
		if len(l.known) < maxLearned {
			break
		}
		delete(l.known, other) // any
	}
	l.known[name] = struct{}{}
}
