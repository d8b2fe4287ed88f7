package model

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessagesManners(t *testing.T) {
	called := []ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":7}`}}
	two := []ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":7}`}, {ID: "c2", Name: "g", Arguments: `{"y":8}`}}
	begin := anthropicEvent("message_start", anthropicStart)
	start := func(index int, block string) string {
		return anthropicEvent("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, block))
	}
	delta := func(index int, delta string) string {
		return anthropicEvent("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, delta))
	}
	text := func(index int, piece string) string {
		return delta(index, fmt.Sprintf(`{"type":"text_delta","text":%q}`, piece))
	}
	input := func(index int, piece string) string {
		return delta(index, fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, piece))
	}
	tool := func(id, name, input string) string {
		return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input)
	}
	stop := func(index int, more string) string {
		return anthropicEvent("content_block_stop", fmt.Sprintf(`,"index":%d%s`, index, more))
	}
	last := func(reason, usage string) string {
		return anthropicEvent("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%s},"usage":%s`, reason, usage)) + anthropicEvent("message_stop", "")
	}
	document := func(content, reason string) string {
		return `{"id":"msg_1","type":"message","role":"assistant","content":` + content + `,"stop_reason":` + reason +
			`,"usage":{"input_tokens":4,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":7}}`
	}
	ended, asks := anthropicEnd("end_turn"), anthropicEnd("tool_use")
	plain := start(0, `{"type":"text","text":""}`)
	for _, m := range append([]manner{
		// A block in any of its places.
		{name: "text_at_the_start", events: []string{begin, start(0, `{"type":"text","text":"Hello"}`), stop(0, ""), ended}, text: "Hello", stop: StopEnd},
		{name: "text_at_start_and_on", events: []string{begin, start(0, `{"type":"text","text":"Hel"}`), text(0, "lo"), ended}, text: "Hello", stop: StopEnd},
		{name: "text_in_the_message", events: []string{strings.Replace(begin, `"content":[]`, `"content":[{"type":"text","text":"Hello"}]`, 1), ended}, text: "Hello", stop: StopEnd},
		{name: "text_in_message_and_start", events: []string{strings.Replace(begin, `"content":[]`, `"content":[{"type":"text","text":"Hello"}]`, 1), start(0, `{"type":"text","text":"Hello"}`), ended}, text: "Hello", stop: StopEnd},
		{name: "text_at_the_end", events: []string{begin, plain, text(0, "Hel"), stop(0, `,"content_block":{"type":"text","text":"Hello"}`), ended}, text: "Hello", stop: StopEnd},
		{name: "text_without_a_start", events: []string{begin, text(0, "Hello"), ended}, text: "Hello", stop: StopEnd},
		{name: "text_without_a_type", events: []string{begin, delta(0, `{"text":"Hello"}`), ended}, text: "Hello", stop: StopEnd},
		{name: "input_at_the_start", events: []string{begin, start(0, tool("c1", "f", `{"x":7}`)), stop(0, ""), asks}, calls: called, stop: StopTools},
		{name: "input_at_start_and_in_pieces", events: []string{begin, start(0, tool("c1", "f", `{"x":7}`)), input(0, `"{\"x\""`), input(0, `":7}"`), asks}, calls: called, stop: StopTools},
		{name: "input_at_start_and_empty_pieces", events: []string{begin, start(0, tool("c1", "f", `{"x":7}`)), input(0, `""`), asks}, calls: called, stop: StopTools},
		{name: "input_in_a_text", events: []string{begin, start(0, tool("c1", "f", `"{\"x\":7}"`)), asks}, calls: called, stop: StopTools},
		{name: "input_is_null", events: []string{begin, start(0, tool("c1", "f", `null`)), asks}, calls: []ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}, stop: StopTools},
		{name: "a_piece_is_an_object", events: []string{begin, start(0, tool("c1", "f", `{}`)), input(0, `{"x":7}`), asks}, calls: called, stop: StopTools},
		{name: "input_at_the_end", events: []string{begin, start(0, tool("c1", "f", `{}`)), stop(0, `,"content_block":`+tool("c1", "f", `{"x":7}`)), asks}, calls: called, stop: StopTools},
		{name: "input_in_the_message", events: []string{strings.Replace(begin, `"content":[]`, `"content":[`+tool("c1", "f", `{"x":7}`)+`]`, 1), asks}, calls: called, stop: StopTools},
		{name: "a_start_told_twice", events: []string{begin, start(0, tool("c1", "f", `{}`)), start(0, tool("c1", "f", `{}`)), input(0, `"{\"x\":7}"`), asks}, calls: called, stop: StopTools},
		{name: "two_under_one_index", events: []string{begin, start(0, tool("c1", "f", `{}`)), input(0, `"{\"x\":7}"`), stop(0, ""), start(0, tool("c2", "g", `{}`)), input(0, `"{\"y\":8}"`), stop(0, ""), asks}, calls: two, stop: StopTools},
		{name: "a_text_and_a_call_under_one_index", events: []string{begin, plain, start(0, tool("c1", "f", `{}`)), input(0, `"{\"x\":7}"`), text(0, "Hello"), asks}, text: "Hello", calls: called, stop: StopTools},
		{name: "between_each_other", events: []string{begin, start(0, tool("c1", "f", `{}`)), start(1, tool("c2", "g", `{}`)), input(1, `"{\"y\""`), input(0, `"{\"x\":7}"`), input(1, `":8}"`), asks}, calls: two, stop: StopTools},
		{name: "without_an_index", events: []string{begin, anthropicEvent("content_block_start", `,"content_block":`+tool("c1", "f", `{}`)), anthropicEvent("content_block_delta", `,"delta":{"type":"input_json_delta","partial_json":"{\"x\":7}"}`), asks}, calls: called, stop: StopTools},
		{name: "input_under_another_index", events: []string{begin, start(0, tool("c1", "f", `{}`)), input(4, `"{\"x\""`), input(4, `":7}"`), asks}, calls: called, stop: StopTools},
		{name: "input_without_a_start", events: []string{begin, input(0, `"{\"x\":7}"`), asks}, code: CodeProviderError, says: "without a name", usage: fullUsage},
		{name: "one_id_for_two_calls", events: []string{begin, start(0, tool("c", "f", `{"x":7}`)), stop(0, ""), start(1, tool("c", "f", `{}`)), stop(1, ""), asks}, calls: []ToolCall{
			{ID: "c", Name: "f", Arguments: `{"x":7}`}, {ID: "call_run1_0_1", Name: "f", Arguments: "{}"},
		}, stop: StopTools},
		{name: "no_id", events: []string{begin, start(0, tool("", "f", `{"x":7}`)), asks}, calls: []ToolCall{{ID: "call_run1_0_0", Name: "f", Arguments: `{"x":7}`}}, stop: StopTools},
		{name: "calls_and_an_end", events: []string{begin, start(0, tool("c1", "f", `{"x":7}`)), ended}, calls: called, stop: StopTools},
		{name: "thoughts_are_no_text", events: []string{begin, start(0, `{"type":"thinking","thinking":"Hm"}`), delta(0, `{"type":"thinking_delta","thinking":"m"}`), start(1, `{"type":"redacted_thinking","data":"xx"}`), text(2, "Hello"), ended}, text: "Hello", stop: StopEnd},
		{name: "a_tool_of_the_provider", events: []string{begin, start(0, `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`), input(0, `"{\"q\":1}"`), start(1, `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"x"}]}`), text(2, "Hello"), ended}, text: "Hello", stop: StopEnd},

		// Ends.
		{name: "another_reason", events: []string{begin, text(0, "Hel"), anthropicEnd("meteor")}, text: "Hel", code: CodeProviderError, says: "its answer ended with meteor", usage: fullUsage},
		{name: "another_reason_before_anything", events: []string{begin, anthropicEnd("meteor")}, code: CodeProviderError, says: "its answer ended with meteor", asked: 3, usage: Usage{InputTokens: 33, OutputTokens: 21, CachedInputTokens: 15, Known: true}},
		{name: "no_reason", events: []string{begin, text(0, "Hel"), last("null", `{"output_tokens":7}`)}, text: "Hel", code: CodeProviderError, says: "without a stop_reason", usage: fullUsage},
		{name: "no_reason_and_no_delta", events: []string{begin, text(0, "Hel"), anthropicEvent("message_stop", "")}, text: "Hel", code: CodeProviderError, says: "without a stop_reason", usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},
		{name: "reason_in_the_message", events: []string{strings.Replace(begin, `"stop_reason":null`, `"stop_reason":"end_turn"`, 1), text(0, "Hello"), anthropicEvent("message_stop", "")}, text: "Hello", stop: StopEnd, usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},
		{name: "no_message_stop", events: []string{begin, text(0, "Hello"), strings.SplitAfter(ended, "\n\n")[0]}, text: "Hello", stop: StopEnd},
		{name: "no_end", events: []string{begin, text(0, "Hel")}, text: "Hel", code: CodeCut, usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},
		{name: "nothing", events: []string{""}, code: CodeCut, asked: 3},
		{name: "only_an_end_mark", events: []string{"data: [DONE]\n\n"}, code: CodeCut, asked: 3},
		{name: "only_an_error", events: []string{`data: {"type":"error","error":{"type":"invalid_request_error","message":"it broke"}}` + "\n\n"}, code: CodeInvalidRequest, says: "it broke"},
		{name: "an_error_without_a_type", events: []string{begin, text(0, "Hel"), `data: {"error":{"type":"overloaded_error","message":"it broke"}}` + "\n\n"}, text: "Hel", code: CodeOverloaded, says: "it broke", usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},
		{name: "an_error_over_lines", events: []string{"event: error\ndata: {\"type\":\"error\",\ndata: \"error\":{\"type\":\"invalid_request_error\",\ndata: \"message\":\"it broke\"}}\n\n"}, code: CodeInvalidRequest, says: "it broke"},

		// The form.
		{name: "without_event_lines", events: []string{withoutEventLines(begin + plain + text(0, "Hello") + ended)}, text: "Hello", stop: StopEnd},
		{name: "cut_behind_the_end", events: []string{begin, text(0, "Hello"), strings.Split(ended, "event: message_stop")[0], `data: {"type":"mess`}, text: "Hello", stop: StopEnd},
		{name: "data_with_nothing", events: []string{"data:\n\n", begin, "data:\n\n", text(0, "Hello"), ended}, text: "Hello", stop: StopEnd},
		{name: "a_document", typ: "application/json", events: []string{document(`[{"type":"text","text":"Hello"},`+tool("c1", "f", `{"x":7}`)+`]`, `"tool_use"`)}, text: "Hello", calls: called, stop: StopTools},
		{name: "a_document_over_lines", events: []string{"{\n  " + document(`[{"type":"text","text":"Hello"}]`, `"end_turn"`)[1:]}, text: "Hello", stop: StopEnd},
		{name: "a_document_in_an_event", events: []string{"data: " + document(`[{"type":"text","text":"Hello"}]`, `"end_turn"`) + "\n\n"}, text: "Hello", stop: StopEnd},
		{name: "a_document_with_a_text", typ: "application/json", events: []string{document(`"Hello"`, `"end_turn"`)}, text: "Hello", stop: StopEnd},
		{name: "a_document_without_a_reason", typ: "application/json", events: []string{document(`[{"type":"text","text":"Hel"}]`, `null`)}, text: "Hel", code: CodeProviderError, says: "without a stop_reason", usage: fullUsage},
		{name: "a_balance", events: []string{`data: {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}` + "\n\n"}, code: CodeRateLimited, says: "credit balance"},
		{name: "a_document_with_an_error", typ: "application/json", events: []string{`{"type":"error","error":{"type":"overloaded_error","message":"it broke"}}`}, code: CodeOverloaded, says: "it broke", asked: 3},
		{name: "a_field_of_another_type", events: []string{begin, delta(0, `{"type":"text_delta","text":7}`)}, code: CodeProviderError, says: "`text`", usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},

		// Usage.
		{name: "usage_of_the_end_in_part", events: []string{begin, text(0, "x"), last(`"end_turn"`, `{"input_tokens":4,"output_tokens":7}`)}, text: "x", stop: StopEnd},
		{name: "usage_of_the_end_with_nothing", events: []string{begin, text(0, "x"), last(`"end_turn"`, `{"input_tokens":0,"cache_read_input_tokens":null,"output_tokens":7}`)}, text: "x", stop: StopEnd},
		{name: "usage_of_the_end_without_output", events: []string{begin, text(0, "x"), last(`"end_turn"`, `{"output_tokens":null}`)}, text: "x", stop: StopEnd, usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 1}},
		{name: "usage_replaced", events: []string{begin, text(0, "x"), last(`"end_turn"`, `{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":9,"output_tokens":7}`)}, text: "x", stop: StopEnd, usage: Usage{InputTokens: 9, CachedInputTokens: 9, OutputTokens: 7, Known: true}},
		{name: "usage_in_two_deltas", events: []string{begin, text(0, "x"), anthropicEvent("message_delta", `,"delta":{},"usage":{"output_tokens":7}`), last(`"end_turn"`, `null`)}, text: "x", stop: StopEnd},
		{name: "thoughts_in_usage", events: []string{begin, text(0, "x"), last(`"end_turn"`, `{"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}`)}, text: "x", stop: StopEnd, usage: Usage{InputTokens: 11, CachedInputTokens: 5, OutputTokens: 7, ReasoningTokens: 3, Known: true}},
	}, complaints()...) {
		t.Run(m.name, func(t *testing.T) {
			if m.usage == (Usage{}) && m.stop != "" {
				m.usage = fullUsage
			}
			m.check(t, anthropicWire())
		})
	}
}

func withoutEventLines(stream string) string {
	var kept []string
	for line := range strings.Lines(stream) {
		if !strings.HasPrefix(line, "event:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestMessagesPause: an answer that pauses goes on with what it has said, its own tools and thoughts included, and all of it is paid.
func TestMessagesPause(t *testing.T) {
	w := anthropicWire()
	first := anthropicEvent("message_start", anthropicStart)
	blocks := joinedBlocks(
		anthropicBlock(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"Hm."}`, `{"type":"signature_delta","signature":"s1"}`),
		anthropicBlock(1, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Hello"}`),
		anthropicBlock(2, `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`),
		anthropicBlock(3, `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"u"}]}`),
	)
	t.Run("goes_on", func(t *testing.T) {
		server, seen := w.serve(t, func(n int, response http.ResponseWriter, _ *http.Request) {
			switch n {
			case 0:
				stream(response, first+blocks+anthropicEnd("pause_turn"))
			case 1:
				stream(response, first+anthropicEnd("pause_turn"))
			default:
				stream(response, w.answer(" you"))
			}
		})
		answer, listener, err := w.ask(t, Config{}, w.request(server))
		require.NoError(t, err)
		require.Equal(t, []string{"Hello", " you"}, listener.pieces)
		require.Equal(t, StopEnd, answer.Stop)
		require.Equal(t, Usage{InputTokens: 33, OutputTokens: 21, CachedInputTokens: 15, Known: true}, answer.Usage)
		require.EqualValues(t, 3, seen.count.Load())
		require.JSONEq(t, `{"model": "model-1", "stream": true, "max_tokens": 4096, "system": [{"type": "text", "text": "Be brief."}], "messages": [
			{"role": "user", "content": [{"type": "text", "text": "Hello?"}]},
			{"role": "assistant", "content": [
				{"type": "thinking", "thinking": "Hm.", "signature": "s1"},
				{"type": "text", "text": "Hello"},
				{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
				{"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]}]}
		]}`, seen.body)
	})
	t.Run("without_an_end", func(t *testing.T) {
		server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
			stream(response, first+w.text("x")+anthropicEnd("pause_turn"))
		})
		answer, _, err := w.ask(t, Config{}, w.request(server))
		require.Contains(t, requireError(t, err, CodeProviderError).Message, "again and again")
		require.Equal(t, strings.Repeat("x", maxPauses), answer.Text)
		require.EqualValues(t, maxPauses, seen.count.Load())
		require.Equal(t, Usage{InputTokens: 11 * maxPauses, OutputTokens: 7 * maxPauses, CachedInputTokens: 5 * maxPauses, Known: true}, answer.Usage)
	})
	t.Run("with_a_call_of_ours", func(t *testing.T) {
		server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
			stream(response, first+joinedBlocks(anthropicBlock(0, `{"type":"tool_use","id":"c1","name":"f","input":{"x":7}}`))+anthropicEnd("pause_turn"))
		})
		answer, _, err := w.ask(t, Config{}, w.request(server))
		require.NoError(t, err)
		require.Equal(t, StopTools, answer.Stop)
		require.Equal(t, []ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":7}`}}, answer.ToolCalls)
	})
}

func joinedBlocks(blocks ...[]string) string {
	var whole strings.Builder
	for _, block := range blocks {
		whole.WriteString(strings.Join(block, ""))
	}
	return whole.String()
}
