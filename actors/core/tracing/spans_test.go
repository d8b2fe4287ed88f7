package tracing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/tracing"
	"parley/proto/tracepb"
)

// TestSessionsOfSpans: what spans say of sessions by the conventions for generative AI.
func TestSessionsOfSpans(t *testing.T) {
	const second = uint64(1_000_000_000)
	puts, left := tracing.Sessions([]tracing.Span{
		{TraceID: "t1", SpanID: "a", ParentID: "r", Name: "chat large", Start: 2 * second, End: 3*second + 500_000_000, GenAI: tracing.GenAI{
			Operation: "chat", Conversation: "talk", Agent: "Helper", RequestModel: "large", ResponseModel: "large-2", Input: 120, Output: 30, Cached: 20,
		}},
		{TraceID: "t1", SpanID: "b", ParentID: "r", Name: "execute_tool find", Failed: true, Problem: "no trains", Start: 4 * second, End: 4 * second, GenAI: tracing.GenAI{
			Operation: "execute_tool", Conversation: "talk", Tool: "find", ToolCall: "call_1", Agent: "Helper",
		}},
		{TraceID: "t1", SpanID: "r", Name: "invoke_agent Planner", Start: second, End: 5 * second, GenAI: tracing.GenAI{
			Operation: "invoke_agent", Conversation: "talk", Agent: "Planner", RequestModel: "large", Input: 120, Output: 30,
		}},
		{TraceID: "t2", Name: strings.Repeat("é", 200) + "\xff", Failed: true, Start: 7, GenAI: tracing.GenAI{Operation: "embeddings", RequestModel: "small"}},
		{SpanID: "lost"},
	}, fixed)
	require.Equal(t, 1, left)
	require.Len(t, puts, 2)

	talk := puts[0]
	require.Equal(t, []any{"talk", true, 3}, []any{talk.GetSessionId(), talk.GetPartly(), len(talk.GetEvents())})
	r := talk.GetRecord()
	require.Equal(t, []any{"t1", "r", "Planner", "success", int64(1000), int64(5000)},
		[]any{r.GetTraceId(), r.GetRootSpanId(), r.GetAgentName(), r.GetStatus(), r.GetStartedAt(), r.GetEndedAt()})
	model, tool, around := talk.GetEvents()[0], talk.GetEvents()[1], talk.GetEvents()[2]
	n := model.GetNumbers()
	require.Equal(t, []any{"llm_call", []string{"large-2"}, int64(120), int64(30), int64(20), int64(1500), int64(2000), "r"},
		[]any{model.GetType(), model.GetModels(), n.GetInputTokens(), n.GetOutputTokens(), n.GetCachedInputTokens(), n.GetDurationMs(), model.GetTimestamp(), model.GetParentSpanId()})
	require.Equal(t, []any{"tool_call", "find", "call_1", "tool", "find", "error", "no trains"},
		[]any{tool.GetType(), tool.GetToolName(), tool.GetToolExecutionId(), tool.GetActorScope(), tool.GetActorName(), tool.GetStatus(), tool.GetError()})
	require.Equal(t, []any{"custom", int64(0), []string(nil)}, []any{around.GetType(), around.GetNumbers().GetInputTokens(), around.GetModels()}, "counted once")

	alone := puts[1]
	require.Equal(t, []any{"t2", "error", "made", []string{"small"}},
		[]any{alone.GetSessionId(), alone.GetRecord().GetStatus(), alone.GetEvents()[0].GetId(), alone.GetEvents()[0].GetModels()})
	require.Equal(t, strings.Repeat("é", 128), alone.GetEvents()[0].GetLabel())

	s := &tracepb.Session{}
	for _, e := range talk.GetEvents() {
		tracing.Count(s, e)
	}
	require.Equal(t, []any{int64(120), []string{"large-2"}, []string{"find"}}, []any{s.GetCounted().GetInputTokens(), s.GetModels(), s.GetTools()})
}

// TestSpansOfNamedTraces: what one span of a trace says of its conversation counts for all of the trace that are reported with it, whichever comes first.
func TestSpansOfNamedTraces(t *testing.T) {
	of := func(trace, span, conversation string) tracing.Span {
		return tracing.Span{TraceID: trace, SpanID: span, GenAI: tracing.GenAI{Conversation: conversation}}
	}
	puts, left := tracing.Sessions([]tracing.Span{
		of("t1", "tool", ""), of("t1", "agent", "talk"), of("t1", "http", ""), of("t2", "next turn", "talk"), of("t2", "its tool", ""),
		of("t3", "one", "a"), of("t3", "of neither", ""), of("t3", "other", "b"), of("t3", "again", "a"), of("", "", "loose"), of("", "lost", ""),
	}, fixed)
	got := map[string][]string{}
	for _, put := range puts {
		for _, e := range put.GetEvents() {
			got[put.GetSessionId()] = append(got[put.GetSessionId()], e.GetId())
		}
	}
	require.Equal(t, map[string][]string{
		"talk": {"tool", "agent", "http", "next turn", "its tool"}, "a": {"one", "again"}, "b": {"other"}, "t3": {"of neither"}, "loose": {"made"},
	}, got)
	require.Equal(t, 1, left)
}

// TestManySessionsOfSpans: a request does not make sessions without bounds.
func TestManySessionsOfSpans(t *testing.T) {
	spans := make([]tracing.Span, tracing.MaxSessions+3)
	for i := range spans {
		spans[i] = tracing.Span{TraceID: fmt.Sprint(i)}
	}
	puts, left := tracing.Sessions(spans, fixed)
	require.Equal(t, []int{tracing.MaxSessions, 3}, []int{len(puts), left})
}
