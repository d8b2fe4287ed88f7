package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newForeignModel makes a model of the stand-in provider that is asked in another form than the gateway's own.
func newForeignModel(t *testing.T, b apiCaller, driver string, answer http.HandlerFunc) *upstream {
	t.Helper()
	u := newModel(t, b, "llm", answer)
	base := u.p.server.URL
	if driver == "openai-responses" {
		base += "/v1"
	}
	b.done(t, "POST", "/models/providers", object1{
		"key": driver + "-" + u.key, "driver": driver, "settings": object1{"baseUrl": base}, "credentials": object1{"apiKey": u.secret},
	})
	b.done(t, "PATCH", "/models/"+u.key, object1{"providerKey": driver + "-" + u.key})
	return u
}

// named answers with frames whose events have the names of their types, as that provider does.
func named(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, frame := range frames {
			_, kind, _ := strings.Cut(frame, `{"type":"`)
			kind, _, _ = strings.Cut(kind, `"`)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, frame) // who has left does not read it
		}
	}
}

// TestClientGatewayParameters: what a request asks for reaches providers of other forms in their own words, or is refused by
// name. Every parameter and every provider: actors/inference.
func TestClientGatewayParameters(t *testing.T) {
	t.Parallel()
	h := house(t)
	messages := newForeignModel(t, h, "anthropic", named(
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`))
	responses := newForeignModel(t, h, "openai-responses", streams(`{"type":"response.completed","response":{"id":"r","status":"completed",`+
		`"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":3,"output_tokens":2}}}`))
	body := func(u *upstream, more object1) object1 {
		whole := chatBody(u.key, "hi")
		whole["messages"] = []any{object1{"role": "user", "content": []any{
			object1{"type": "text", "text": "hi"}, object1{"type": "image_url", "image_url": object1{"url": "https://pictures.example/a.png"}},
		}}}
		whole["tools"] = []any{object1{"type": "function", "function": object1{"name": "f", "strict": true, "parameters": object1{"type": "object"}}}}
		for name, value := range more {
			whole[name] = value
		}
		return whole
	}
	asks := object1{
		"tool_choice": "required", "parallel_tool_calls": false, "reasoning_effort": "high", "max_completion_tokens": 50,
		"response_format": object1{"type": "json_schema", "json_schema": object1{"name": "n", "schema": object1{"type": "object"}}},
	}
	last := func(u *upstream) tree {
		asked := u.asked()
		require.NotEmpty(t, asked)
		return asked[len(asked)-1].body
	}
	t.Run("in_their_own_words", func(t *testing.T) {
		for _, u := range []*upstream{messages, responses} {
			got := h.done(t, "POST", "/chat/completions", body(u, asks))
			require.Equal(t, "Hello", got.at("choices").list()[0].text("message", "content"))
			require.Regexp(t, "^chatcmpl-[0-9a-f]{32}$", got.text("id"))
		}
		asked := last(messages)
		require.Equal(t, map[string]any{"type": "any", "disable_parallel_tool_use": true}, asked.at("tool_choice").v)
		require.Equal(t, "high", asked.at("output_config", "effort").v)
		require.Equal(t, map[string]any{"type": "object"}, asked.at("output_config", "format", "schema").v)
		require.InDelta(t, 50, asked.at("max_tokens").v, 0)
		require.Contains(t, fmt.Sprint(asked.at("messages").v), "https://pictures.example/a.png")
		require.Contains(t, fmt.Sprint(asked.at("tools").v), "strict:true")
		asked = last(responses)
		require.Equal(t, []any{"required", false, "high", 50.0}, []any{
			asked.at("tool_choice").v, asked.at("parallel_tool_calls").v, asked.at("reasoning", "effort").v, asked.at("max_output_tokens").v,
		})
		require.Equal(t, "n", asked.at("text", "format", "name").v)
		require.Contains(t, fmt.Sprint(asked.at("input").v), "https://pictures.example/a.png")
		require.Contains(t, fmt.Sprint(asked.at("tools").v), "strict:true")
	})
	t.Run("or_refused_by_name", func(t *testing.T) {
		before := len(messages.asked()) + len(responses.asked())
		for param, value := range (object1{"seed": 1, "logprobs": true, "n": 2, "presence_penalty": 1, "store": true, "functions": []any{object1{"name": "f"}}}) {
			for _, u := range []*upstream{messages, responses} {
				h.ask(t, "POST", "/chat/completions", body(u, object1{param: value})).failed(400, "invalid_request_error", "invalid_request", param)
				h.ask(t, "POST", "/chat/completions", body(u, object1{param: value, "stream": true})).failed(400, "invalid_request_error", "invalid_request", param)
			}
		}
		h.ask(t, "POST", "/chat/completions", body(responses, object1{"stop": "END"})).failed(400, "invalid_request_error", "invalid_request", "stop")
		h.ask(t, "POST", "/chat/completions", body(messages, object1{"response_format": object1{"type": "json_object"}})).
			failed(400, "invalid_request_error", "invalid_request", "response_format")
		require.Equal(t, before, len(messages.asked())+len(responses.asked()), "nobody was asked")
	})
	t.Run("the_cap_goes_out_as_it_came", func(t *testing.T) {
		u := newModel(t, h, "llm", hello)
		capped := chatBody(u.key, "hi")
		capped["max_completion_tokens"] = 9
		got := h.done(t, "POST", "/chat/completions", capped)
		require.Regexp(t, "^chatcmpl-[0-9a-f]{32}$", got.text("id"), "not the provider's")
		require.InDelta(t, 9, last(u).at("max_completion_tokens").v, 0)
		require.Nil(t, last(u).at("max_tokens").v)
	})
}
