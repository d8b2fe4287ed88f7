package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

func chatChunk(delta, finish string) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1712345678,"model":"model-1","system_fingerprint":"fp_1",`+
		`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null}`+"\n\n", delta, finish)
}

const chatUsage = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1712345678,"model":"model-1","choices":[],` +
	`"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":5,"audio_tokens":0},` +
	`"completion_tokens_details":{"reasoning_tokens":0}}}` + "\n\n"

const chatDone = "data: [DONE]\n\n"

func chatWire() wire {
	return wire{
		name: "openai", kind: agentpb.Provider_OPENAI, path: "/v1/chat/completions",
		start:   chatChunk(`{"role":"assistant","content":"","refusal":null}`, "null"),
		text:    func(piece string) string { return chatChunk(fmt.Sprintf(`{"content":%q}`, piece), "null") },
		end:     chatChunk(`{}`, `"stop"`) + chatUsage + chatDone,
		trouble: `data: {"error":{"message":"busy, try later","type":"overloaded_error","param":null,"code":null}}` + "\n\n",
		garbled: "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"del\n\n",
	}
}

func TestChatRequest(t *testing.T) {
	w := chatWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Agent.Model.HasTemperature, request.Agent.Model.Temperature = true, 0.25
	request.Agent.Model.HasTopP, request.Agent.Model.TopP = true, 0.5
	request.Agent.Model.MaxOutputTokens = 300
	request.MaxOutputTokens = 200
	request.Messages = conversationWithTools()
	request.Tools = []Tool{weatherTool(), {Name: "now"}}

	_, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	require.Equal(t, w.path, seen.path)
	require.Equal(t, "Bearer "+testKey, seen.header.Get("Authorization"))
	require.JSONEq(t, `{
		"model": "model-1", "stream": true, "stream_options": {"include_usage": true},
		"temperature": 0.25, "top_p": 0.5, "max_tokens": 200,
		"messages": [
			{"role": "system", "content": "Be brief."},
			{"role": "user", "content": "Weather in Bern and Rome?"},
			{"role": "assistant", "content": "Let me look.", "tool_calls": [
				{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Bern\"}"}},
				{"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
			{"role": "tool", "tool_call_id": "c1", "content": "rain"},
			{"role": "tool", "tool_call_id": "c2", "content": "No result was recorded for this call."},
			{"role": "assistant", "content": "Rain in Bern."},
			{"role": "user", "content": "And Oslo?"}
		],
		"tools": [
			{"type": "function", "function": {"name": "weather", "description": "Looks at the sky.", "parameters":
				{"type": "object", "properties": {"city": {"type": "string", "maxLength": 12345678901234567890}}, "required": ["city"], "additionalProperties": false}}},
			{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
		]}`, seen.body)
	require.Contains(t, seen.body, "12345678901234567890", "numbers of a schema keep their digits")
}

func TestChatCapIsNamedAsTheOwnServiceWantsIt(t *testing.T) {
	agent := &agentpb.Agent{Model: &agentpb.Model{Name: "model-1"}}
	own := chatRequest(&question{agent: agent, maxOutput: 9, takes: func(string) bool { return true }})
	require.EqualValues(t, 9, own["max_completion_tokens"])
	require.NotContains(t, own, "max_tokens")
}

// TestChatRefusedParameters: what a server does not know is left out, or goes out under its other name, and that is learned once.
func TestChatRefusedParameters(t *testing.T) {
	w := chatWire()
	for name, c := range map[string]struct {
		unsupported []string
		refuses     string // what the server does not take
		bodies      []string
	}{
		"the new name":   {nil, "max_tokens", []string{`"max_tokens":9`, `"max_completion_tokens":9`, `"max_completion_tokens":9`}},
		"stream_options": {nil, "stream_options", []string{`"stream_options"`, `"max_tokens":9`, `"max_tokens":9`}},
		"both":           {nil, "max_tokens stream_options", []string{`"max_tokens":9`, `"stream_options"`, `"max_completion_tokens":9`, `"max_completion_tokens":9`}},
		"as the record says": {
			[]string{"max_tokens", "stream_options", "temperature"},
			"max_tokens stream_options temperature",
			[]string{`"max_completion_tokens":9`, `"max_completion_tokens":9`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var bodies []string
			var seen *exchangeLog
			server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) {
				bodies = append(bodies, seen.body) // one request at a time
				for _, refused := range strings.Fields(c.refuses) {
					if strings.Contains(seen.body, `"`+refused+`"`) {
						response.WriteHeader(http.StatusBadRequest)
						_, _ = io.WriteString(response, `{"detail":[{"type":"extra_forbidden","loc":["body","`+refused+`"],"msg":"Extra inputs are not permitted"}]}`)
						return
					}
				}
				stream(response, w.answer("Hello"))
			})
			adapter := adapterOf(t, w.kind, Config{})
			request := w.request(server)
			request.MaxOutputTokens = 9
			request.Agent.Model.UnsupportedParams, request.Agent.Model.HasTemperature = c.unsupported, true
			for range 2 {
				answer, err := adapter.Generate(t.Context(), request, &overheard{})
				require.NoError(t, err)
				require.Equal(t, "Hello", answer.Text)
			}
			require.Len(t, bodies, len(c.bodies))
			for i, part := range c.bodies {
				require.Contains(t, bodies[i], part)
			}
		})
	}
}

func TestChatToolCalls(t *testing.T) {
	w := chatWire()
	tests := map[string]struct {
		events []string
		want   []ToolCall
		stop   Stop
	}{
		"split_over_deltas": {
			events: []string{
				chatChunk(`{"content":"Looking. "}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"weather","arguments":""}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"now","arguments":""}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Bern\"}"}}]}`, "null"),
				chatChunk(`{}`, `"tool_calls"`), chatUsage, chatDone,
			},
			want: []ToolCall{{ID: "c1", Name: "weather", Arguments: `{"city":"Bern"}`}, {ID: "c2", Name: "now", Arguments: "{}"}},
			stop: StopTools,
		},
		"every_index_is_zero_and_the_reason_is_stop": {
			events: []string{
				chatChunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":0,"id":"c2","type":"function","function":{"name":"b","arguments":"{}"}}]}`, `"stop"`),
				chatDone,
			},
			want: []ToolCall{{ID: "c1", Name: "a", Arguments: "{}"}, {ID: "c2", Name: "b", Arguments: "{}"}},
			stop: StopTools,
		},
		"without_id": {
			events: []string{chatChunk(`{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{}"}}]}`, `"tool_calls"`), chatDone},
			want:   []ToolCall{{ID: "call_run1_0_0", Name: "a", Arguments: "{}"}},
			stop:   StopTools,
		},
		"cut_by_length": {
			events: []string{
				chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}]}`, "null"),
				chatChunk(`{"tool_calls":[{"index":1,"id":"c2","function":{"name":"b","arguments":"{\"x\":"}}]}`, `"length"`), chatDone,
			},
			want: []ToolCall{{ID: "c1", Name: "a", Arguments: "{}"}},
			stop: StopLength,
		},
		"filtered": {
			events: []string{
				chatChunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}]}`, `"content_filter"`), chatDone,
			},
			stop: StopFilter,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, test.events...) })
			answer, _, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, test.want, answer.ToolCalls)
			require.Equal(t, test.stop, answer.Stop)
		})
	}
}

func TestChatStops(t *testing.T) {
	w := chatWire()
	tests := map[string]struct {
		event string
		want  Stop
	}{
		"stop":           {chatChunk(`{"content":"x"}`, `"stop"`), StopEnd},
		"length":         {chatChunk(`{"content":"x"}`, `"length"`), StopLength},
		"content_filter": {chatChunk(`{"content":"x"}`, `"content_filter"`), StopFilter},
		"refusal":        {chatChunk(`{"refusal":"x"}`, `"stop"`), StopFilter},
		"no_calls":       {chatChunk(`{"content":"x"}`, `"tool_calls"`), StopEnd},
		"unheard_of":     {chatChunk(`{"content":"x"}`, `"eos"`), StopEnd},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, test.event, chatDone) })
			answer, _, err := w.ask(t, Config{}, w.request(server))
			require.NoError(t, err)
			require.Equal(t, test.want, answer.Stop)
			require.Equal(t, "x", answer.Text)
			require.False(t, answer.Usage.Known)
		})
	}
}

func TestChatSettings(t *testing.T) {
	w := chatWire()
	server, seen := w.serve(t, func(_ int, response http.ResponseWriter, _ *http.Request) { stream(response, w.answer("ok")) })
	request := w.request(server)
	request.Tools = []Tool{{Name: "look", Schema: []byte(`{"type":"object"}`), Strict: new(true)}}
	request.Settings = callersSettings()
	_, _, err := w.ask(t, Config{}, request)
	require.NoError(t, err)
	for _, part := range []string{
		`"response_format":{"type":"json_schema","json_schema":{"name":"place","description":"Where","schema":{"type":"object"},"strict":true}}`,
		`"tool_choice":{"type":"function","function":{"name":"look"}}`, `"parallel_tool_calls":false`, `"reasoning_effort":"low"`, `"strict":true`,
	} {
		require.Contains(t, sameOrder(t, seen.body), sameOrder(t, "{"+part+"}")[1:len(sameOrder(t, "{"+part+"}"))-1])
	}
	request.Tools, request.Settings = nil, Settings{Choice: &Choice{Mode: ChooseRequired}, Parallel: new(false), Format: &Format{Type: "json_object"}}
	_, _, err = w.ask(t, Config{}, request)
	require.NoError(t, err)
	require.NotContains(t, seen.body, "tool_choice", "refused beside no tools")
	require.Contains(t, seen.body, `"json_object"`)
}

// callersSettings is everything that the caller of a turn can set.
func callersSettings() Settings {
	return Settings{
		Format: &Format{Type: "json_schema", Name: "place", Description: "Where", Schema: []byte(`{"type":"object"}`), Strict: new(true)},
		Choice: &Choice{Mode: ChooseFunction, Name: "look"}, Parallel: new(false), Effort: "low",
	}
}

// sameOrder is a JSON object with its members in order.
func sameOrder(t *testing.T, text string) string {
	t.Helper()
	var value map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &value))
	ordered, err := json.Marshal(value)
	require.NoError(t, err)
	return string(ordered)
}
