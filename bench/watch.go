package bench

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
)

// watch is one follower of a conversation's event stream. When its stream ends it reconnects at the next node. It
// checks the stream and records what it saw.
type watch struct {
	crowd  *crowd
	ledger *ledger
	number int // of all watches

	mu struct {
		sync.Mutex
		checker eventChecker
		seen    []uint64 // sums of the events seen
		host    int      // where it follows, or tries next
		tried   int      // attempts since the last open stream
		due     time.Time
		opened  bool
		killed  time.Time // when the owner was killed; zero once a later event came
		over    bool      // it found a fault and does not reconnect
		trail   []string
	}
}

// frame implements reader.
func (w *watch) frame(now time.Time, f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.over {
		return // what follows a fault means little
	}
	w.trailLocked(now, f)
	seq := w.mu.checker.frame(f)
	if fault := w.mu.checker.fault; fault != "" {
		w.ledger.fault("follower %d at %s: %s; its last frames: %s", w.number, w.crowd.options.URLs[w.mu.host], fault, strings.Join(w.mu.trail, " | "))
		w.mu.over = true
		return
	}
	if seq == 0 {
		return
	}
	w.mu.seen = append(w.mu.seen, sumOf(f.data))
	if killed := w.mu.killed; !killed.IsZero() && createdAfter(f.data, killed) {
		w.mu.killed = time.Time{}
		w.crowd.measured(&w.crowd.heard, now.Sub(killed))
	}
}

// trailLocked keeps the newest frames, for the report of a fault.
func (w *watch) trailLocked(now time.Time, f frame) {
	const frames, length = 6, 120
	if len(w.mu.trail) == frames {
		w.mu.trail = append(w.mu.trail[:0], w.mu.trail[1:]...)
	}
	w.mu.trail = append(w.mu.trail, fmt.Sprintf("%s %s %.*s", now.Format("15:04:05.000"), f.event, length, f.data))
}

// createdAfter reports whether an event was created after a time: an earlier one may arrive after the kill, and does
// not count. Servers and harness share a clock.
func createdAfter(data []byte, at time.Time) bool {
	const key = `"created_at":`
	from := bytes.LastIndex(data, []byte(key))
	if from < 0 {
		return false
	}
	text, ok := quoted(data[from:], key)
	if !ok {
		return false
	}
	created, err := time.Parse(time.RFC3339Nano, string(text))
	return err == nil && created.After(at)
}

// comment implements reader.
func (w *watch) comment(_ time.Time, text []byte) {
	if strings.TrimSpace(string(text)) != "open" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.opened, w.mu.tried = true, 0
	w.mu.trail = append(w.mu.trail[:0], time.Now().Format("15:04:05.000")+" open")
	w.mu.checker.reopened()
}

// end implements reader.
func (w *watch) end(now time.Time, status int, body []byte, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crowd.closing.Load() || w.mu.over {
		return
	}
	if status == 404 {
		w.ledger.fault("follower %d at %s: the conversation is said not to exist", w.number, w.crowd.options.URLs[w.mu.host])
	}
	switch {
	case w.mu.opened:
		w.crowd.ended(endOf(err))
	case status != 0:
		w.crowd.ended("refused " + errorCode(status, body))
	default:
		w.crowd.ended("not answered")
	}
	w.mu.opened = false
	w.mu.host = (w.mu.host + 1) % len(w.crowd.options.URLs)
	w.mu.tried++
	w.mu.due = now
	if w.mu.tried > 1 {
		w.mu.due = now.Add(longestRetryPause / 2)
	}
	w.crowd.reopen(w, w.mu.tried > 1)
}

func endOf(err error) string {
	if err != nil {
		return "broken"
	}
	return "ended by the server"
}

// follow opens the stream where the last one ended. A node that refuses the connection is skipped.
func (w *watch) follow() {
	w.mu.Lock()
	over, due, after, host := w.mu.over, w.mu.due, w.mu.checker.seq, w.mu.host
	w.mu.Unlock()
	if over || !sleepUntil(w.crowd.ctx, due) {
		return
	}
	f := w.crowd.streams
	for range f.hosts {
		w.mu.Lock()
		w.mu.host = host
		w.mu.Unlock()
		if err := f.openAt(host, w.number, followRequest(w.crowd.options, f.hosts[host], w.ledger.id, after), w); err == nil {
			return
		}
		host = (host + 1) % len(f.hosts)
	}
	w.end(time.Now(), 0, nil, nil)
}

// ownerKilled starts the clock of the next event.
func (w *watch) ownerKilled(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.killed = at
}

// behind returns what the follower still lacks of a log, or how it differs.
func (w *watch) behind(events []logEvent) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.over {
		return "" // it has told
	}
	if fault := auditFollower(w.mu.seen, events); fault != "" {
		return fmt.Sprintf("follower %d, now at %s: %s", w.number, w.crowd.options.URLs[w.mu.host], fault)
	}
	return ""
}
