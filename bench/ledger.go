package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// outcome is the harness's knowledge of one attempt to send a message.
type outcome int

const (
	unknown outcome = iota // no answer, or an inconclusive one: it may be in the log, once
	refused                // it must not be in the log
	done                   // it must be in the log, once, with its answer
)

// acknowledgement is a turn that a server has reported as ended.
type acknowledgement struct {
	text                       string
	messageID, responseID, run string
	content, stop              string
}

// ledger records what the harness did in one conversation, and the answers: at the end the log is checked against it.
// Every attempt has a unique text, so that an attempt with an unknown outcome may be repeated, and a server that does
// something twice is detected.
type ledger struct {
	crowd *crowd
	n     int
	id    string
	agent string

	turning sync.Mutex // held during a turn: the harness never sends two messages at once
	begun   int        // turns; under turning
	read    uint64     // events read so far, see readBack; under turning
	shown   string     // the acknowledged message that the last of these reads was held against; under turning

	mu struct {
		sync.Mutex
		tries  map[string]outcome
		acks   []acknowledgement
		owner  string    // who served it last
		killed time.Time // when the owner was killed; zero once a later command was accepted
		faults []string
	}
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const enough = 20
	if len(l.mu.faults) < enough {
		l.mu.faults = append(l.mu.faults, l.id+": "+fmt.Sprintf(format, args...))
	}
}

func (l *ledger) owner() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.owner
}

type turnAnswer struct {
	Message    struct{ ID string }           `json:"message"`
	Response   *struct{ ID, Content string } `json:"response"`
	StopReason string                        `json:"stopReason"`
	RunID      string                        `json:"runId"`
	Error      *struct{ Code string }        `json:"error"`
}

// turn sends a message and repeats it at other nodes until one reports the end of its turn or the time limit has
// passed. If that fails, a conversation is stuck or the cluster is down.
func (l *ledger) turn() error {
	l.turning.Lock()
	defer l.turning.Unlock()
	return l.turnLocked()
}

func (l *ledger) turnLocked() error {
	c := l.crowd.client
	l.begun++
	r := newRetry(l.crowd.options.RetryFor)
	host := rand.IntN(len(c.hosts))
	for attempt := 1; ; attempt++ {
		text := fmt.Sprintf("message %d.%d of %d", l.begun, attempt, l.n)
		began := time.Now()
		l.note(text, unknown)
		by, answer, err := l.send(host, text)
		switch {
		case err == nil:
			l.accepted(text, by, began, answer)
			return l.judge(answer)
		case final(err):
			l.note(text, refused)
			if l.expected(err) {
				return nil
			}
		}
		if !r.again(err) && !l.busyAfterUnknown(err, r) {
			return err
		}
		c.retries.Add(1)
		r.pause(len(c.hosts))
		host = (host + 1) % len(c.hosts)
	}
}

// busyAfterUnknown reports whether the conversation may be busy with a turn of an earlier attempt whose outcome is
// unknown.
func (l *ledger) busyAfterUnknown(err error, r *retry) bool {
	return err.Error() == codeBusy && !r.deadline.IsZero() && time.Now().Add(r.wait).Before(r.deadline)
}

// final reports whether the server has definitely refused.
func final(err error) bool {
	var failed *callError
	return errors.As(err, &failed) && failed.Status >= 400 && failed.Status < 500
}

// expected reports whether a refusal counts as a success: a budget that is used up stays so.
func (l *ledger) expected(err error) bool {
	return l.agent == agentBudget && strings.HasPrefix(err.Error(), "402")
}

func (l *ledger) send(host int, text string) (by string, answer *turnAnswer, err error) {
	stop := l.crowd.cancelSometimes(l)
	defer stop()
	body, err := json.Marshal(map[string]any{"message": text, "stream": false})
	if err != nil {
		return "", nil, err
	}
	answer = &turnAnswer{}
	by, err = l.crowd.client.attempt(host, &request{
		method: "POST", path: "/conversations/" + l.id + "/messages", body: body, want: 200,
		read: func(text []byte) error { return json.Unmarshal(text, answer) },
	})
	if err != nil && err.Error() == "404 NOT_FOUND" {
		l.fault("the conversation is said not to exist")
	}
	return by, answer, err
}

func (l *ledger) note(text string, what outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.tries[text] = what
}

func (l *ledger) accepted(text, by string, began time.Time, a *turnAnswer) {
	ack := acknowledgement{text: text, messageID: a.Message.ID, run: a.RunID, stop: a.StopReason}
	if a.Response != nil && (a.Response.Content != "" || a.StopReason == "end_turn") { // else nothing was said, and nothing is stored
		ack.responseID, ack.content = a.Response.ID, a.Response.Content
	}
	l.mu.Lock()
	l.mu.tries[text] = done
	l.mu.acks = append(l.mu.acks, ack)
	l.mu.owner = by
	killed := l.mu.killed
	if !killed.IsZero() && began.After(killed) {
		l.mu.killed = time.Time{}
		l.crowd.measured(&l.crowd.first, time.Since(killed))
	}
	l.mu.Unlock()
}

// judge checks that a turn ended correctly.
func (l *ledger) judge(a *turnAnswer) error {
	switch a.StopReason {
	case "end_turn", "budget_reached":
		return nil
	case "cancelled":
		if l.crowd.cancels > 0 {
			return nil
		}
	}
	code := "turn ended: " + a.StopReason
	if a.Error != nil {
		code += " " + a.Error.Code
	}
	return &callError{Status: 200, Code: code}
}

// ownerKilled starts the clock of the next accepted command, and sends one at once.
func (l *ledger) ownerKilled(at time.Time) {
	l.mu.Lock()
	l.mu.killed = at
	l.mu.Unlock()
	l.turning.Lock()
	defer l.turning.Unlock()
	l.mu.Lock()
	waiting := !l.mu.killed.IsZero()
	l.mu.Unlock()
	if waiting {
		if err := l.turnLocked(); err != nil {
			l.fault("no command was accepted after its owner was killed: %v", err)
		}
	}
}

// readBack continues reading the log, at any node, and requires the newest acknowledged message, which detects a node
// that serves from a replica that is behind.
func (l *ledger) readBack() {
	l.turning.Lock()
	defer l.turning.Unlock()
	l.mu.Lock()
	want := ""
	if n := len(l.mu.acks); n > 0 {
		want = l.mu.acks[n-1].messageID
	}
	l.mu.Unlock()
	if want == "" {
		return
	}
	c := l.crowd.client
	events, err := l.events(rand.IntN(len(c.hosts)), l.read)
	if err != nil {
		return // being unavailable is not a wrong answer
	}
	if fault := l.held(want, events); fault != "" {
		l.fault("%s", fault)
	}
}

// held takes events that follow those read before, and says what is wrong where neither shows an acknowledged message.
func (l *ledger) held(want string, events []logEvent) string {
	after := l.read
	found := want == l.shown
	for _, e := range events {
		found = found || e.messageID() == want
		l.read = e.Seq
	}
	if !found {
		return fmt.Sprintf("a read after event %d does not show message %s, which was acknowledged before", after, want)
	}
	l.shown = want
	return ""
}

// events reads the log after a seq from one node.
func (l *ledger) events(host int, after uint64) ([]logEvent, error) {
	var all []logEvent
	for {
		var page struct {
			Events  []json.RawMessage `json:"events"`
			HasMore bool              `json:"hasMore"`
		}
		_, err := l.crowd.client.attempt(host, &request{
			method: "GET", path: fmt.Sprintf("/conversations/%s/events?limit=1000&after=%d", l.id, after), want: 200,
			read: func(text []byte) error { return json.Unmarshal(text, &page) },
		})
		if err != nil {
			return nil, err
		}
		for _, raw := range page.Events {
			e, err := parseEvent(raw)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
			after = e.Seq
		}
		if !page.HasMore || len(page.Events) == 0 {
			return all, nil
		}
	}
}
