package inference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/actors/inference"
	"parley/actors/stranger"
)

const (
	hello  = `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`
	answer = `{"id":"chatcmpl-up","object":"chat.completion","created":1700000000,"model":"up-model","system_fingerprint":"fp_1",
		"choices":[{"index":0,"message":{"role":"assistant","content":"Hello \u00e9","refusal":null},"finish_reason":"stop","logprobs":null}],
		"usage":{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010,"prompt_tokens_details":{"cached_tokens":400}}}`
)

func TestChatRelayed(t *testing.T) {
	k := newKit(t, says(200, answer))
	raw, err := k.caller.Chat(t.Context(), k.call(hello))
	require.NoError(t, err)
	require.Regexp(t, `"id":"chatcmpl-[0-9a-f]{32}"`, string(raw), "the provider's id is not passed on")
	require.JSONEq(t, `{"id":"ID","object":"chat.completion","created":1700000000,"model":"chat","system_fingerprint":"fp_1",
		"choices":[{"index":0,"message":{"role":"assistant","content":"Hello é","refusal":null},"finish_reason":"stop","logprobs":null}],
		"usage":{"prompt_tokens":1000,"completion_tokens":10,"cached_tokens":400,"total_tokens":1010,
		"prompt_tokens_details":{"cached_tokens":400}},"request_id":"req-1"}`, withoutID(string(raw)))
	require.Equal(t, inference.Usage{
		TenantID: "t", ProjectID: "p", UserID: "u", TokenID: "tok", Model: "chat", Service: "chat",
		InputTokens: 1000, OutputTokens: 10, CachedInputTokens: 400, Priced: true,
		CostNanoUSD: (600*1e9 + 400*1e8 + 10*2e9) / 1e6,
	}, k.usage())
	asked := k.provider.requests()
	require.Len(t, asked, 1)
	require.Equal(t, "/v1/chat/completions", asked[0].path)
	require.Equal(t, "Bearer "+testKey, asked[0].key)
	require.Equal(t, "header-secret-value", asked[0].header)
	require.JSONEq(t, `{"model":"up-model","messages":[{"role":"user","content":"hi"}]}`, asked[0].raw)
}

// TestChatBody: what of a body reaches the provider.
func TestChatBody(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ name, body, want string }{
		{
			"listed fields pass, others do not",
			`{"model":"chat",` + messages + `,"temperature":0.1,"top_p":1,"stop":["x"],"seed":7,"user":"me","tools":[{"a":1}],` +
				`"tool_choice":"auto","parallel_tool_calls":false,"response_format":{"type":"json_object"},"reasoning_effort":"low",` +
				`"top_k":5,"request_id":"r","api_key":"stolen","base_url":"http://evil"}`,
			`{"model":"up-model",` + messages + `,"temperature":0.1,"top_p":1,"stop":["x"],"seed":7,"user":"me","tools":[{"a":1}],` +
				`"tool_choice":"auto","parallel_tool_calls":false,"response_format":{"type":"json_object"},"reasoning_effort":"low"}`,
		},
		{
			"max_completion_tokens wins, and goes out as it came",
			`{"model":"chat",` + messages + `,"max_tokens":5,"max_completion_tokens":9}`,
			`{"model":"up-model",` + messages + `,"max_completion_tokens":9}`,
		},
		{"max_tokens, too", `{"model":"chat",` + messages + `,"max_tokens":5}`, `{"model":"up-model",` + messages + `,"max_tokens":5}`},
		{
			"an imitator that knows the old name only, as its record says",
			`{"model":"old",` + messages + `,"max_completion_tokens":9}`, `{"model":"up-model",` + messages + `,"max_tokens":9}`,
		},
		{"null is nothing", `{"model":"chat",` + messages + `,"max_tokens":null,"seed":null}`, `{"model":"up-model",` + messages + `}`},
		{
			"extra_body adds and overrides nothing of ours",
			`{"model":"chat",` + messages + `,"temperature":0.1,"extra_body":{"temperature":2,"model":"stolen","stream":true,"guided":[1]}}`,
			`{"model":"up-model",` + messages + `,"temperature":0.1,"guided":[1]}`,
		},
		{
			"a record that lets unknown fields pass, has defaults, and drops what the model does not take",
			`{"model":"open",` + messages + `,"seed":7,"top_k":9,"other":1,"providerKey":"x"}`,
			`{"model":"up-model",` + messages + `,"top_k":9,"other":1,"safe":true,"temperature":0.5}`,
		},
		{"the last of two fields with one name counts", `{"model":"chat","messages":[],` + messages + `}`, `{"model":"up-model",` + messages + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t, says(200, answer))
			_, err := k.caller.Chat(t.Context(), k.call(c.body))
			require.NoError(t, err)
			require.JSONEq(t, c.want, k.provider.requests()[0].raw)
		})
	}
}

// TestErrors is the table of document 3, 10.4, row by row.
func TestErrors(t *testing.T) {
	said := func(status int, message, code string) http.HandlerFunc {
		return says(status, fmt.Sprintf(`{"error":{"message":%q,"type":"some_type","code":%s}}`, message, code))
	}
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		status   int
		kind     string
		code     string
		param    string
		attempts int
	}{
		{
			"cut before an answer", says(200, `{"choices":[{"index":0,"finish_reason":"length","message":{"role":"assistant","content":""}}]}`),
			422, "output_token_limit_exceeded", "output_token_limit_exceeded", "max_completion_tokens", 1,
		},
		{"context length", said(400, "This model's maximum context length is 8 tokens", "null"), 400, "invalid_request_error", "context_length_exceeded", "messages", 1},
		{"content policy", said(400, "violates our content policy", "null"), 400, "invalid_request_error", "content_policy_violation", "", 1},
		{"credentials", said(401, "Incorrect API key provided: "+testKey, "null"), 401, "authentication_error", "invalid_api_key", "", 1},
		{"credentials in words", said(400, "Invalid API key", "null"), 401, "authentication_error", "invalid_api_key", "", 1},
		{"forbidden", said(403, "no", "null"), 403, "permission_error", "permission_denied", "", 1},
		{"quota", said(429, "You exceeded your current quota", "null"), 429, "rate_limit_error", "insufficient_quota", "", 1},
		{"rate", said(429, "slow down", "null"), 429, "rate_limit_error", "rate_limit_exceeded", "", 3},
		{"own code", said(429, "slow down", `"tokens_per_minute"`), 429, "rate_limit_error", "tokens_per_minute", "", 3},
		{"408", said(408, "late", "null"), 408, "server_error", "provider_timeout", "", 3},
		{"504", said(504, "late", "null"), 504, "server_error", "provider_timeout", "", 3},
		{"404", said(404, "what?", "null"), 404, "not_found_error", "model_not_found", "model", 1},
		{"model in words", said(400, "The model `x` does not exist", "null"), 404, "not_found_error", "model_not_found", "model", 1},
		{"400", said(400, "bad", "null"), 400, "invalid_request_error", "invalid_request", "", 1},
		{"400 with a param", says(400, `{"error":{"message":"bad","param":"tools"}}`), 400, "invalid_request_error", "invalid_request", "tools", 1},
		{"409", said(409, "again", "null"), 409, "conflict_error", "conflict", "", 1},
		{"422", said(422, "cannot", "null"), 422, "unprocessable_entity_error", "unprocessable_entity", "", 1},
		{"500", said(500, "oops", "null"), 500, "server_error", "provider_error", "", 3},
		{"503", said(503, "busy", "null"), 503, "server_error", "provider_error", "", 3},
		{"529", said(529, "overloaded", "null"), 529, "server_error", "provider_error", "", 3},
		{"another form", says(500, `{"detail":"oops"}`), 500, "server_error", "provider_error", "", 3},
		{"no document", says(502, `<html>`), 502, "server_error", "provider_error", "", 3},
		{"rest", said(418, "teapot", "null"), 500, "server_error", "inference_error", "", 1},
		{"no JSON", says(200, `hello`), 502, "server_error", "provider_error", "", 1},
		{"no choices", says(200, `{"id":"x","choices":[]}`), 502, "server_error", "provider_error", "", 1},
		{"error with status 200", says(200, `{"error":{"message":"no","type":"rate_limit_error"}}`), 429, "rate_limit_error", "rate_limit_exceeded", "", 3},
		{"cut connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503, "server_error", "provider_unavailable", "", 3},
		{
			"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			503, "server_error", "provider_unavailable", "", 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, streamed := range []bool{false, true} {
				k := newKit(t, c.answer)
				var err error
				if streamed {
					var chunks string
					chunks, err = k.stream(hello)
					require.Empty(t, chunks, "nothing was passed on")
				} else {
					_, err = k.caller.Chat(t.Context(), k.call(hello))
				}
				failed := asError(t, err)
				if streamed && c.status == 422 && c.code == "output_token_limit_exceeded" {
					continue // a document is no stream: see TestStreamErrors
				}
				require.Equal(t, c.status, failed.Status)
				require.Equal(t, c.kind, failed.Type)
				require.Equal(t, c.code, failed.Code)
				require.Equal(t, c.param, failed.Param)
				require.Equal(t, c.code == "output_token_limit_exceeded", failed.Ran)
				require.LessOrEqual(t, len(failed.Message), 2003)
				require.Len(t, k.provider.requests(), c.attempts)
				require.True(t, k.usage().Failed)
			}
		})
	}
}

// TestRefusedParameters: what a server does not know is left out, or goes out under its other name, and that is learned once.
func TestRefusedParameters(t *testing.T) {
	const asked = `"messages":[{"role":"user","content":"hi"}],"max_tokens":9`
	for name, c := range map[string]struct {
		refuses, settings string
		whole             []string // what goes out of two calls
		streamed          []string
	}{
		"the old name":   {"max_tokens", "", []string{`"max_tokens":9`, `"max_completion_tokens":9`, `"max_completion_tokens":9`}, []string{`"max_completion_tokens":9`}},
		"stream_options": {"stream_options", "", []string{`"max_tokens":9`, `"max_tokens":9`}, []string{`"stream_options"`, `"max_tokens":9,"stream":true}`}},
		"both names":     {"max_tokens max_completion_tokens", "", []string{`"max_tokens":9`, `"max_completion_tokens":9`, `"max_tokens":9`, `"max_completion_tokens":9`}, []string{`"max_tokens":9`, `"max_completion_tokens":9`}},
		"as the record says": {
			"max_tokens stream_options", `{"unsupportedParams":["max_tokens","stream_options"]}`,
			[]string{`"max_completion_tokens":9`, `"max_completion_tokens":9`},
			[]string{`"max_completion_tokens":9,"stream":true}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var k *kit
			k = newKit(t, func(w http.ResponseWriter, r *http.Request) {
				requests := k.provider.requests()
				raw := requests[len(requests)-1].raw
				for _, refused := range strings.Fields(c.refuses) {
					if strings.Contains(raw, `"`+refused+`"`) {
						says(400, `{"error":{"message":"Unsupported parameter: '`+refused+`' is not supported with this model. Use 'something' instead.","param":"`+refused+`","code":"unsupported_parameter"}}`)(w, r)
						return
					}
				}
				if strings.Contains(raw, `"stream":true`) {
					streams(`{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`, "[DONE]")(w, r)
					return
				}
				says(200, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`)(w, r)
			})
			k.catalog["chat"].record.Settings = []byte(c.settings)
			fails := strings.Contains(c.refuses, " max")
			for range 2 {
				_, err := k.caller.Chat(t.Context(), k.call(`{"model":"chat",`+asked+`}`))
				require.Equal(t, fails, err != nil)
			}
			got, err := k.stream(`{"model":"chat","stream":true,` + asked + `}`)
			require.Equal(t, !fails, err == nil && strings.Contains(got, "Hi"))
			want := append(c.whole, c.streamed...)
			require.Len(t, k.provider.requests(), len(want))
			for i, one := range k.provider.requests() {
				require.Contains(t, one.raw, want[i])
			}
		})
	}
}

func TestErrorTextIsClean(t *testing.T) {
	long := strings.Repeat("x", 5000)
	k := newKit(t, says(400, `{"error":{"message":"sk-abcdefghijkl Bearer abc data:image/png;base64,AAAA header-secret-value `+long+`"}}`))
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	failed := asError(t, err)
	for _, secret := range []string{"sk-abcdefghijkl", "Bearer abc", "AAAA"} {
		require.NotContains(t, failed.Message, secret)
	}
	require.Less(t, len(failed.Message), 2010)
}

func TestUnknownModels(t *testing.T) {
	k := newKit(t, says(200, answer))
	for body, want := range map[string]int{
		`{"model":"none","messages":[]}`:  404,
		`{"model":"embed","messages":[]}`: 400,
	} {
		_, err := k.caller.Chat(t.Context(), k.call(body))
		failed := asError(t, err)
		require.Equal(t, want, failed.Status)
		require.Equal(t, "model", failed.Param)
	}
	elsewhere := k.call(hello)
	elsewhere.ProjectID = "other"
	_, err := k.caller.Chat(t.Context(), elsewhere)
	require.Equal(t, 404, asError(t, err).Status)
	require.Empty(t, k.booked, "nothing was called")
	require.Empty(t, k.provider.requests())
}

// TestAgain: a call is retried after a transient error, and its usage is recorded once.
func TestAgain(t *testing.T) {
	var number atomic.Int32
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		if number.Add(1) < 3 {
			says(500, `{"error":{"message":"busy"}}`)(w, r)
			return
		}
		says(200, answer)(w, r)
	})
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	require.NoError(t, err)
	require.Equal(t, int32(3), number.Load())
	require.False(t, k.usage().Failed)
}

func TestRetryAfterTooLong(t *testing.T) {
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		says(429, `{"error":{"message":"slow"}}`)(w, r)
	})
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	require.Equal(t, "7s", asError(t, err).RetryAfter.String())
	require.Len(t, k.provider.requests(), 1)
}

// TestPlaces: calls above the concurrency limit are refused, and a finished call frees its place.
func TestPlaces(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		says(200, answer)(w, r)
	}, func(c *inference.Config) { c.MaxConcurrent = 1 })
	done := make(chan error, 1)
	first := k.call(hello)
	go func() {
		_, err := k.caller.Chat(context.Background(), first)
		done <- err
	}()
	<-entered
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	require.Equal(t, 503, asError(t, err).Status)
	_, err = k.stream(hello)
	require.Equal(t, 503, asError(t, err).Status)
	close(leave)
	require.NoError(t, <-done)
	go func() { <-entered }()
	_, err = k.caller.Chat(t.Context(), k.call(hello))
	require.NoError(t, err)
}

// TestUsageGuessed: when the provider reports no usage, it is estimated from the sizes, and the call has no price.
func TestUsageGuessed(t *testing.T) {
	k := newKit(t, says(200, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"four words are here"}}]}`))
	raw, err := k.caller.Chat(t.Context(), k.call(hello))
	require.NoError(t, err)
	usage := k.usage()
	require.Positive(t, usage.InputTokens)
	require.Positive(t, usage.OutputTokens)
	require.Positive(t, usage.CostNanoUSD)
	require.False(t, usage.Priced)
	var said struct {
		ID    string `json:"id"`
		Usage struct {
			Total int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal(raw, &said))
	require.Regexp(t, `^chatcmpl-[0-9a-f]{32}$`, said.ID)
	require.Equal(t, usage.InputTokens+usage.OutputTokens, said.Usage.Total)
}

// TestUsageDisbelieved: what no call can have consumed is not charged. The size is looked at, as if nothing had been said.
func TestUsageDisbelieved(t *testing.T) {
	silent := newKit(t, says(200, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"four words are here"}}]}`))
	_, err := silent.caller.Chat(t.Context(), silent.call(hello))
	require.NoError(t, err)
	for _, said := range []string{
		`"prompt_tokens":9000000000000000000,"completion_tokens":1`, `"prompt_tokens":9e18`, `"prompt_tokens":-5,"completion_tokens":1`,
		`"prompt_tokens":5,"completion_tokens":1e300`, `"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":-1}`,
		`"prompt_tokens":{},"completion_tokens":1`,
	} {
		k := newKit(t, says(200, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"four words are here"}}],"usage":{`+said+`}}`))
		_, err := k.caller.Chat(t.Context(), k.call(hello))
		require.NoError(t, err)
		require.Equal(t, silent.usage(), k.usage(), said)
	}
}

func TestTooLarge(t *testing.T) {
	k := newKit(t, says(200, answer), func(c *inference.Config) { c.MaxAnswerBytes = 100 })
	_, err := k.caller.Chat(t.Context(), k.call(hello))
	require.Equal(t, 502, asError(t, err).Status)
	require.Len(t, k.provider.requests(), 1)
}

// TestNoMemory: a large answer waits for memory as long as its call may take; that is no failure of the provider.
func TestNoMemory(t *testing.T) {
	said := strings.Repeat("x", 256<<10)
	var streams atomic.Bool
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) {
		if streams.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", said)
			return
		}
		says(200, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`+said+`"}}]}`)(w, r)
	}, func(c *inference.Config) {
		c.RequestTimeout, c.StreamTimeout, c.BreakerThreshold = 300*time.Millisecond, 300*time.Millisecond, 1
	})
	try := func() (whole, streamed error) {
		streams.Store(false)
		_, whole = k.caller.Chat(t.Context(), k.call(hello))
		streams.Store(true)
		_, streamed = k.stream(hello)
		return whole, streamed
	}
	var held []*stranger.Answer
	for range 2 { // the tenant's share, and the reserve
		_, answer := k.answers.Open(stranger.Of(t.Context(), "t"))
		defer answer.Close()
		require.NoError(t, answer.Take(1<<20))
		held = append(held, answer)
	}
	whole, streamed := try()
	for _, err := range []error{whole, streamed} {
		failed := asError(t, err)
		require.Equal(t, 503, failed.Status)
		require.Equal(t, stranger.ErrBusy.Error(), failed.Message)
	}
	for _, answer := range held {
		answer.Close()
	}
	require.Eventually(t, func() bool { // on a busy machine the time may not be enough at once
		whole, streamed = try()
		return whole == nil && streamed == nil
	}, 30*time.Second, time.Millisecond)
}

// TestLeftAlone: a provider that failed too often is not called for a while; a refused request does not count as its failure.
func TestLeftAlone(t *testing.T) {
	status := 400
	k := newKit(t, func(w http.ResponseWriter, r *http.Request) { says(status, `{"error":{"message":"no"}}`)(w, r) },
		func(c *inference.Config) { c.BreakerThreshold, c.MaxAttempts = 2, 1 })
	try := func(want int, code string) {
		t.Helper()
		_, err := k.caller.Chat(t.Context(), k.call(hello))
		failed := asError(t, err)
		require.Equal(t, want, failed.Status)
		require.Equal(t, code, failed.Code)
	}
	for range 5 {
		try(400, "invalid_request")
	}
	status = 500
	try(500, "provider_error")
	try(500, "provider_error")
	try(503, "provider_unavailable")
	require.Len(t, k.provider.requests(), 7)
	_, err := k.stream(hello)
	require.Equal(t, 500, asError(t, err).Status, "streams are watched by themselves")
}

// TestGuarded: an address that the guard refuses is not called, and does not count as a failure of the provider.
func TestGuarded(t *testing.T) {
	guard := deliver.NewGuard(deliver.GuardConfig{})
	defer guard.Close()
	k := newKit(t, says(200, answer))
	caller := inference.New(inference.DefaultConfig(), inference.Parts{Catalog: k.catalog, Client: guard.Client(0)})
	for range 10 {
		_, err := caller.Chat(t.Context(), k.call(hello))
		failed := asError(t, err)
		require.Equal(t, []any{400, "invalid_request", "model"}, []any{failed.Status, failed.Code, failed.Param})
		require.Contains(t, failed.Message, "does not go")
	}
	require.Empty(t, k.provider.requests())
}
