package tracing_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/core/tracing"
	"parley/proto/tracepb"
)

func fixed() string { return "made" }

func event(t *testing.T, body string) *tracepb.Happening {
	t.Helper()
	var in tracing.EventInput
	require.NoError(t, json.Unmarshal([]byte(body), &in))
	return in.Event(fixed)
}

// TestEvent: what is kept of an event, whatever form it is in.
func TestEvent(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: `{"id":"made","type":"custom","numbers":{}}`,
		`{"id":"e1","type":"llm_call","model":"m","modelName":"n","modelNames":["m","o",7],"timestamp":"2026-01-02T03:04:05.678Z","inputTokens":3,
		  "usage":{"inputTokens":9,"outputTokens":4,"cachedInputTokens":1,"totalTokens":13}}`: `{"id":"e1","type":"llm_call","timestamp":"1767323045678",
		  "models":["m","n","o","7"],"numbers":{"inputTokens":"3","outputTokens":"4","cachedInputTokens":"1","totalTokens":"13"}}`,
		`{"id":7,"usage":{"input_tokens":5,"output_tokens":"6","cached_input_tokens":2.9,"total_tokens":-1}}`:                       `{"id":"7","type":"custom","numbers":{"inputTokens":"5","outputTokens":"6","cachedInputTokens":"2","totalTokens":"11"}}`,
		`{"id":"a","usage":{"prompt_tokens":5,"completion_tokens":6}}`:                                                              `{"id":"a","type":"custom","numbers":{"inputTokens":"5","outputTokens":"6","totalTokens":"11"}}`,
		`{"id":"a","usage":5,"actor":"x","modelNames":{},"timestamp":"soon","sequence":null,"error":{"code":1},"inputTokens":1e99}`: `{"id":"a","type":"custom","error":"{\"code\":1}","numbers":{"inputTokens":"1125899906842624","totalTokens":"1125899906842624"}}`,
		`{"id":"a","requestBytes":1,"bytesOut":2,"responseBytes":3,"actor":{"name":"n","role":"r","scope":"tool"},"toolDetails":{"x":[1]},"sections":null}`: `{"id":"a","type":"custom",
		  "numbers":{"bytesIn":"1","bytesOut":"2"},"actorName":"n","actorRole":"r","actorScope":"tool","toolDetails":"{\"x\":[1]}"}`,
		`{"id":"a","metadata":{"a b":"no","nested":{},"list":[],"n":1.5,"t":true,"s":"x"}}`: `{"id":"a","type":"custom","numbers":{},"metadata":{"n":"1.5","t":"true","s":"x"}}`,
	} {
		wanted := &tracepb.Happening{}
		require.NoError(t, protojson.Unmarshal([]byte(want), wanted), want)
		got := event(t, body)
		require.True(t, proto.Equal(wanted, got), "%s\n%s", body, got)
	}
}

// TestBounds: nothing that is kept is longer than it may be, and texts are cut in whole characters.
func TestBounds(t *testing.T) {
	long := strings.Repeat("ü", 300)
	tags, models := map[string]any{}, []string{}
	for i := range 60 {
		tags[fmt.Sprintf("k%02d", i)], models = long, append(models, fmt.Sprint("m", i))
	}
	tags[strings.Repeat("k", 41)] = "x"
	body, err := json.Marshal(map[string]any{
		"id": "x" + long, "error": strings.Repeat("e", 5000), "metadata": tags, "modelNames": models, "sections": strings.Repeat("s", 70_000),
	})
	require.NoError(t, err)
	got := event(t, string(body))
	require.Len(t, got.GetId(), tracing.MaxID-1)
	require.True(t, utf8.ValidString(got.GetId()))
	require.Len(t, got.GetError(), 4096)
	require.Len(t, got.GetMetadata(), 10)
	require.Len(t, got.GetMetadata()["k00"], 200)
	require.Len(t, got.GetModels(), 50)
	require.Empty(t, got.GetSections(), "half of a document is none")
}

// TestRecord: the defaults of a session's head and of its end.
func TestRecord(t *testing.T) {
	read := func(body string) *tracing.HeadInput {
		in := &tracing.HeadInput{}
		require.NoError(t, json.Unmarshal([]byte(body), in))
		return in
	}
	require.Equal(t, tracing.Success, read(`{}`).Whole().GetStatus())
	require.Equal(t, tracing.Success, read(`{"errors":[]}`).Whole().GetStatus())
	require.Equal(t, tracing.Failed, read(`{"errors":[{"message":"no"}]}`).Whole().GetStatus())
	require.Equal(t, "aborted", read(`{"errors":["no"],"status":"aborted"}`).Whole().GetStatus())
	end := read(`{"durationMs":5}`).EndInput.Record(77)
	require.Equal(t, []any{"success", int64(77), int64(5)}, []any{end.GetStatus(), end.GetEndedAt(), end.GetDurationMs()})
	end = read(`{"status":"error","endedAt":"2026-01-02T03:04:05Z"}`).EndInput.Record(77)
	require.Equal(t, []any{"error", int64(1767323045000)}, []any{end.GetStatus(), end.GetEndedAt()})
	was := read(`{"threadId":"t1","agent":{"name":"a","version":1},"metadata":{"k":"v"}}`).Record()
	merged := tracing.Merge(was, read(`{"threadId":"t2","agent":{"model":"m"},"traceId":"tr"}`).Record())
	want := &tracepb.Record{ThreadId: "t1", AgentName: "a", AgentVersion: "1", AgentModel: "m", TraceId: "tr", Metadata: map[string]string{"k": "v"}}
	require.True(t, proto.Equal(want, merged), merged)
}

// take is what the rules do with a batch.
func take(s *tracepb.Session, events []*tracepb.Happening, said *tracepb.Numbers) {
	for _, e := range tracing.Fresh(s.GetSeen(), events) {
		tracing.Count(s, e)
	}
	s.Said = tracing.Raise(s.GetSaid(), said)
}

// TestTotals: however events are cut into batches and whenever a summary comes, totals are the same; a repeated id counts once, and no
// summary lowers anything.
func TestTotals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string) int64 { return rapid.Int64Range(0, 1000).Draw(t, name) }
		var events []*tracepb.Happening
		for i := range rapid.IntRange(0, 30).Draw(t, "events") {
			e := &tracepb.Happening{
				Id: fmt.Sprint("e", i), Type: rapid.SampledFrom([]string{"llm_call", "tool_call"}).Draw(t, "type"), Models: []string{fmt.Sprint("m", number("model")%5)},
				Numbers: &tracepb.Numbers{InputTokens: number("in"), OutputTokens: number("out"), CachedInputTokens: number("cached"), DurationMs: number("took")},
			}
			if rapid.Bool().Draw(t, "tool") {
				e.ActorScope, e.ToolName = "tool", fmt.Sprint("t", number("name")%5)
			}
			events = append(events, e)
		}
		said := &tracepb.Numbers{InputTokens: number("said in"), OutputTokens: number("said out"), EventCounts: map[string]int64{"llm_call": number("said count") % 40}}
		once := &tracepb.Session{}
		take(once, events, said)

		cut := &tracepb.Session{}
		summary := rapid.IntRange(0, len(events)).Draw(t, "when")
		for at := 0; at < len(events); {
			if at >= summary {
				take(cut, nil, said)
			}
			next := rapid.IntRange(at+1, len(events)).Draw(t, "cut")
			from := rapid.IntRange(0, at).Draw(t, "again from") // what was sent before comes again
			before := tracing.Totals(cut)
			take(cut, events[from:next], nil)
			require.GreaterOrEqual(t, tracing.Totals(cut).GetInputTokens(), before.GetInputTokens())
			at = next
		}
		take(cut, nil, said)
		take(cut, nil, &tracepb.Numbers{InputTokens: said.GetInputTokens() / 2})
		require.True(t, proto.Equal(once, cut), "%s\n%s", once, cut)
		require.Equal(t, int64(len(events)), cut.GetEvents())
	})
}

// TestRollUp: a thread is what its sessions are together.
func TestRollUp(t *testing.T) {
	sessions := []*tracepb.Session{
		{
			Record: &tracepb.Record{AgentName: "b", Status: "error", StartedAt: 200, EndedAt: 260}, Events: 2, Models: []string{"m"}, Tools: []string{"t"},
			Counted: &tracepb.Numbers{InputTokens: 1, OutputTokens: 2, CachedInputTokens: 3, EventCounts: map[string]int64{"x": 2}},
		},
		{
			Record: &tracepb.Record{AgentName: "a", Status: "success", StartedAt: 100, DurationMs: 7}, Models: []string{"k", "m"},
			Said: &tracepb.Numbers{InputTokens: 10, EventCounts: map[string]int64{"x": 3}},
		},
	}
	want := &tracing.Thread{
		Agents: []string{"a", "b"}, Statuses: []string{"error", "success"}, Models: []string{"k", "m"}, Tools: []string{"t"}, Latest: "error",
		StartedAt: 100, EndedAt: 260, Events: 5, DurationMs: 67, Numbers: &tracepb.Numbers{InputTokens: 11, OutputTokens: 2, CachedInputTokens: 3},
	}
	require.Equal(t, want, tracing.RollUp(sessions))
	sessions[1].Record.Status = tracing.InProgress
	require.Zero(t, tracing.RollUp(sessions).EndedAt, "one still runs")
}
