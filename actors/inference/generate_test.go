package inference_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/inference"
	"parley/proto/agentpb"
)

const claude = `{"model":"claude","max_tokens":100,"temperature":0.2,"messages":[
	{"role":"system","content":"Be brief."},{"role":"developer","content":[{"type":"text","text":"And kind."}]},
	{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},
	{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},
	{"role":"tool","tool_call_id":"c1","content":"rain"},
	{"role":"user","content":"and Rome?"}],
	"tools":[{"type":"function","function":{"name":"weather","description":"d","parameters":{"type":"object","properties":{}}}}]}`

// TestOtherProvider: a request in the OpenAI form is asked of the Messages API, and its answer comes back in the OpenAI form.
func TestOtherProvider(t *testing.T) {
	k := newKit(t, recorded(t, "claude.sse"))
	raw, err := k.caller.Chat(t.Context(), k.call(claude))
	require.NoError(t, err)
	var said struct {
		Choices json.RawMessage `json:"choices"`
		Usage   json.RawMessage `json:"usage"`
		Model   string          `json:"model"`
	}
	require.NoError(t, json.Unmarshal(raw, &said))
	require.JSONEq(t, `[{"index":0,"message":{"role":"assistant","content":"Let me look","refusal":null,"annotations":[],
		"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},
		"logprobs":null,"finish_reason":"tool_calls"}]`, string(said.Choices))
	require.JSONEq(t, `{"prompt_tokens":25,"completion_tokens":12,"cached_tokens":5,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":5}}`, string(said.Usage))
	require.Equal(t, "claude", said.Model)
	usage := k.usage()
	require.Equal(t, int64(25), usage.InputTokens)
	require.True(t, usage.Priced)
	asked := k.provider.requests()[0]
	require.Equal(t, "/v1/messages", asked.path)
	require.InDelta(t, 100, asked.body["max_tokens"], 0)
	require.InDelta(t, 0.2, asked.body["temperature"], 0)
	system, err := json.Marshal(asked.body["system"])
	require.NoError(t, err)
	require.Contains(t, string(system), `Be brief.\n\nAnd kind.`)
	messages, _ := asked.body["messages"].([]any)
	require.Len(t, messages, 4)
	require.Contains(t, asked.raw, `"tool_use_id":"c1"`)
	require.Contains(t, asked.raw, "iVBORw0KGgo=")
}

func TestOtherProviderStreamed(t *testing.T) {
	k := newKit(t, recorded(t, "claude.sse"))
	got, err := k.stream(strings.Replace(claude, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1))
	require.NoError(t, err)
	var chunks []string
	for line := range strings.Lines(got) {
		var chunk struct {
			Choices json.RawMessage `json:"choices"`
			Usage   json.RawMessage `json:"usage"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &chunk))
		chunks = append(chunks, string(chunk.Choices)+string(chunk.Usage))
	}
	require.Equal(t, []string{
		`[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`,
		`[{"index":0,"delta":{"content":"Let me "},"logprobs":null,"finish_reason":null}]`,
		`[{"index":0,"delta":{"content":"look"},"logprobs":null,"finish_reason":null}]`,
		`[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},"logprobs":null,"finish_reason":null}]`,
		`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]`,
		`[]{"prompt_tokens":25,"completion_tokens":12,"cached_tokens":5,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":5}}`,
	}, chunks)
}

// TestThoughtsOfOtherProviders: thoughts of every dialect are told as those of Chat Completions.
func TestThoughtsOfOtherProviders(t *testing.T) {
	for name, events := range map[string]string{
		"claude": `data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":4,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, "}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"so."}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SECRET"}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Yes."}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7,"output_tokens_details":{"thinking_tokens":3}}}

data: {"type":"message_stop"}

`,
		"home": `data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Hm, "}

data: {"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"so."}

data: {"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"SECRET","summary":[{"type":"summary_text","text":"Hm, so."}]}}

data: {"type":"response.output_text.delta","item_id":"m","output_index":1,"content_index":0,"delta":"Yes."}

data: {"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":4,"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}}

`,
	} {
		k := newKit(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events)
		})
		usage := `"usage":{"prompt_tokens":4,"completion_tokens":7,"cached_tokens":0,"total_tokens":11,"completion_tokens_details":{"reasoning_tokens":3}}`
		raw, err := k.caller.Chat(t.Context(), k.call(`{"model":"`+name+`","messages":[{"role":"user","content":"so?"}]}`))
		require.NoError(t, err)
		require.Contains(t, string(raw), `"content":"Yes.","refusal":null,"reasoning_content":"Hm, so."`)
		require.Contains(t, string(raw), usage)
		got, err := k.stream(`{"stream":true,"stream_options":{"include_usage":true},"model":"` + name + `","messages":[{"role":"user","content":"so?"}]}`)
		require.NoError(t, err)
		var said []string
		for _, part := range regexp.MustCompile(`"delta":\{[^}]*\}`).FindAllString(got, -1) {
			said = append(said, strings.TrimPrefix(part, `"delta":`))
		}
		require.Equal(t, []string{
			`{"role":"assistant","content":""}`, `{"reasoning_content":"Hm, "}`, `{"reasoning_content":"so."}`, `{"content":"Yes."}`, `{}`,
		}, said)
		require.Contains(t, got, usage)
		require.NotContains(t, got+string(raw), "SECRET")
	}
}

// TestOtherProviderFails: the errors of package model in the form of 10.4.
func TestOtherProviderFails(t *testing.T) {
	for _, c := range []struct {
		answer http.HandlerFunc
		status int
		code   string
	}{
		{says(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`), 401, "invalid_api_key"},
		{says(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`), 429, "rate_limit_exceeded"},
		{says(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`), 400, "context_length_exceeded"},
		{says(529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), 529, "provider_error"},
		{says(500, `{"type":"error","error":{"type":"api_error","message":"oops"}}`), 500, "provider_error"},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503, "provider_unavailable"},
	} {
		k := newKit(t, c.answer)
		_, err := k.caller.Chat(t.Context(), k.call(claude))
		failed := asError(t, err)
		require.Equal(t, c.status, failed.Status)
		require.Equal(t, c.code, failed.Code)
		require.True(t, k.usage().Failed)
		_, err = newKit(t, c.answer).stream(claude)
		require.Equal(t, c.code, asError(t, err).Code)
	}
}

// TestErrorsOfEveryDialect: a client is told of a failure alike, whatever its provider speaks: in the provider's own words, with its code, its
// param and how long to wait.
func TestErrorsOfEveryDialect(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   inference.Error
		again  bool
	}{
		{"rate", 429, `{"error":{"message":"slow down","code":"tokens_per_minute","param":"tokens"}}`, inference.Error{Status: 429, Type: "rate_limit_error", Code: "tokens_per_minute", Param: "tokens", Message: "slow down"}, false},
		{"a list", 400, `[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`, inference.Error{Status: 400, Type: "invalid_request_error", Code: "invalid_request", Message: "bad"}, false},
		{"details", 422, `{"detail":[{"loc":["body","top_k"],"msg":"too high","type":"x"}]}`, inference.Error{Status: 422, Type: "unprocessable_entity_error", Code: "unprocessable_entity", Param: "top_k", Message: "top_k: too high"}, false},
		{"a quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, inference.Error{Status: 429, Type: "rate_limit_error", Code: "insufficient_quota", Message: "You exceeded your current quota"}, false},
		{"a balance", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, inference.Error{Status: 429, Type: "rate_limit_error", Code: "insufficient_quota", Message: "Your credit balance is too low"}, false},
		{"a page", 502, `<html><body><h1>502 Bad Gateway</h1></body></html>`, inference.Error{Status: 502, Type: "server_error", Code: "provider_error", Message: "502 Bad Gateway"}, true},
		{"plain text", 500, `upstream connect error`, inference.Error{Status: 500, Type: "server_error", Code: "provider_error", Message: "upstream connect error"}, true},
		{"a document for a stream", 200, `{"error":{"message":"streaming is off","code":"no_stream"}}`, inference.Error{Status: 500, Type: "server_error", Code: "no_stream", Message: "streaming is off"}, false},
	} {
		for _, name := range []string{"chat", "claude", "home"} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
					if c.name == "rate" {
						w.Header().Set("Retry-After", "77")
						c.want.RetryAfter = 77 * time.Second
					}
					says(c.status, c.body)(w, r)
				})
				_, err := k.stream(`{"stream":true,"model":"` + name + `","messages":[{"role":"user","content":"so?"}]}`)
				failed := *asError(t, err)
				failed.Err = nil
				require.Equal(t, c.want, failed)
				if !c.again {
					require.Len(t, k.provider.requests(), 1)
					require.Zero(t, k.usage().InputTokens+k.usage().OutputTokens, "a refusal costs nothing")
				}
			})
		}
	}
}

// TestUsageOfWhatFails: what a provider told of its usage is booked, though its answer failed before it said anything.
func TestUsageOfWhatFails(t *testing.T) {
	const start = `{"type":"message_start","message":{"content":[],"usage":{"input_tokens":5000,"cache_read_input_tokens":9,"output_tokens":1}}}`
	for _, c := range []struct{ model, end string }{
		{"claude", `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`},
		{"claude", `{"type":"message_delta","delta":{"stop_reason":"banana"},"usage":{}}`},
		{"home", `{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"no"},"usage":{"input_tokens":5009,"input_tokens_details":{"cached_tokens":9},"output_tokens":1}}}`},
	} {
		for _, whole := range []bool{false, true} {
			k := newKit(t, streams(start, c.end), func(config *inference.Config) { config.MaxAttempts = 1 })
			k.catalog[c.model].model.MaxRetries = -1
			body := `{"model":"` + c.model + `","messages":[{"role":"user","content":"so?"}]}`
			var err error
			if whole {
				_, err = k.caller.Chat(t.Context(), k.call(body))
			} else {
				_, err = k.stream(body)
			}
			require.Error(t, err)
			usage := k.usage()
			require.Equal(t, []int64{5009, 1, 9}, []int64{usage.InputTokens, usage.OutputTokens, usage.CachedInputTokens}, "%s %v", c.model, whole)
			require.True(t, usage.Failed)
		}
	}
}

// TestMessagesOfCallers: what callers write of messages and tools, and what a Messages provider is sent.
func TestMessagesOfCallers(t *testing.T) {
	const png, jpeg, gif, webp = "iVBORw0KGgo", "/9j/4A", "R0lGODlhAQ", "UklGRiQAAABXRUJQVlA"
	ask := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	picture := func(address string) string {
		return ask(`[{"type":"image_url","image_url":{"url":"` + address + `"}}]`)
	}
	shown := func(kind, data string) string {
		return `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"` + kind + `","data":"` + data + `"}}]}]}`
	}
	for _, c := range []struct{ name, asked, sent string }{
		{
			"a prefix", `{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"a b \n"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"1"}]},{"role":"assistant","content":[{"type":"text","text":"a b"}]}]}`,
		},
		{
			"blanks elsewhere", `{"messages":[{"role":"user","content":"1 "},{"role":"assistant","content":"a "},{"role":"user","content":"2 "}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"1 "}]},{"role":"assistant","content":[{"type":"text","text":"a "}]},{"role":"user","content":[{"type":"text","text":"2 "}]}]}`,
		},
		{"image/jpg", picture("data:image/jpg;base64," + jpeg + "=="), shown("image/jpeg", jpeg+"==")},
		{"upper case", picture("DATA:IMAGE/PNG;BASE64," + png + "="), shown("image/png", png+"=")},
		{"parameters", picture("data:image/gif;charset=utf-8; name=x;base64," + gif + "=="), shown("image/gif", gif+"==")},
		{"no padding", picture("data:image/webp;base64," + webp), shown("image/webp", webp+"=")},
		{"the bytes decide", picture("data:image/png;base64," + jpeg + "=="), shown("image/jpeg", jpeg+"==")},
		{"no type", picture("data:;base64," + png + "="), shown("image/png", png+"=")},
		{"bytes that nobody knows", picture("data:image/png;base64,iVBORw=="), shown("image/png", "iVBORw==")},
		{"no picture", picture("data:application/pdf;base64,iVBORw=="), ""},
		{
			"cache_control of parts", ask(`[{"type":"text","text":"long","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"so?"}]`),
			`{"messages":[{"role":"user","content":[{"type":"text","text":"long","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"\nso?"}]}]}`,
		},
		{
			"cache_control of a picture", ask(`[{"type":"image_url","image_url":{"url":"https://x/y.png"},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"so?","cache_control":null}]`),
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"so?"}]}]}`,
		},
		{
			"cache_control of a message", `{"messages":[{"role":"system","content":"A"},{"role":"system","content":[{"type":"text","text":"B","cache_control":{"type":"ephemeral"}}]},{"role":"system","content":"C"},{"role":"user","content":"so?","cache_control":{"type":"ephemeral"}}]}`,
			`{"system":[{"type":"text","text":"A\n\nB","cache_control":{"type":"ephemeral"}},{"type":"text","text":"\n\nC"}],"messages":[{"role":"user","content":[{"type":"text","text":"so?","cache_control":{"type":"ephemeral"}}]}]}`,
		},
		{
			"cache_control of a tool, and of its result", `{"tools":[{"type":"function","function":{"name":"f","cache_control":{"type":"ephemeral"}}},{"type":"function","cache_control":{"type":"ephemeral"},"function":{"name":"g"}}],
			"messages":[{"role":"user","content":"1"},{"role":"assistant","content":null,"cache_control":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}`,
			`{"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}},{"name":"g","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"1"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"r"}],"cache_control":{"type":"ephemeral"}}]}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, recorded(t, "claude.sse"))
			_, err := k.caller.Chat(t.Context(), k.call(`{"model":"claude",`+strings.TrimPrefix(c.asked, "{")))
			if c.sent == "" {
				require.Equal(t, "messages", asError(t, err).Param)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, `{"model":"up-claude","max_tokens":4096,"stream":true,`+strings.TrimPrefix(c.sent, "{"), k.provider.requests()[0].raw)
		})
	}
}

// TestUnansweredOtherProvider: what was asked is booked only if the provider had it.
func TestUnansweredOtherProvider(t *testing.T) {
	k := newKit(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := k.stream(claude)
	require.Equal(t, "provider_unavailable", asError(t, err).Code)
	require.Positive(t, k.usage().InputTokens)
	k.booked = nil
	k.provider.Close()
	_, err = k.stream(claude)
	require.Equal(t, "provider_unavailable", asError(t, err).Code)
	require.Zero(t, k.usage().InputTokens)
}

// TestOtherProviderRefused: what package model cannot say is refused before anybody is asked.
func TestOtherProviderRefused(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"claude","n":2,"messages":[]}`:                                                                                                                                  "n",
		`{"model":"claude","messages":[1]}`:                                                                                                                                       "messages",
		`{"model":"claude","messages":[{"role":"wizard","content":"x"}]}`:                                                                                                         "messages",
		`{"model":"claude","messages":[{"role":"user","content":5}]}`:                                                                                                             "messages",
		`{"model":"claude","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                                                                                      "messages",
		`{"model":"claude","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"ftp://x/y.png"}}]}]}`:                                                    "messages",
		`{"model":"claude","messages":[{"role":"user","name":"Ann","content":"hi"}]}`:                                                                                             "messages",
		`{"model":"claude","messages":[{"role":"function","name":"f","content":"hi"}]}`:                                                                                           "messages",
		`{"model":"claude","messages":[{"role":"assistant","function_call":{"name":"f"}}]}`:                                                                                       "messages",
		`{"model":"claude","messages":[{"role":"assistant","audio":{"id":"a"}}]}`:                                                                                                 "messages",
		`{"model":"claude","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom"}]}]}`:                                                                          "messages",
		`{"model":"claude","messages":[{"role":"tool","tool_call_id":"c","content":"x"}]}`:                                                                                        "messages",
		`{"model":"claude","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"x"}]}`: "messages",
		`{"model":"claude","messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`:                                                "messages",
		`{"model":"claude","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`:                                                                      "messages",
		`{"model":"claude","messages":[],"temperature":"hot"}`:                                                                                                                    "temperature",
		`{"model":"claude","messages":[],"top_p":[]}`:                                                                                                                             "top_p",
		`{"model":"claude","messages":[],"max_tokens":0}`:                                                                                                                         "max_tokens",
		`{"model":"claude","messages":[],"max_completion_tokens":"many"}`:                                                                                                         "max_completion_tokens",
		`{"model":"chat","messages":[],"max_completion_tokens":-1}`:                                                                                                               "max_completion_tokens",
		`{"model":"claude","messages":[],"tool_choice":"required"}`:                                                                                                               "tool_choice",
		`{"model":"claude","messages":[],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`:                        "tool_choice",
		`{"model":"claude","messages":[],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools"}}`:                                           "tool_choice",
		`{"model":"claude","messages":[],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"always"}`:                                                           "tool_choice",
		`{"model":"claude","messages":[],"parallel_tool_calls":"no"}`:                                                                                                             "parallel_tool_calls",
		`{"model":"claude","messages":[],"response_format":{"type":"json_object"}}`:                                                                                               "response_format",
		`{"model":"claude","messages":[],"response_format":{"type":"grammar"}}`:                                                                                                   "response_format",
		`{"model":"claude","messages":[],"response_format":{"type":"json_schema","json_schema":{"name":"n"}}}`:                                                                    "response_format",
		`{"model":"home","messages":[],"response_format":"json"}`:                                                                                                                 "response_format",
		`{"model":"claude","messages":[],"reasoning_effort":"minimal"}`:                                                                                                           "reasoning_effort",
		`{"model":"claude","messages":[],"reasoning_effort":3}`:                                                                                                                   "reasoning_effort",
		`{"model":"claude","messages":[],"reasoning":{"summary":"auto"}}`:                                                                                                         "reasoning",
		`{"model":"home","messages":[],"reasoning":{"effort":"low"},"reasoning_effort":"high"}`:                                                                                   "reasoning_effort",
		`{"model":"claude","messages":[],"stop":[1]}`:                                                                                                                             "stop",
		`{"model":"claude","messages":[],"user":7}`:                                                                                                                               "user",
		`{"model":"claude","messages":[],"service_tier":"priority"}`:                                                                                                              "service_tier",
		`{"model":"home","messages":[],"verbosity":1}`:                                                                                                                            "verbosity",
		`{"model":"claude","messages":[],"tools":{}}`:                                                                                                                             "tools",
		`{"model":"claude","messages":[],"tools":[{"type":"custom"}]}`:                                                                                                            "tools",
	} {
		k := newKit(t, says(500, "{}"))
		_, err := k.caller.Chat(t.Context(), k.call(body))
		failed := asError(t, err)
		require.Equal(t, 400, failed.Status, body)
		require.Equal(t, param, failed.Param, body)
		require.Empty(t, k.provider.requests())
	}
}

func TestScripted(t *testing.T) {
	k := newKit(t, says(500, "{}"))
	raw, err := k.caller.Chat(t.Context(), k.call(`{"model":"scripted","messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"content":"one two three"`)
	usage := k.usage()
	require.False(t, usage.Priced, "it has no price")
	require.Equal(t, int64(3), usage.OutputTokens)
	k.booked = nil
	got, err := k.stream(`{"model":"scripted","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`)
	require.NoError(t, err)
	require.Contains(t, got, `"finish_reason":"length"`)
	require.NotContains(t, got, "three")
}

// TestScriptedFailsInMidStream: what was streamed before the failure was delivered, and its usage is recorded.
func TestScriptedFailsInMidStream(t *testing.T) {
	k := newKit(t, says(500, "{}"))
	k.catalog["scripted"].model.Script = &agentpb.Script{Steps: []*agentpb.Script_Step{
		{Text: "one two three", ErrorCode: "server_error", ErrorMessage: "fell over", ErrorAfterTokens: 2},
	}}
	got, err := k.stream(`{"model":"scripted","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, "provider_error", asError(t, err).Code)
	require.Contains(t, got, "one")
	require.True(t, k.usage().Failed)
	require.Positive(t, k.usage().OutputTokens)
}

// TestStandInEmbeddings: the same words are the same, shared words are near, others are not.
func TestStandInEmbeddings(t *testing.T) {
	k := newKit(t, says(500, "{}"))
	raw, err := k.caller.Embed(t.Context(), k.call(`{"model":"words","input":["red apple","Red  apple","red car","blue sky above"]}`))
	require.NoError(t, err)
	var said struct {
		Data []struct {
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	require.NoError(t, json.Unmarshal(raw, &said))
	near := func(a, b int) (dot float64) {
		for i := range said.Data[a].Embedding {
			dot += said.Data[a].Embedding[i] * said.Data[b].Embedding[i]
		}
		return dot
	}
	require.InDelta(t, 1, near(0, 1), 1e-6)
	require.Greater(t, near(0, 2), 0.2)
	require.Less(t, near(0, 3), near(0, 2))
	require.Equal(t, int64(9), k.usage().InputTokens)
}

// TestRecordings: the recordings hold nothing that looks like a key.
func TestRecordings(t *testing.T) {
	files, err := os.ReadDir("testdata")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile("testdata/" + file.Name())
		require.NoError(t, err)
		require.NotContains(t, string(raw), "sk-")
	}
}
