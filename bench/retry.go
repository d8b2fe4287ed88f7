package bench

import (
	"errors"
	"sync"
	"time"
)

// codeRefused is the code of a refused connection: the request was not sent.
const codeRefused = "connection refused"

// codeBusy is the code of a second turn that was refused while one runs.
const codeBusy = "409 conversation_busy"

// codeKeyTaken is the code of a repetition whose first attempt is under way, and of a key that was used for another request.
const codeKeyTaken = "409 idempotency_conflict"

// retry decides whether and when a failed request is repeated. One for each request.
type retry struct {
	deadline time.Time // zero = never again
	attempts int
	wait     time.Duration
	refused  bool // the last connection was refused
}

const (
	firstRetryPause   = 20 * time.Millisecond
	longestRetryPause = 200 * time.Millisecond
)

func newRetry(limit time.Duration) *retry {
	r := &retry{wait: firstRetryPause}
	if limit > 0 {
		r.deadline = time.Now().Add(limit)
	}
	return r
}

// again reports whether a request that failed with this error may be repeated. If the first attempt did succeed, its
// repetition is refused as busy while the turn runs, and waits for that turn; as it waits for an answer that is not kept yet.
func (r *retry) again(err error) bool {
	var failed *callError
	if !errors.As(err, &failed) || r.deadline.IsZero() || time.Now().Add(r.wait).After(r.deadline) {
		return false
	}
	r.attempts++
	r.refused = failed.Code == codeRefused
	switch failed.Status {
	case 0, 503:
		return true
	case 409:
		return r.attempts > 1 && (failed.Code == codeBusy || failed.Code == codeKeyTaken)
	default:
		return false
	}
}

// pause waits before the next attempt. Nodes that refuse connections are skipped at once, until all have been tried.
func (r *retry) pause(hosts int) {
	if r.refused && r.attempts%hosts != 0 {
		return
	}
	time.Sleep(r.wait)
	r.wait = min(r.wait*2, longestRetryPause)
}

// blackouts measures the longest times without a success, per host and overall.
type blackouts struct {
	names []string
	mu    struct {
		sync.Mutex
		last    []time.Time // by host; the last one is for all hosts together
		longest []time.Duration
		began   bool
	}
}

func newBlackouts(names []string) *blackouts {
	b := &blackouts{names: names}
	b.mu.last = make([]time.Time, len(names)+1)
	b.mu.longest = make([]time.Duration, len(names)+1)
	return b
}

// begin starts the measurement: now counts as a success everywhere.
func (b *blackouts) begin(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.began = true
	for i := range b.mu.last {
		b.mu.last[i], b.mu.longest[i] = now, 0
	}
}

func (b *blackouts) success(host int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.began {
		b.noteLocked(host, now)
		b.noteLocked(len(b.names), now)
	}
}

func (b *blackouts) noteLocked(i int, now time.Time) {
	b.mu.longest[i] = max(b.mu.longest[i], now.Sub(b.mu.last[i]))
	b.mu.last[i] = now
}

// report adds the results until now, if there is more than one host.
func (b *blackouts) report(r *Report, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.began || len(b.names) < 2 {
		return
	}
	for i := range b.mu.last {
		b.noteLocked(i, now)
		name := "all nodes together"
		if i < len(b.names) {
			name = b.names[i]
		}
		r.Numbers["longest time without an answer, ms, "+name] = milliseconds(b.mu.longest[i])
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
