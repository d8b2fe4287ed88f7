package inference

import (
	"sync"
	"time"
)

// maxBreakers bounds how many providers are watched: only those that failed lately are.
const maxBreakers = 4096

// breakers leaves providers alone that failed too often in a row.
type breakers struct {
	threshold int // 0 = never
	reset     time.Duration

	mu   sync.Mutex
	byID map[string]*breaker
}

// breaker watches one provider and kind of call.
type breaker struct {
	failures int
	until    time.Time // open until then
	trying   bool      // a call is finding out whether it works again
}

func newBreakers(threshold int, reset time.Duration) *breakers {
	return &breakers{threshold: threshold, reset: reset, byID: make(map[string]*breaker)}
}

// allow says whether a call may be made. Every call that may must be reported.
func (b *breakers) allow(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byID[id]
	if one == nil || one.failures < b.threshold {
		return true
	}
	if one.trying || time.Now().Before(one.until) {
		return false
	}
	one.trying = true
	return true
}

// What a call says of its provider.
type health int

const (
	unknown health = iota // it was ended by the caller
	well
	failing
)

func (b *breakers) report(id string, found health) {
	if b.threshold == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byID[id]
	switch {
	case found == well:
		delete(b.byID, id)
		return
	case one == nil && found == unknown:
		return
	case one == nil:
		b.makeRoom()
		one = &breaker{}
		b.byID[id] = one
	}
	one.trying = false
	if found == unknown {
		return
	}
	if one.failures++; one.failures >= b.threshold {
		one.until = time.Now().Add(b.reset)
	}
}

// makeRoom forgets one breaker when there are too many: its provider gets a new chance.
func (b *breakers) makeRoom() {
	if len(b.byID) < maxBreakers {
		return
	}
	for id := range b.byID {
		delete(b.byID, id)
		return
	}
}
