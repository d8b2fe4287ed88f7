package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// A conversation's history is what its clients did and were told, and when. It is linearizable if all of it can be put
// into one order that fits the clocks of the clients and the conversation's log as it was read at the end: every answer
// must be the truth of one moment between its question and itself.
//
// The state of the model is a position in that log. Turns go on by themselves, so a position may move over what the
// system wrote (running, answered, idle, recovered) at any time; it moves over a message only with the send that wrote
// it. What a client was not told may have been done: a send without an answer is in the history if its message is in the
// log, and then without an end.

// verdict is what a client was told.
type verdict int

const (
	sent    verdict = iota // a message was accepted
	busy                   // a message was refused: a turn runs
	settled                // a cancel: nothing of that run can appear any more
	winding                // a cancel: the run is still winding down
	nothing                // a cancel: nothing ran
	read                   // the head of the conversation
	listed                 // the event log up to its end
	seen                   // an event on a stream
)

var verdictNames = [...]string{"sent", "busy", "settled", "winding", "nothing", "read", "listed", "seen"}

// deed is one operation of a client, and what became of it.
type deed struct {
	client int
	node   string // asked
	by     string // X-Served-By
	began  time.Duration
	ended  time.Duration // of the history; unknown = never
	what   verdict
	text   string // of a send, accepted or refused
	seq    uint64 // of the message, read, listed or seen
	run    string // of busy, settled, winding; of read "" when idle, else anything
}

const never = time.Duration(math.MaxInt64)

// ledger is a conversation's log, made ready for questions. Position p is after event p; 0 is before the first.
type ledger struct {
	running []string          // run at a position, "" = idle
	inside  []bool            // a position within what is written at once: nobody may see it
	message []bool            // event p is a client's message
	sent    map[string]uint64 // text of a message -> its seq
	begins  map[string]uint64 // run -> position at which it runs
	ends    map[string]uint64 // run -> position at which it has ended
}

// newLedger reads a log. The error says what no log may hold: a hole, a message twice, two turns at once.
func newLedger(events []wireEvent) (*ledger, error) {
	n := len(events)
	l := &ledger{
		running: make([]string, n+1), inside: make([]bool, n+1), message: make([]bool, n+1),
		sent: map[string]uint64{}, begins: map[string]uint64{}, ends: map[string]uint64{},
	}
	for i, event := range events {
		p := i + 1
		if event.Seq != uint64(p) {
			return nil, fmt.Errorf("event %d stands where %d belongs", event.Seq, p)
		}
		l.running[p] = l.running[i]
		switch event.Type {
		case "user.message":
			var data struct{ Content string }
			if err := json.Unmarshal(event.Data, &data); err != nil {
				return nil, err
			}
			if first, twice := l.sent[data.Content]; twice {
				return nil, fmt.Errorf("message %q stands at %d and %d", data.Content, first, p)
			}
			if l.running[p] != "" {
				return nil, fmt.Errorf("message %d was taken while %s ran", p, l.running[p])
			}
			l.sent[data.Content], l.message[p], l.inside[p] = event.Seq, true, true
		case "agent.message":
			l.inside[p] = true
		case "session.status_running":
			if l.running[p] != "" {
				return nil, fmt.Errorf("%s begins at %d while %s runs", event.RunID, p, l.running[p])
			}
			l.running[p], l.begins[event.RunID] = event.RunID, event.Seq
		case "session.status_idle":
			if l.running[p] != event.RunID {
				return nil, fmt.Errorf("%s ends at %d while %q runs", event.RunID, p, l.running[p])
			}
			l.running[p], l.ends[event.RunID] = "", event.Seq
		}
	}
	return l, nil
}

// reach returns the first position from p on that is what is wanted, if the system can get there by itself.
func (l *ledger) reach(p uint64, wanted func(p uint64) bool) (uint64, bool) {
	for ; p < uint64(len(l.running)); p++ {
		if !l.inside[p] && wanted(p) {
			return p, true
		}
		if p+1 < uint64(len(l.running)) && l.message[p+1] {
			break
		}
	}
	return 0, false
}

// step is the model: where a deed at position p leads, false when it cannot have happened there.
func (l *ledger) step(p uint64, d deed) (uint64, bool) {
	switch d.what {
	case sent:
		before, ok := l.reach(p, func(p uint64) bool { return p == d.seq-1 })
		return before + 2, ok // the message, and the running that is written with it
	case busy:
		return l.reach(p, func(p uint64) bool { return l.running[p] == d.run })
	case settled:
		end, ok := l.ends[d.run]
		if !ok {
			return 0, false
		}
		return l.reach(p, func(p uint64) bool { return p >= end })
	case winding:
		begin, ok := l.begins[d.run]
		if !ok {
			return 0, false
		}
		return l.reach(p, func(p uint64) bool { return p >= begin })
	case nothing:
		return l.reach(p, func(p uint64) bool { return l.running[p] == "" })
	case read:
		return l.reach(p, func(p uint64) bool { return p == d.seq && (l.running[p] != "") == (d.run != "") })
	case listed:
		return l.reach(p, func(p uint64) bool { return p == d.seq })
	case seen:
		return l.reach(p, func(p uint64) bool { return p >= d.seq })
	}
	return 0, false
}

// model is the ledger as porcupine wants to see it.
func (l *ledger) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return uint64(0) },
		Step: func(state, input, _ any) (bool, any) {
			p, ok := l.step(position(state), deedOf(input))
			return ok, p
		},
		DescribeOperation: func(input, _ any) string {
			d := deedOf(input)
			return strings.Join(slices.DeleteFunc([]string{
				verdictNames[d.what], d.text, fmt.Sprint(d.seq), d.run, "asked " + d.node, "served by " + d.by,
			}, func(s string) bool { return s == "" || s == "0" || s == "served by " }), " ")
		},
		DescribeState: func(state any) string {
			p := position(state)
			return fmt.Sprintf("%d %s", p, cmp.Or(l.running[min(p, uint64(len(l.running)-1))], "idle"))
		},
	}
}

// position and deedOf get back what porcupine was given: nothing else is.
func position(state any) uint64 { p, _ := state.(uint64); return p }

func deedOf(input any) deed { d, _ := input.(deed); return d }

// complete gives deeds without an answer their place, or none, and finds what no order can explain: an accepted message
// that is not in the log, a message in the log that nobody sent.
func (l *ledger) complete(deeds []deed) ([]deed, error) {
	known := map[string]bool{}
	var kept []deed
	for _, d := range deeds {
		if d.what == sent {
			seq, ok := l.sent[d.text]
			switch {
			case !ok && d.ended == never:
				known[d.text] = true
				continue // it was not done
			case !ok:
				return nil, fmt.Errorf("message %q was accepted by %s and is not in the log", d.text, d.by)
			case d.seq != 0 && d.seq != seq:
				return nil, fmt.Errorf("message %q was accepted as event %d and is event %d", d.text, d.seq, seq)
			}
			d.seq = seq
			known[d.text] = true
		} else if d.ended == never {
			continue // it told nothing
		}
		if seq, ok := l.sent[d.text]; ok && d.what == busy {
			return nil, fmt.Errorf("message %q, asked at %s, was refused by %s from %s to %s because of %s, and is event %d", d.text, d.node, d.by, d.began, d.ended, d.run, seq)
		}
		kept = append(kept, d)
	}
	for text, seq := range l.sent {
		if !known[text] {
			return nil, fmt.Errorf("event %d: nobody sent %q", seq, text)
		}
	}
	return kept, nil
}

// linearize checks a history against the log. A history that is not linearizable is drawn to a file, if it has a name.
func linearize(events []wireEvent, deeds []deed, picture string) error {
	l, err := newLedger(events)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	deeds, err = l.complete(deeds)
	if err != nil {
		return err
	}
	var history []porcupine.Operation
	for _, d := range deeds {
		history = append(history, porcupine.Operation{
			ClientId: d.client, Input: d, Call: d.began.Nanoseconds(), Return: d.ended.Nanoseconds(),
		})
	}
	result, info := porcupine.CheckOperationsVerbose(l.model(), history, time.Minute)
	if result == porcupine.Ok {
		return nil
	}
	if picture != "" {
		if err := porcupine.VisualizePath(l.model(), info, picture); err != nil {
			return fmt.Errorf("history of %d operations is not linearizable (%s), and cannot be drawn: %w", len(history), result, err)
		}
	}
	return fmt.Errorf("history of %d operations is not linearizable (%s), see %s", len(history), result, picture)
}

// plantedLog is a log of two turns; the second was cancelled.
func plantedLog() []wireEvent {
	type row struct{ kind, run, content string }
	var events []wireEvent
	for i, r := range []row{
		{"user.message", "r1", "a"},
		{"session.status_running", "r1", ""},
		{"agent.message", "r1", "A"},
		{"session.status_idle", "r1", ""},
		{"user.message", "r2", "b"},
		{"session.status_running", "r2", ""},
		{"session.cancel_requested", "r2", ""},
		{"session.status_idle", "r2", ""},
	} {
		data, err := json.Marshal(map[string]string{"content": r.content})
		if err != nil {
			return nil
		}
		events = append(events, wireEvent{Seq: uint64(i + 1), Type: r.kind, RunID: r.run, Data: data})
	}
	return events
}

// TestHistories: the checker takes what can have been, and finds every planted fault.
func TestHistories(t *testing.T) {
	const ms = time.Millisecond
	a := deed{began: 0, ended: 10 * ms, what: sent, text: "a", seq: 1}
	b := deed{began: 100 * ms, ended: 110 * ms, what: sent, text: "b", seq: 5}
	lost := deed{began: 50 * ms, ended: never, what: sent, text: "c"}
	at := func(from, to int, d deed) deed {
		d.client, d.began, d.ended = 1, time.Duration(from)*ms, time.Duration(to)*ms
		return d
	}
	cases := map[string]struct {
		deeds []deed
		fault string
	}{
		"both_sent":                      {[]deed{a, b}, ""},
		"without_an_answer_and_not_done": {[]deed{a, lost, b}, ""},
		"without_an_answer_and_done":     {[]deed{a, {began: 20 * ms, ended: never, what: sent, text: "b"}}, ""},
		"reads_between":                  {[]deed{a, at(20, 30, deed{what: read, seq: 4}), b, at(105, 200, deed{what: read, seq: 6, run: "r2"})}, ""},
		"read_of_a_running_turn":         {[]deed{a, at(5, 30, deed{what: read, seq: 2, run: "r1"}), b}, ""},
		"busy_while_it_ran":              {[]deed{a, at(5, 20, deed{what: busy, run: "r1"}), b}, ""},
		"cancel_settles":                 {[]deed{a, b, at(120, 130, deed{what: winding, run: "r2"}), at(131, 140, deed{what: settled, run: "r2"}), at(141, 150, deed{what: nothing})}, ""},
		"seen_on_a_stream":               {[]deed{a, b, at(0, 105, deed{what: seen, seq: 5}), at(0, 200, deed{what: seen, seq: 8})}, ""},

		"accepted_and_lost":       {[]deed{a, b, {began: 0, ended: ms, what: sent, text: "c"}}, "is not in the log"},
		"refused_and_done":        {[]deed{a, at(3, 9, deed{what: busy, text: "b", run: "r1"})}, "was refused"},
		"nobody_sent_it":          {[]deed{a}, "nobody sent"},
		"other_place_than_told":   {[]deed{a, {ended: ms, what: sent, text: "b", seq: 9}}, "accepted as event 9"},
		"order_against_clocks":    {[]deed{at(50, 60, a), at(0, 10, b)}, "not linearizable"},
		"stale_read":              {[]deed{a, b, at(120, 130, deed{what: read, seq: 4})}, "not linearizable"},
		"read_before_it_was_sent": {[]deed{a, at(20, 30, deed{what: read, seq: 6, run: "r2"}), b}, "not linearizable"},
		"read_goes_back":          {[]deed{a, at(20, 30, deed{what: read, seq: 4}), at(31, 40, deed{what: read, seq: 2, run: "r1"}), b}, "not linearizable"},
		"read_within_a_write":     {[]deed{a, at(5, 30, deed{what: listed, seq: 1}), b}, "not linearizable"},
		"head_unlike_the_log":     {[]deed{a, at(5, 30, deed{what: read, seq: 2}), b}, "not linearizable"},
		"busy_when_idle":          {[]deed{a, b, at(20, 30, deed{what: read, seq: 4}), at(31, 90, deed{what: busy, run: "r1"})}, "not linearizable"},
		"busy_of_no_run":          {[]deed{a, b, at(20, 30, deed{what: busy, run: "r9"})}, "not linearizable"},
		"settled_too_early":       {[]deed{a, b, at(111, 120, deed{what: settled, run: "r2"}), at(121, 130, deed{what: read, seq: 6, run: "r2"})}, "not linearizable"},
		"settled_what_never_ran":  {[]deed{a, b, at(111, 120, deed{what: settled, run: "r9"})}, "not linearizable"},
		"nothing_while_it_ran":    {[]deed{a, b, at(111, 112, deed{what: nothing}), at(113, 114, deed{what: busy, run: "r2"})}, "not linearizable"},
		"seen_before_it_was_sent": {[]deed{a, at(0, 50, deed{what: seen, seq: 5}), b}, "not linearizable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			picture := t.TempDir() + "/history.html"
			err := linearize(plantedLog(), c.deeds, picture)
			if c.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.fault)
			if c.fault == "not linearizable" {
				require.FileExists(t, picture)
			}
		})
	}
}

// TestLedgers: what no log may hold.
func TestLedgers(t *testing.T) {
	cases := map[string]struct {
		change func([]wireEvent) []wireEvent
		fault  string
	}{
		"hole":        {func(e []wireEvent) []wireEvent { return slices.Delete(e, 2, 3) }, "stands where 3 belongs"},
		"twice":       {func(e []wireEvent) []wireEvent { e[4].Data = e[0].Data; return e }, `"a" stands at 1 and 5`},
		"two_turns":   {func(e []wireEvent) []wireEvent { e[3].Type = "session.updated"; return e }, "while r1 ran"},
		"other_end":   {func(e []wireEvent) []wireEvent { e[3].RunID = "r2"; return e }, `r2 ends at 4`},
		"starts_both": {func(e []wireEvent) []wireEvent { e[2].Type, e[2].RunID = "session.status_running", "r7"; return e }, "r7 begins at 3 while r1 runs"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newLedger(c.change(plantedLog()))
			require.ErrorContains(t, err, c.fault)
		})
	}
}
