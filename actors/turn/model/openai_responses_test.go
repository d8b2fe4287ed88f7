package model

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

// responsesEvent is an event line and its data, whose type is the event's name.
func responsesEvent(name, rest string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":1%s}\n\n", name, name, rest)
}

func responsesObject(status, more string) string {
	return fmt.Sprintf(`"response":{"id":"resp_1","object":"response","created_at":1712345678,"status":%q,"model":"model-1",`+
		`"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"temperature":1,"top_p":1,"metadata":{},"instructions":null%s}`, status, more)
}

const responsesUsage = `"usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":5},"output_tokens":7,` +
	`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":18}`

func responsesWire() wire {
	return wire{
		name: "openai_responses", kind: agentpb.Provider_OPENAI_RESPONSES, path: "/v1/responses",
		start: responsesEvent("response.created", ","+responsesObject("in_progress", `,"error":null,"output":[],"usage":null`)) +
			responsesEvent("response.in_progress", ","+responsesObject("in_progress", `,"error":null,"output":[],"usage":null`)) +
			responsesEvent("response.output_item.added", `,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`) +
			responsesEvent("response.content_part.added", `,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`),
		text: func(piece string) string {
			return responsesEvent("response.output_text.delta", fmt.Sprintf(`,"item_id":"msg_1","output_index":0,"content_index":0,"delta":%q,"logprobs":[]`, piece))
		},
		end: responsesEvent("response.output_text.done", `,"item_id":"msg_1","output_index":0,"content_index":0,"text":"all of it"`) +
			responsesEvent("response.completed", ","+responsesObject("completed", `,"error":null,"incomplete_details":null,"output":[{"id":"msg_1","type":"message",`+
				`"status":"completed","role":"assistant","content":[{"type":"output_text","text":"all of it","annotations":[]}]}],`+responsesUsage)),
		trouble: responsesEvent("error", `,"code":"overloaded","message":"busy, try later","param":null`),
		garbled: "event: response.output_text.delta\ndata: {\"type\":\"response.outp\n\n",
	}
}

func TestResponsesRequest(t *testing.T) {
	w := responsesWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Agent.Model.HasTemperature, request.Agent.Model.Temperature = true, 0
	request.Agent.Model.MaxOutputTokens = 300
	request.Messages = conversationWithTools()
	request.Tools = []Tool{weatherTool()}

	_, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	require.Equal(t, w.path, seen.path)
	require.JSONEq(t, `{
		"model": "model-1", "stream": true, "store": false, "include": ["reasoning.encrypted_content"], "temperature": 0, "max_output_tokens": 300, "instructions": "Be brief.",
		"input": [
			{"role": "user", "content": "Weather in Bern and Rome?"},
			{"role": "assistant", "content": "Let me look."},
			{"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\":\"Bern\"}"},
			{"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{\"city\":\"Rome\"}"},
			{"type": "function_call_output", "call_id": "c1", "output": "rain"},
			{"type": "function_call_output", "call_id": "c2", "output": "No result was recorded for this call."},
			{"role": "assistant", "content": "Rain in Bern."},
			{"role": "user", "content": "And Oslo?"}
		],
		"tools": [{"type": "function", "name": "weather", "description": "Looks at the sky.", "strict": false, "parameters":
			{"type": "object", "properties": {"city": {"type": "string", "maxLength": 12345678901234567890}}, "required": ["city"], "additionalProperties": false}}]
	}`, seen.body)
}

func TestResponsesToolCalls(t *testing.T) {
	w := responsesWire()
	item := func(status, arguments string) string {
		return fmt.Sprintf(`{"id":"fc_1","type":"function_call","status":%q,"call_id":"c1","name":"weather","arguments":%q}`, status, arguments)
	}
	want := []ToolCall{{ID: "c1", Name: "weather", Arguments: `{"city":"Bern"}`}}
	completed := responsesEvent("response.completed", ","+responsesObject("completed", `,"error":null,"output":[`+item("completed", `{"city":"Bern"}`)+`],`+responsesUsage))
	tests := map[string][]string{
		"split_over_deltas": {
			responsesEvent("response.output_item.added", `,"output_index":1,"item":`+item("in_progress", "")),
			responsesEvent("response.function_call_arguments.delta", `,"item_id":"fc_1","output_index":1,"delta":"{\"city\""`),
			responsesEvent("response.function_call_arguments.delta", `,"item_id":"fc_1","output_index":1,"delta":":\"Bern\"}"`),
			responsesEvent("response.function_call_arguments.done", `,"item_id":"fc_1","output_index":1,"arguments":"{\"city\":\"Bern\"}"`),
			responsesEvent("response.output_item.done", `,"output_index":1,"item":`+item("completed", `{"city":"Bern"}`)),
			completed,
		},
		"only_at_the_end": {completed},
	}
	for name, events := range tests {
		t.Run(name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, events...) })
			answer, _, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, want, answer.ToolCalls)
			require.Equal(t, StopTools, answer.Stop)
		})
	}
}

func TestResponsesEnds(t *testing.T) {
	w := responsesWire()
	message := func(part string) string {
		return `,"error":null,"output":[{"id":"msg_1","type":"message","role":"assistant","content":[` + part + `]}],` + responsesUsage
	}
	plain := `{"type":"output_text","text":"whole","annotations":[]}`
	tests := map[string]struct {
		event string
		text  string
		stop  Stop
		code  string
	}{
		"text_only_at_the_end": {
			event: responsesEvent("response.completed", ","+responsesObject("completed", message(plain))), text: "whole", stop: StopEnd,
		},
		"length": {
			event: responsesEvent("response.incomplete", ","+responsesObject("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`+message(plain))),
			text:  "whole", stop: StopLength,
		},
		"filter": {
			event: responsesEvent("response.incomplete", ","+responsesObject("incomplete", `,"incomplete_details":{"reason":"content_filter"}`+message(plain))),
			text:  "whole", stop: StopFilter,
		},
		"refusal": {
			event: responsesEvent("response.refusal.delta", `,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"No."`) +
				responsesEvent("response.completed", ","+responsesObject("completed", message(`{"type":"refusal","refusal":"No."}`))),
			text: "No.", stop: StopFilter,
		},
		"failed": {
			event: responsesEvent("response.failed", ","+responsesObject("failed", `,"error":{"code":"rate_limit_exceeded","message":"slow down"},"output":[],"usage":null`)),
			code:  CodeRateLimited,
		},
		"error_with_an_inner_object": {
			event: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\",\"message\":\"too long\"}}\n\n",
			code:  CodeInvalidRequest,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, test.event) })
			answer, _, err := w.ask(t, Config{MaxRetries: -1}, w.request(server))
			if test.code != "" {
				require.NotNil(t, requireError(t, err, test.code))
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.text, answer.Text)
			require.Equal(t, test.stop, answer.Stop)
			require.Equal(t, Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, Known: true}, answer.Usage)
		})
	}
}

func TestResponsesThoughtsAreNoText(t *testing.T) {
	w := responsesWire()
	server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
		stream(response, w.start, responsesEvent("response.reasoning_summary_text.delta", `,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Hmm."`),
			w.text("Yes."), strings.ReplaceAll(w.end, "all of it", "Yes."))
	})
	answer, _, err := w.ask(t, Config{}, w.request(server))
	require.NoError(t, err)
	require.Equal(t, "Yes.", answer.Text)
}

func TestResponsesSettings(t *testing.T) {
	w := responsesWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Tools = []Tool{{Name: "look", Schema: []byte(`{"type":"object"}`), Strict: new(true)}}
	request.Settings = callersSettings()
	_, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	for _, part := range []string{
		`"text":{"format":{"type":"json_schema","name":"place","description":"Where","schema":{"type":"object"},"strict":true}}`,
		`"tool_choice":{"type":"function","name":"look"}`, `"parallel_tool_calls":false`, `"reasoning":{"effort":"low"}`, `"strict":true`,
	} {
		require.Contains(t, sameOrder(t, seen.body), sameOrder(t, "{"+part+"}")[1:len(sameOrder(t, "{"+part+"}"))-1])
	}
}
