package bench

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
)

// logEvent is an event of a conversation's log.
type logEvent struct {
	Seq   uint64 `json:"seq"`
	Type  string `json:"type"`
	RunID string `json:"run_id"`
	Data  struct {
		Content    string `json:"content"`
		MessageID  string `json:"message_id"`
		StopReason string `json:"stop_reason"`
		Usage      *struct {
			CostUSD float64 `json:"cost_usd"`
		} `json:"usage"`
	} `json:"data"`
	sum uint64 // of its whole text, to compare what different readers saw
}

func parseEvent(raw []byte) (logEvent, error) {
	var e logEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("read event: %w", err)
	}
	e.sum = sumOf(raw)
	return e, nil
}

func sumOf(text []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return h.Sum64()
}

func (e *logEvent) messageID() string { return e.Data.MessageID }

// auditLog checks a conversation's log against what the harness did and the answers it got, and returns what is wrong.
func auditLog(events []logEvent, tries map[string]outcome, acks []acknowledgement) []string {
	a := &audit{texts: map[string]int{}, messages: map[string]logEvent{}, ended: map[string]string{}}
	for i := range events {
		a.event(uint64(i)+1, &events[i])
	}
	if a.running != "" {
		a.failf("stuck: run %s never ends", a.running)
	}
	for text, times := range a.texts {
		what, known := tries[text]
		switch {
		case !known:
			a.failf("message %q is in the log and was never sent", text)
		case what == refused:
			a.failf("message %q is in the log and was refused", text)
		case times > 1:
			a.failf("doubled: message %q is in the log %d times", text, times)
		}
	}
	for _, ack := range acks {
		a.acknowledged(&ack)
	}
	return a.faults
}

type audit struct {
	texts    map[string]int      // user messages: how often
	messages map[string]logEvent // all messages by id
	ended    map[string]string   // run: how it ended
	running  string
	answered bool // the current run has given its answer
	faults   []string
}

func (a *audit) failf(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *audit) event(want uint64, e *logEvent) {
	if e.Seq != want {
		a.failf("event %d is where %d should be", e.Seq, want)
	}
	if id := e.messageID(); id != "" {
		if before, twice := a.messages[id]; twice {
			a.failf("doubled: message %s is event %d and %d", id, before.Seq, e.Seq)
		}
		a.messages[id] = *e
	}
	switch e.Type {
	case "user.message":
		a.texts[e.Data.Content]++
	case "session.status_running":
		if a.running != "" {
			a.failf("two turns at once: run %s begins at event %d while %s runs", e.RunID, e.Seq, a.running)
		}
		if _, before := a.ended[e.RunID]; before {
			a.failf("run %s begins again at event %d", e.RunID, e.Seq)
		}
		a.running, a.answered = e.RunID, false
	case "agent.message":
		switch {
		case a.running != e.RunID:
			a.failf("run %s answers at event %d and does not run", e.RunID, e.Seq)
		case a.answered:
			a.failf("run %s answers a second time at event %d", e.RunID, e.Seq)
		default:
			a.answered = true
		}
	case "session.recovered", "session.cancel_requested":
		if a.running != e.RunID {
			a.failf("%s of run %s at event %d, which does not run", e.Type, e.RunID, e.Seq)
		}
	case "session.status_idle":
		if a.running != e.RunID {
			a.failf("run %s ends at event %d and does not run", e.RunID, e.Seq)
		}
		a.ended[e.RunID], a.running = e.Data.StopReason, ""
	}
}

func (a *audit) acknowledged(ack *acknowledgement) {
	question, there := a.messages[ack.messageID]
	switch {
	case !there:
		a.failf("lost: message %s (%q) was acknowledged", ack.messageID, ack.text)
	case question.Data.Content != ack.text:
		a.failf("message %s says %q, %q was acknowledged", ack.messageID, question.Data.Content, ack.text)
	}
	if ack.responseID != "" {
		answer, there := a.messages[ack.responseID]
		switch {
		case !there:
			a.failf("lost: answer %s to %q was acknowledged", ack.responseID, ack.text)
		case answer.Data.Content != ack.content:
			a.failf("answer %s says %.40q, %.40q was acknowledged", ack.responseID, answer.Data.Content, ack.content)
		}
	}
	if stop, ended := a.ended[ack.run]; !ended || stop != ack.stop {
		a.failf("run %s ended %q, %q was acknowledged", ack.run, stop, ack.stop)
	}
}

// auditFollower compares what a follower saw with the log: the same events in the same order, all of them.
func auditFollower(seen []uint64, events []logEvent) string {
	for i, sum := range seen {
		if i >= len(events) {
			return fmt.Sprintf("lost: a follower saw event %d, the log ends at %d", i+1, len(events))
		}
		if sum != events[i].sum {
			return fmt.Sprintf("a follower saw another event %d than the log has (%s)", i+1, events[i].Type)
		}
	}
	if len(seen) < len(events) {
		return fmt.Sprintf("lost: a follower saw events up to %d of %d", len(seen), len(events))
	}
	return ""
}

// auditCopies compares the logs that two nodes show.
func auditCopies(one, other []logEvent) string {
	for i := range min(len(one), len(other)) {
		if one[i].sum != other[i].sum {
			return fmt.Sprintf("nodes show different events %d (%s, %s)", i+1, one[i].Type, other[i].Type)
		}
	}
	if len(one) != len(other) {
		return fmt.Sprintf("one node shows %d events, another %d", len(one), len(other))
	}
	return ""
}

// auditBudget checks that the reported spending matches the log, and exceeds the budget by at most one call.
func auditBudget(events []logEvent, limit, spent float64) []string {
	const rounding = 1e-9
	var faults []string
	var sum, dearest float64
	for _, e := range events {
		if e.Type == "agent.message" && e.Data.Usage != nil {
			sum += e.Data.Usage.CostUSD
			dearest = max(dearest, e.Data.Usage.CostUSD)
		}
	}
	if sum > limit+dearest+rounding || spent > limit+dearest+rounding {
		faults = append(faults, fmt.Sprintf("budget overspent: %.6f in the log, %.6f on record, limit %.6f", sum, spent, limit))
	}
	if spent < sum-rounding {
		faults = append(faults, fmt.Sprintf("spending forgotten: %.6f in the log, %.6f on record", sum, spent))
	}
	return faults
}

// describe formats a log for debugging.
func describe(events []logEvent) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s %s %s %.40q %s\n", e.Seq, e.Type, e.RunID, e.Data.MessageID, e.Data.Content, e.Data.StopReason)
	}
	return b.String()
}
