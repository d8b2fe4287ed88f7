package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessageChecker(t *testing.T) {
	start := frame{data: []byte(`{"type":"stream.start","seq":1}`)}
	text := func(seq, word string) frame {
		return frame{data: []byte(`{"type":"stream.text","text":"` + word + `","seq":` + seq + `}`)}
	}
	done := func(seq, content, stop string) frame {
		return frame{data: []byte(`{"type":"stream.done","content":"` + content + `","stopReason":"` + stop + `","seq":` + seq + `}`)}
	}
	for name, c := range map[string]struct {
		frames      []frame
		fault, code string
		done        bool
	}{
		"right":     {[]frame{start, text("2", "w1 "), text("3", "w2"), done("4", "w1 w2", "end_turn")}, "", "", true},
		"prose":     {[]frame{start, text("2", "hello "), text("3", "you"), done("4", "hello you", "end_turn")}, "", "", true},
		"escaped":   {[]frame{start, text("2", `a\"b`), done("3", `a\"b`, "end_turn")}, "", "", true},
		"gap":       {[]frame{start, text("2", "w1 "), text("4", "w2")}, "seq 4 after 2", "", false},
		"duplicate": {[]frame{start, text("2", "w1 "), text("2", "w1 ")}, "seq 2 after 2", "", false},
		"lost_word": {[]frame{start, text("2", "w1 "), text("3", "w3 ")}, "word 3 after 1", "", false},
		"content":   {[]frame{start, text("2", "w1 "), done("3", "w1 w2", "end_turn")}, "streamed 3 bytes, content has 5", "", true},
		"after_end": {[]frame{start, done("2", "", "end_turn"), text("3", "x")}, "frame after the end", "", true},
		"cancelled": {[]frame{start, done("2", "", "cancelled")}, "", "stopped: cancelled", true},
		"failed":    {[]frame{start, {data: []byte(`{"type":"stream.error","error":"x","code":"overloaded","seq":2}`)}}, "", "stream.error overloaded", true},
	} {
		t.Run(name, func(t *testing.T) {
			var m messageChecker
			for _, f := range c.frames {
				m.frame(f)
			}
			require.Equal(t, c.fault, m.fault)
			require.Equal(t, c.code, m.code)
			require.Equal(t, c.done, m.done)
		})
	}
}

func TestEventChecker(t *testing.T) {
	event := func(id string) frame {
		return frame{id: []byte(id), data: []byte(`{"seq":` + id + `,"type":"user.message"}`)}
	}
	delta := func(run, offset, text string) frame {
		return frame{event: []byte("agent.message.delta"), data: []byte(`{"type":"agent.message.delta","run_id":"` + run + `","data":{"text":"` + text + `","offset":` + offset + `}}`)}
	}
	answer := func(id, run, text string) frame {
		return frame{id: []byte(id), event: []byte("agent.message"), data: []byte(`{"seq":` + id + `,"type":"agent.message","data":{"content":"` + text + `"},"run_id":"` + run + `"}`)}
	}
	recovered := func(id string) frame {
		return frame{id: []byte(id), event: []byte("session.recovered"), data: []byte(`{"seq":` + id + `,"type":"session.recovered"}`)}
	}
	snapshot := frame{data: []byte(`{"type":"agent.message.snapshot","run_id":"r","data":{"text":"abc"}}`)}
	for name, c := range map[string]struct {
		frames []frame
		fault  string
	}{
		"right":          {[]frame{event("1"), event("2"), delta("r", "0", "ab"), delta("r", "2", "c"), event("3")}, ""},
		"gap":            {[]frame{event("1"), event("3")}, "event 3 after 1"},
		"duplicate":      {[]frame{event("1"), event("1")}, "event 1 after 1"},
		"reorder":        {[]frame{event("1"), event("2"), event("1")}, "event 1 after 2"},
		"id_and_seq":     {[]frame{{id: []byte("1"), data: []byte(`{"seq":2}`)}}, "id 1 with seq 2"},
		"snapshot":       {[]frame{snapshot, delta("r", "3", "d")}, ""},
		"snapshot_gap":   {[]frame{snapshot, delta("r", "5", "d")}, "delta at 5, 3 bytes seen"},
		"delta_repeated": {[]frame{delta("r", "0", "ab"), delta("r", "1", "b")}, "delta at 1, 2 bytes seen"},
		"answer":         {[]frame{delta("r", "0", "ab"), answer("1", "r", "abc")}, ""},
		"other_answer":   {[]frame{delta("r", "0", "ab"), answer("1", "r", "xbc")}, `streamed "ab", answer is "xbc"`},
		"replay_first":   {[]frame{snapshot, answer("1", "q", "other"), delta("r", "3", "d"), answer("2", "r", "abcd")}, ""},
		"other_attempt":  {[]frame{delta("r", "0", "ab"), recovered("1"), answer("2", "r", "a")}, ""},
		"same_attempt":   {[]frame{delta("r", "0", "ab"), recovered("1"), delta("r", "2", "c"), answer("2", "r", "ab")}, `streamed "abc", answer is "ab"`},
		"next_run":       {[]frame{delta("r", "0", "ab"), delta("s", "0", "b")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var e eventChecker
			for _, f := range c.frames {
				e.frame(f)
			}
			require.Equal(t, c.fault, e.fault)
		})
	}
}

func TestAReopenedStreamTellsARunFromItsBeginning(t *testing.T) {
	delta := frame{event: []byte("agent.message.delta"), data: []byte(`{"type":"agent.message.delta","run_id":"r","data":{"text":"ab","offset":0}}`)}
	next := frame{event: []byte("agent.message.delta"), data: []byte(`{"type":"agent.message.delta","run_id":"r","data":{"text":"c","offset":2}}`)}
	var e eventChecker
	e.frame(delta)
	e.reopened()
	e.frame(next)
	require.Equal(t, "delta at 2, 0 bytes seen", e.fault)
}

// TestReadsShowWhatWasAcknowledged: a message is looked for in what follows the events read before, and is not missed where those showed it.
func TestReadsShowWhatWasAcknowledged(t *testing.T) {
	message := func(seq uint64, id string) logEvent {
		e := logEvent{Seq: seq}
		e.Data.MessageID = id
		return e
	}
	const missing = "a read after event 2 does not show message b, which was acknowledged before"
	for name, c := range map[string]struct {
		acked string
		read  []logEvent
		want  string
	}{
		"nothing_new":              {"a", nil, ""},
		"events_of_a_lost_attempt": {"a", []logEvent{message(3, "lost")}, ""},
		"the_new_one":              {"b", []logEvent{message(3, "lost"), message(4, "b")}, ""},
		"behind":                   {"b", []logEvent{message(3, "lost")}, missing},
		"empty_and_behind":         {"b", nil, missing},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			require.Empty(t, l.held("a", []logEvent{message(1, "x"), message(2, "a")}))
			require.Equal(t, c.want, l.held(c.acked, c.read))
		})
	}
}
