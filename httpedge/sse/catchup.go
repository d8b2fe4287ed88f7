package sse

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// catchup is the list of streams that are behind and can continue. Each is in it at most once, so the number of streams
// bounds it.
type catchup struct {
	mu      sync.Mutex
	some    sync.Cond
	list    []*follower
	stopped bool
}

func newCatchup() *catchup {
	c := &catchup{}
	c.some.L = &c.mu
	return c
}

func (c *catchup) add(f *follower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting || c.stopped {
		return
	}
	f.waiting = true
	c.list = append(c.list, f)
	c.some.Signal()
}

func (c *catchup) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.list = nil
	c.some.Broadcast()
}

// run serves the list until stop.
func (c *catchup) run(ctx context.Context) {
	for {
		c.mu.Lock()
		for len(c.list) == 0 && !c.stopped {
			c.some.Wait()
		}
		if c.stopped {
			c.mu.Unlock()
			return
		}
		f := c.list[0]
		c.list[0] = nil
		c.list = c.list[1:]
		f.waiting = false
		c.mu.Unlock()
		f.topic.advance(ctx, f)
	}
}

// advance sends a stream events from the ring and the log, as far as its client reads them.
func (t *topic) advance(ctx context.Context, f *follower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.pumping {
		return
	}
	f.pumping = true
	for t.pump(f) && t.page(ctx, f) {
	}
	f.pumping = false
}

// pump sends a stream events from the ring until it is live, and a live one the running text. It is true when the next
// event must be read from the log. It stops when the client must read first, or the topic is not subscribed; the stream
// is put back on the list when that changes.
func (t *topic) pump(f *follower) bool {
	if f.live && !f.over {
		f.sendText(t, nil, urgent)
		return false
	}
	for !f.over && !f.live && t.state == live && f.conn.awaitRoom() {
		e := t.ring.at(f.cursor + 1)
		switch {
		case f.cursor == t.lastSeq || f.cursor > t.lastSeq && f.known:
			f.live = true
			f.known = true
			f.sendText(t, nil, urgent)
		case e != nil:
			f.deliver(e, urgent)
		default:
			return true
		}
	}
	return false
}

// page reads one page of the log for a stream. The lock is held, and released during the read. It is false when the
// stream cannot continue now.
func (t *topic) page(ctx context.Context, f *follower) bool {
	h := t.hub
	after := f.cursor
	t.mu.Unlock()
	read, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
	events, last, err := h.upstream.Events(read, t.id, after, h.cfg.CatchupPage)
	cancel()
	h.metrics.pages.Inc()
	t.mu.Lock()
	switch {
	case f.over || ctx.Err() != nil:
		return false
	case err != nil && isGone(err):
		f.end(Deleted)
		return false
	case err != nil || len(events) == 0 && after < t.lastSeq && last < t.lastSeq:
		return t.retry(f, err) // an error, or a log that is behind what it has sent
	}
	f.tries = 0
	if len(events) == 0 {
		// There is no public event after the cursor. A cursor beyond the end is not from this log: continue from the
		// actual end.
		f.cursor = max(last, min(after, t.lastSeq))
		f.known = true
		return true
	}
	for _, event := range events {
		if f.over || !f.conn.awaitRoom() {
			break
		}
		if event.GetSeq() > f.cursor {
			f.deliver(&entry{event: event}, urgent)
		}
	}
	return true
}

// readTries is how often a stream's read of the log may fail in a row: with the growing pauses, longer than a change of
// owner takes.
const readTries = 12

func (t *topic) retry(f *follower, err error) bool {
	f.tries++
	if f.tries > readTries {
		t.hub.log.Warn("event log cannot be read", slog.String("conversation", t.id), slog.Any("err", err))
		f.end(Lost)
		return false
	}
	pause := min(t.hub.cfg.RetryMin<<f.tries, t.hub.cfg.RetryMax)
	time.AfterFunc(pause, func() { t.hub.catchup.add(f) })
	return false
}
