package model

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

func anthropicEvent(name, rest string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, rest)
}

func anthropicEnd(reason string) string {
	return anthropicEvent("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":7}`, reason)) +
		anthropicEvent("message_stop", "")
}

func anthropicBlock(index int, block string, deltas ...string) []string {
	events := []string{anthropicEvent("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, block))}
	for _, delta := range deltas {
		events = append(events, anthropicEvent("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, delta)))
	}
	return append(events, anthropicEvent("content_block_stop", fmt.Sprintf(`,"index":%d`, index)))
}

const anthropicStart = `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"model-1","content":[],"stop_reason":null,"stop_sequence":null,` +
	`"usage":{"input_tokens":4,"cache_creation_input_tokens":2,"cache_read_input_tokens":5,"output_tokens":1}}`

func anthropicWire() wire {
	return wire{
		name: "anthropic", kind: agentpb.Provider_ANTHROPIC, path: "/v1/messages",
		start: anthropicEvent("message_start", anthropicStart) + anthropicEvent("ping", "") +
			anthropicEvent("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
		text: func(piece string) string {
			return anthropicEvent("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, piece))
		},
		end:     anthropicEvent("content_block_stop", `,"index":0`) + anthropicEnd("end_turn"),
		trouble: anthropicEvent("error", `,"error":{"type":"overloaded_error","message":"busy, try later"}`),
		garbled: "event: content_block_delta\ndata: {\"type\":\"content_bl\n\n",
	}
}

func TestAnthropicRequest(t *testing.T) {
	w := anthropicWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Agent.Model.BaseUrl += "/v1"
	request.Agent.Model.HasTemperature, request.Agent.Model.Temperature = true, 1
	request.Agent.Model.HasTopP, request.Agent.Model.TopP = true, 0.9
	request.Messages = conversationWithTools()
	request.Tools = []Tool{weatherTool(), {Name: "now"}}

	_, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	require.Equal(t, w.path, seen.path)
	require.Equal(t, testKey, seen.header.Get("X-Api-Key"))
	require.Equal(t, "2023-06-01", seen.header.Get("Anthropic-Version"))
	require.JSONEq(t, `{
		"model": "model-1", "stream": true, "temperature": 1, "top_p": 0.9, "max_tokens": 4096,
		"system": [{"type": "text", "text": "Be brief."}],
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "Weather in Bern and Rome?"}]},
			{"role": "assistant", "content": [
				{"type": "text", "text": "Let me look."},
				{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Bern"}},
				{"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "Rome"}}]},
			{"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]},
				{"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "No result was recorded for this call."}]}]},
			{"role": "assistant", "content": [{"type": "text", "text": "Rain in Bern."}]},
			{"role": "user", "content": [{"type": "text", "text": "And Oslo?"}]}
		],
		"tools": [
			{"name": "weather", "description": "Looks at the sky.", "input_schema":
				{"type": "object", "properties": {"city": {"type": "string", "maxLength": 12345678901234567890}}, "required": ["city"], "additionalProperties": false}},
			{"name": "now", "input_schema": {"type": "object", "properties": {}}}
		]}`, seen.body)
}

func TestAnthropicToolCalls(t *testing.T) {
	w := anthropicWire()
	events := []string{anthropicEvent("message_start", anthropicStart)}
	events = append(events, anthropicBlock(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"Hmm."}`, `{"type":"signature_delta","signature":"x"}`)...)
	events = append(events, anthropicBlock(1, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Looking."}`)...)
	events = append(events, anthropicBlock(2, `{"type":"tool_use","id":"c1","name":"weather","input":{}}`,
		`{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"city\": \"Be"}`, `{"type":"input_json_delta","partial_json":"rn\"}"}`)...)
	events = append(events, anthropicBlock(3, `{"type":"tool_use","id":"c2","name":"now","input":{}}`)...)
	events = append(events, anthropicBlock(4, `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`)...)
	events = append(events, anthropicEnd("tool_use"))
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, events...) })

	answer, _, err := w.ask(t, Config{}, w.request(server))
	require.NoError(t, err)
	require.Equal(t, []ToolCall{{ID: "c1", Name: "weather", Arguments: `{"city": "Bern"}`}, {ID: "c2", Name: "now", Arguments: "{}"}}, answer.ToolCalls)
	require.Equal(t, "Looking.", answer.Text)
	require.Equal(t, StopTools, answer.Stop)
}

func TestAnthropicStops(t *testing.T) {
	w := anthropicWire()
	for reason, want := range map[string]Stop{
		"end_turn": StopEnd, "stop_sequence": StopEnd, "tool_use": StopEnd,
		"max_tokens": StopLength, "model_context_window_exceeded": StopLength, "refusal": StopFilter,
	} {
		t.Run(reason, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				stream(response, w.start, w.text("x"), anthropicEnd(reason))
			})
			answer, _, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, want, answer.Stop)
		})
	}
}

func TestAnthropicUsageTotalsAtTheEnd(t *testing.T) {
	w := anthropicWire()
	final := anthropicEvent("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},`+
		`"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":40}`)
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		stream(response, w.start, w.text("x"), final, anthropicEvent("message_stop", ""))
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	require.NoError(t, err)
	require.Equal(t, Usage{InputTokens: 60, OutputTokens: 40, CachedInputTokens: 30, Known: true}, answer.Usage)
}

func TestAnthropicSettings(t *testing.T) {
	w := anthropicWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Tools = []Tool{{Name: "look", Schema: []byte(`{"type":"object"}`)}}
	for _, c := range []struct{ mode, want string }{
		{ChooseFunction, `{"disable_parallel_tool_use":true,"name":"look","type":"tool"}`},
		{ChooseRequired, `{"disable_parallel_tool_use":true,"type":"any"}`},
		{ChooseNone, `{"type":"none"}`},
		{"", `{"disable_parallel_tool_use":true,"type":"auto"}`},
	} {
		request.Settings = callersSettings()
		request.Settings.Choice.Mode = c.mode
		if c.mode == "" {
			request.Settings.Choice = nil
		}
		_, _, err := w.ask(t, Config{}, request)
		require.NoError(t, err)
		require.Contains(t, sameOrder(t, seen.body), `"tool_choice":`+c.want)
		require.Contains(t, seen.body, "It must fit this JSON Schema")
	}
}
