package bench

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// history is a log in short: one word for each event, TYPE:RUN or TYPE:RUN:MESSAGE:CONTENT.
func history(t *testing.T, words ...string) []logEvent {
	t.Helper()
	var events []logEvent
	for i, word := range words {
		var raw string
		at := i + 1
		var kind, run, rest string
		_, err := fmt.Sscanf(word, "%s %s %s", &kind, &run, &rest)
		require.NoError(t, err)
		switch kind {
		case "ask":
			raw = fmt.Sprintf(`{"seq":%d,"type":"user.message","run_id":%q,"data":{"content":%q,"message_id":"q_%s"}}`, at, run, rest, rest)
		case "run", "back":
			name := map[string]string{"run": "session.status_running", "back": "session.recovered"}[kind]
			raw = fmt.Sprintf(`{"seq":%d,"type":%q,"run_id":%q,"data":{}}`, at, name, run)
		case "say":
			raw = fmt.Sprintf(`{"seq":%d,"type":"agent.message","run_id":%q,"data":{"content":"hello","message_id":"a_%s","usage":{"cost_usd":0.001}}}`, at, run, rest)
		case "idle":
			raw = fmt.Sprintf(`{"seq":%d,"type":"session.status_idle","run_id":%q,"data":{"stop_reason":%q}}`, at, run, rest)
		}
		e, err := parseEvent([]byte(raw))
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

func TestAuditLog(t *testing.T) {
	turn := []string{"ask r1 one", "run r1 -", "say r1 one", "idle r1 end_turn"}
	second := []string{"ask r2 two", "run r2 -", "back r2 -", "say r2 two", "idle r2 end_turn"}
	both := append(append([]string{}, turn...), second...)
	ackOf := func(text, run string) acknowledgement {
		return acknowledgement{text: text, messageID: "q_" + text, responseID: "a_" + text, run: run, content: "hello", stop: "end_turn"}
	}
	acks := []acknowledgement{ackOf("one", "r1"), ackOf("two", "r2")}
	tries := map[string]outcome{"one": done, "two": done, "three": unknown, "no": refused}
	without := func(at int) []string { return append(append([]string{}, both[:at]...), both[at+1:]...) }
	plus := func(words ...string) []string { return append(append([]string{}, both...), words...) }
	for name, c := range map[string]struct {
		words  []string
		faults []string // each in one of those found
	}{
		"right":          {both, nil},
		"unknown_done":   {plus("ask r3 three", "run r3 -", "idle r3 error"), nil},
		"lost_turn":      {turn, []string{`lost: message q_two ("two") was acknowledged`, "lost: answer a_two", `run r2 ended ""`}},
		"lost_question":  {without(4), []string{`lost: message q_two`}},
		"lost_answer":    {without(7), []string{`lost: answer a_two`}},
		"lost_end":       {without(8), []string{"stuck: run r2 never ends", `run r2 ended ""`}},
		"stuck":          {plus("ask r3 three", "run r3 -"), []string{"stuck: run r3"}},
		"doubled":        {plus("ask r3 three", "run r3 -", "idle r3 end_turn", "ask r4 three", "run r4 -", "idle r4 end_turn"), []string{`doubled: message "three" is in the log 2 times`, "doubled: message q_three"}},
		"same_id_twice":  {plus("ask r3 one"), []string{"doubled: message q_one is event 1 and 10", `doubled: message "one"`}},
		"never_sent":     {plus("ask r3 ghost"), []string{`message "ghost" is in the log and was never sent`}},
		"refused_done":   {plus("ask r3 no"), []string{`message "no" is in the log and was refused`}},
		"two_at_once":    {[]string{"ask r1 one", "run r1 -", "ask r2 two", "run r2 -", "say r1 one", "idle r1 end_turn", "say r2 two", "idle r2 end_turn"}, []string{"two turns at once: run r2 begins at event 4 while r1 runs", "r1 answers", "r1 ends", "r2 answers", "r2 ends"}},
		"answer_late":    {plus("say r1 late"), []string{"run r1 answers at event 10 and does not run"}},
		"answer_twice":   {[]string{"ask r1 one", "run r1 -", "say r1 one", "say r1 x", "idle r1 end_turn"}, []string{"run r1 answers a second time"}},
		"runs_again":     {plus("run r1 -", "idle r1 end_turn"), []string{"run r1 begins again"}},
		"recovered_idle": {plus("back r1 -"), []string{"session.recovered of run r1 at event 10"}},
		"ends_twice":     {plus("idle r2 cancelled"), []string{"run r2 ends at event 10 and does not run", `run r2 ended "cancelled", "end_turn" was acknowledged`}},
	} {
		t.Run(name, func(t *testing.T) {
			told := acks
			if name == "two_at_once" || name == "answer_twice" {
				told = nil
			}
			found := auditLog(history(t, c.words...), tries, told)
			require.Len(t, found, len(c.faults), "%v", found)
			for _, want := range c.faults {
				require.Contains(t, fmt.Sprint(found), want)
			}
		})
	}
	t.Run("gap", func(t *testing.T) {
		events := history(t, both...)
		events = append(events[:2], events[3:]...)
		require.Contains(t, fmt.Sprint(auditLog(events, tries, nil)), "event 4 is where 3 should be")
	})
	t.Run("other_answer", func(t *testing.T) {
		told := []acknowledgement{ackOf("one", "r1")}
		told[0].content = "something else"
		require.Contains(t, fmt.Sprint(auditLog(history(t, turn...), tries, told)), `answer a_one says "hello", "something else" was acknowledged`)
	})
}

func TestAuditFollowerAndCopies(t *testing.T) {
	events := history(t, "ask r1 one", "run r1 -", "say r1 one", "idle r1 end_turn")
	var sums []uint64
	for _, e := range events {
		sums = append(sums, e.sum)
	}
	require.Empty(t, auditFollower(sums, events))
	require.Equal(t, "lost: a follower saw events up to 3 of 4", auditFollower(sums[:3], events))
	require.Equal(t, "lost: a follower saw event 4, the log ends at 3", auditFollower(sums, events[:3]))
	require.Contains(t, auditFollower([]uint64{sums[1], sums[0]}, events), "a follower saw another event 1")

	require.Empty(t, auditCopies(events, events))
	require.Equal(t, "one node shows 4 events, another 3", auditCopies(events, events[:3]))
	other := history(t, "ask r1 one", "run r1 -", "say r1 other", "idle r1 end_turn")
	require.Contains(t, auditCopies(events, other), "different events 3")
}

func TestAuditBudget(t *testing.T) {
	events := history(t, "ask r1 one", "run r1 -", "say r1 one", "idle r1 end_turn", "say r2 two", "say r3 three")
	require.Empty(t, auditBudget(events, 0.003, 0.003))
	require.Empty(t, auditBudget(events, 0.002, 0.003), "the call that was under way")
	require.Contains(t, auditBudget(events, 0.0015, 0.003)[0], "budget overspent")
	require.Contains(t, auditBudget(events, 0.01, 0.002)[0], "spending forgotten")
	require.Contains(t, auditBudget(events, 0.003, 0.005)[0], "budget overspent")
}
