package sse

import (
	"sync"
	"time"
)

// wheel pings every connection and rechecks its client's access once per interval, spread evenly over the interval,
// with one timer for all.
type wheel struct {
	every time.Duration
	done  chan struct{}

	mu    sync.Mutex
	slots [][]*conn
	next  int // slot of the next connection
}

// wheelPlace is where a connection is in the wheel, under the wheel's lock.
type wheelPlace struct {
	slot int32
	at   int32 // index in the slot
}

const wheelSlots = 128

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
	ticker := time.NewTicker(max(w.every/wheelSlots, time.Millisecond))
	defer ticker.Stop()
	ping := Comment("ping")
	started := time.Now()
	served := 0
	var batch []*conn
	for {
		select {
		case <-w.done:
			return
		case now := <-ticker.C:
			// Slots are due by the clock, so that late or lost ticks do not stretch the interval.
			due := int(now.Sub(started) * wheelSlots / w.every)
			for ; served < due; served++ {
				w.mu.Lock()
				batch = append(batch[:0], w.slots[served%wheelSlots]...)
				w.mu.Unlock()
				for i, c := range batch {
					c.recheck()
					c.ping(ping, now)
					batch[i] = nil
				}
			}
		}
	}
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
