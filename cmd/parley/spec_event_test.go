package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpecEvents(t *testing.T) {
	t.Parallel()
	p := open(t)
	t.Run("log_of_a_turn", func(t *testing.T) {
		id := p.newConversation(t, "quick", "events")
		turn := p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"hello","metadata":{"k":1}}`).fits(200, turnRecord(nil))
		question, answered, run := turn.text("message", "id"), turn.text("response", "id"), turn.text("runId")
		usage := map[string]any{"input_tokens": 1, "output_tokens": 3, "total_tokens": 4}
		event := func(seq int, kind string, data any) shape {
			return eventRecord(fields{"seq": exactly(seq), "type": exactly(kind), "run_id": exactly(run), "data": exactly(data)})
		}
		page := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(fields{
			"hasMore": exactly(false), "lastSeq": exactly(4),
		}))
		events := page.at("events").list()
		require.Len(t, events, 4)
		for i, want := range []shape{
			event(1, "user.message", map[string]any{"content": "hello", "message_id": question, "metadata": map[string]any{"k": 1}, "title": "hello"}),
			event(2, "session.status_running", map[string]any{"attempt": 1}),
			event(3, "agent.message", map[string]any{
				"content": "one two three", "message_id": answered, "stop_reason": "end_turn", "status": "completed", "in_reply_to": question, "usage": usage,
			}),
			event(4, "session.status_idle", map[string]any{"stop_reason": "end_turn", "usage": usage}),
		} {
			require.NoError(t, want(events[i].v), i)
		}
	})
	t.Run("log_of_a_failed_turn", func(t *testing.T) {
		id := p.newConversation(t, "mute", "events")
		run := p.say(t, id, "hello").text("runId")
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		require.Equal(t, []string{"user.message", "session.status_running", "session.status_idle"}, texts(events, "type"))
		require.NoError(t, eventRecord(fields{"run_id": exactly(run), "data": exactly(map[string]any{
			"stop_reason": "error", "error": map[string]string{"code": "invalid_request", "message": "the model refused"},
			"usage": map[string]int{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
		})})(events[2].v))
	})
	t.Run("log_of_a_cancelled_turn", func(t *testing.T) {
		id := p.newConversation(t, "slow", "events")
		sender := p.follow(t, "POST", "/conversations/"+id+"/messages", map[string]any{"message": "go", "stream": true})
		sender.until("stream.text")
		p.ask(t, "POST", "/conversations/"+id+"/cancel", nil).fits(200, anyObject)
		events := p.ask(t, "GET", "/conversations/"+id+"/events", nil).fits(200, eventsRecord(nil)).at("events").list()
		require.Equal(t, []string{"user.message", "session.status_running", "session.cancel_requested", "agent.message", "session.status_idle"}, texts(events, "type"))
		require.Equal(t, "cancelled", events[3].text("data", "stop_reason"))
		require.Equal(t, "cancelled", events[4].text("data", "stop_reason"))
		for _, event := range events {
			require.Equal(t, events[0].text("run_id"), event.text("run_id"))
		}
	})
	t.Run("empty_log", func(t *testing.T) {
		id := p.newConversation(t, "quick", "events")
		for _, query := range []string{"", "?after=0", "?after=9"} {
			p.ask(t, "GET", "/conversations/"+id+"/events"+query, nil).fits(200, eventsRecord(fields{
				"events": exactly([]int{}), "hasMore": exactly(false), "lastSeq": exactly(0),
			}))
		}
	})
}

func TestSpecEventPages(t *testing.T) {
	t.Parallel()
	p := open(t)
	id, _ := talked(t, p, "event pages", 252) // 1008 events
	const last = 1008
	upTo := func(from, to int) []int {
		var seqs []int
		for seq := from; seq <= to; seq++ {
			seqs = append(seqs, seq)
		}
		return seqs
	}
	for _, c := range []struct {
		name, query string
		hasMore     bool
		want        []int
	}{
		{"first_100", "", true, upTo(1, 100)},
		{"after_0", "?after=0", true, upTo(1, 100)},
		{"after_a_seq", "?after=100&limit=3", true, upTo(101, 103)},
		{"exactly_to_the_end", "?after=1000&limit=8", false, upTo(1001, last)},
		{"one_less_than_the_end", "?after=1000&limit=7", true, upTo(1001, 1007)},
		{"after_the_end", "?after=1008", false, nil},
		{"far_after_the_end", "?after=9223372036854775807", false, nil},
		{"event_limit_1000", "?limit=1000", true, upTo(1, 1000)},
		{"event_limit_above_1000_is_1000", "?limit=1001", true, upTo(1, 1000)},
		{"event_limit_0_is_the_default", "?limit=0", true, upTo(1, 100)},
		{"bad_event_limit_is_the_default", "?limit=x", true, upTo(1, 100)},
		{"one_type", "?types=agent.message&limit=3", true, []int{3, 7, 11}},
		{"two_types", "?types=user.message,%20session.status_idle&limit=4&after=4", true, []int{5, 8, 9, 12}},
		{"one_type_to_the_end", "?types=agent.message&after=1004", false, []int{1007}},
		{"types_with_no_match_behind", "?types=user.message&after=1005", false, nil},
		{"unknown_types", "?types=nothing.such", false, nil},
		{"live_types_are_not_stored", "?types=agent.message.delta,agent.message.snapshot", false, nil},
		{"empty_types_are_all", "?types=&limit=2", true, upTo(1, 2)},
		{"commas_only_are_all", "?types=,,&limit=2", true, upTo(1, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			page := p.ask(t, "GET", "/conversations/"+id+"/events"+c.query, nil).fits(200, eventsRecord(fields{
				"hasMore": exactly(c.hasMore), "lastSeq": exactly(last),
			}))
			var seqs []int
			for _, event := range page.at("events").list() {
				seqs = append(seqs, int(event.number("seq")))
			}
			require.Equal(t, c.want, seqs)
		})
	}
	t.Run("bad_after_is_400", func(t *testing.T) {
		for _, after := range []string{"x", "-1", "1.5", "1e3", "0x10", "99999999999999999999", "18446744073709551616", "1,2", "%00", "%ff", strings.Repeat("9", 1000)} {
			p.ask(t, "GET", "/conversations/"+id+"/events?after="+after, nil).refused(400, "VALIDATION_ERROR")
			p.ask(t, "GET", "/conversations/"+id+"/events/stream?after="+after, nil).refused(400, "VALIDATION_ERROR")
		}
	})
	t.Run("replay_of_a_long_log_is_whole", func(t *testing.T) {
		s := p.follow(t, "GET", "/conversations/"+id+"/events/stream", nil)
		require.Equal(t, ": open", s.block())
		for seq := 1; seq <= last; seq++ {
			require.Equal(t, seq, s.frame().seq(t))
		}
	})
}
