package sse

import (
	"sync"
	"time"
)

// wheel pings every connection once per interval, and rechecks its client's access at least every recheckEvery, both spread evenly
// over their interval, with one timer for all.
type wheel struct {
	every time.Duration
	done  chan struct{}

	mu    sync.Mutex
	slots [][]*conn
	next  int // slot of the next connection

	batch []*conn // of run only
}

// wheelPlace is where a connection is in the wheel, under the wheel's lock.
type wheelPlace struct {
	slot int32
	at   int32 // index in the slot
}

const wheelSlots = 128

// recheckEvery bounds how long a stream goes on whose client would not be let in any more.
const recheckEvery = 4 * time.Second

func newWheel(every time.Duration) *wheel {
	return &wheel{every: every, done: make(chan struct{}), slots: make([][]*conn, wheelSlots)}
}

func (w *wheel) add(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = (w.next + 1) % len(w.slots)
	c.place.slot = int32(w.next)
	c.place.at = int32(len(w.slots[w.next]))
	w.slots[w.next] = append(w.slots[w.next], c)
}

func (w *wheel) remove(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slot := w.slots[c.place.slot]
	if int(c.place.at) >= len(slot) || slot[c.place.at] != c {
		return
	}
	last := len(slot) - 1
	slot[c.place.at] = slot[last]
	slot[c.place.at].place.at = c.place.at
	slot[last] = nil
	w.slots[c.place.slot] = slot[:last]
}

func (w *wheel) run() {
	recheck := min(w.every, recheckEvery)
	ticker := time.NewTicker(max(recheck/wheelSlots, time.Millisecond))
	defer ticker.Stop()
	ping := Comment("ping")
	started := time.Now()
	var checked, pinged int
	for {
		select {
		case <-w.done:
			return
		case now := <-ticker.C:
			checked = w.serve(checked, now.Sub(started), recheck, func(c *conn) { c.recheck() })
			pinged = w.serve(pinged, now.Sub(started), w.every, func(c *conn) { c.ping(ping, now) })
		}
	}
}

// serve does what is due to the connections of each slot once per interval, and returns how many slots it has come to. Slots are due
// by the clock, so that late or lost ticks do not stretch the interval.
func (w *wheel) serve(served int, elapsed, every time.Duration, do func(*conn)) int {
	due := int(elapsed * wheelSlots / every)
	for ; served < due; served++ {
		w.mu.Lock()
		w.batch = append(w.batch[:0], w.slots[served%wheelSlots]...)
		w.mu.Unlock()
		for i, c := range w.batch {
			do(c)
			w.batch[i] = nil
		}
	}
	return served
}

func (w *wheel) stop() { close(w.done) }

// all returns every connection.
func (w *wheel) all() []*conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	var conns []*conn
	for _, slot := range w.slots {
		conns = append(conns, slot...)
	}
	return conns
}
