package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// provider is a service of models, each of which does what a test made it do. One serves all tests.
type provider struct {
	server *httptest.Server

	mu struct {
		sync.Mutex
		count  int
		models map[string]http.HandlerFunc // by the id that the provider knows
		asked  map[string][]providerRequest
	}
}

// providerRequest is a request as the provider got it.
type providerRequest struct {
	path   string
	header http.Header
	body   tree
}

// atProvider starts the provider, for whoever needs it first. It ends with the test process.
var atProvider = sync.OnceValue(func() *provider { // all tests of the package use it
	p := &provider{}
	p.mu.models, p.mu.asked = map[string]http.HandlerFunc{}, map[string][]providerRequest{}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	return p
})

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	var body map[string]any
	if err != nil || json.Unmarshal(raw, &body) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	name, _ := body["model"].(string)
	p.mu.Lock()
	answer := p.mu.models[name]
	p.mu.asked[name] = append(p.mu.asked[name], providerRequest{r.URL.Path, r.Header.Clone(), tree{nil, body}})
	p.mu.Unlock()
	if answer == nil {
		http.Error(w, `{"error":{"message":"there is no such model"}}`, http.StatusNotFound)
		return
	}
	answer(w, r.WithContext(context.WithValue(r.Context(), bodyKey{}, tree{nil, body})))
}

type bodyKey struct{}

// orders is the newest message of a request for chat.
func orders(r *http.Request) string {
	body, _ := r.Context().Value(bodyKey{}).(tree)
	messages, _ := body.at("messages").v.([]any)
	if len(messages) == 0 {
		return ""
	}
	text, _ := tree{nil, messages[len(messages)-1]}.at("content").v.(string)
	return text
}

// upstream is a model of the provider, with records that lead to it.
type upstream struct {
	p       *provider
	id, key string // as the provider, and as callers know it
	secret  string // that the provider is called with
}

// newModel makes a model that answers in some way, and records of it and of a provider of its own.
func newModel(t *testing.T, b apiCaller, category string, answer http.HandlerFunc) *upstream {
	t.Helper()
	p := atProvider()
	p.mu.Lock()
	p.mu.count++
	n := p.mu.count
	u := &upstream{p: p, id: fmt.Sprint("up-", n), key: fmt.Sprint("model-", n), secret: fmt.Sprint("sk-provider-secret-", n)}
	p.mu.models[u.id] = answer
	p.mu.Unlock()
	b.done(t, "POST", "/models/providers", object1{
		"key": "p-" + u.key, "driver": "openai", "settings": object1{"baseUrl": p.server.URL + "/v1"}, "credentials": object1{"apiKey": u.secret},
	})
	b.done(t, "POST", "/models", object1{
		"key": u.key, "name": "Model " + u.key, "providerKey": "p-" + u.key, "category": category, "modelId": u.id,
		"pricing": object1{"inputTokenPer1M": 1, "outputTokenPer1M": 2}, "settings": object1{},
	})
	return u
}

// asked is what the provider was asked of the model so far.
func (u *upstream) asked() []providerRequest {
	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	return u.p.mu.asked[u.id]
}

// says answers with a document.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // who has left does not read it
	}
}

// streams answers with frames.
func streams(chunks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range chunks {
			_, _ = io.WriteString(w, "data: "+chunk+"\n\n")
			_ = http.NewResponseController(w).Flush() // who has left does not read it
		}
	}
}

// Answers of a model that says Hello.
const (
	helloAnswer = `{"id":"chatcmpl-up","object":"chat.completion","created":5,"model":"up","choices":[{"index":0,"finish_reason":"stop",` +
		`"message":{"role":"assistant","content":"Hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
	helloFirst = `{"id":"c1","created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
	helloText  = `{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Hello"}}]}`
	helloEnd   = `{"id":"c1","created":5,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	helloUsage = `{"id":"c1","created":5,"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
)

// hello answers whole or in frames, as it is asked.
func hello(w http.ResponseWriter, r *http.Request) {
	if body, _ := r.Context().Value(bodyKey{}).(tree); body.at("stream").v == true {
		streams(helloFirst, helloText, helloEnd, helloUsage, "[DONE]")(w, r)
		return
	}
	says(200, helloAnswer)(w, r)
}

// chatBody asks a model for something.
func chatBody(model, text string) object1 {
	return object1{"model": model, "messages": []any{object1{"role": "user", "content": text}}}
}

// failed checks an error of the gateway: the whole body, word by word except for the message.
func (a answer) failed(status int, kind, code string, param any) string {
	a.t.Helper()
	require.Equalf(a.t, status, a.status, "%s: %s", a.what, a.text)
	body := decode(a.t, a.text)
	require.NoError(a.t, object(fields{"error": object(fields{
		"message": nonEmpty, "type": exactly(kind), "code": exactly(code), "param": exactly(param),
		"reason?": nonEmpty, "decisionId?": like(`^dec_[A-Za-z0-9_-]{21}-\d+$`), // of the permission engine
	})})(body.v), a.text)
	return body.text("error", "message")
}

// metric is a number of the process, 0 when it was not counted yet.
func (p *process) metric(t *testing.T, name string) float64 {
	t.Helper()
	_, text := p.try("GET", "http://"+p.ops+"/metrics", nil)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return value
}

// TestClientGatewayErrors is the table of document 3, 10.4, over real sockets.
func TestClientGatewayErrors(t *testing.T) {
	t.Parallel()
	h := house(t)
	// The model answers as the message says.
	u := newModel(t, h, "llm", func(w http.ResponseWriter, r *http.Request) {
		status, body, _ := strings.Cut(orders(r), " ")
		switch status {
		case "hang":
			panic(http.ErrAbortHandler)
		case "well":
			hello(w, r)
		default:
			number, _ := strconv.Atoi(status)
			says(number, body)(w, r)
		}
	})
	said := func(status int, message string) string {
		return fmt.Sprintf(`%d {"error":{"message":%q,"type":"some_type"}}`, status, message)
	}
	for _, c := range []struct {
		name, order string
		status      int
		kind, code  string
		param       any
	}{
		{"cut_before_an_answer", `200 {"choices":[{"index":0,"finish_reason":"length","message":{"role":"assistant","content":""}}]}`, 422, "output_token_limit_exceeded", "output_token_limit_exceeded", "max_completion_tokens"},
		{"context_length", said(400, "maximum context length is 8 tokens"), 400, "invalid_request_error", "context_length_exceeded", "messages"},
		{"content_policy", said(400, "violates our content policy"), 400, "invalid_request_error", "content_policy_violation", nil},
		{"credentials", said(401, "Incorrect API key provided: "+u.secret), 401, "authentication_error", "invalid_api_key", nil},
		{"forbidden", said(403, "no"), 403, "permission_error", "permission_denied", nil},
		{"quota", said(429, "You exceeded your current quota"), 429, "rate_limit_error", "insufficient_quota", nil},
		{"rate", said(429, "slow down"), 429, "rate_limit_error", "rate_limit_exceeded", nil},
		{"own_code", `429 {"error":{"message":"slow","code":"tokens_per_minute"}}`, 429, "rate_limit_error", "tokens_per_minute", nil},
		{"request_timeout", said(408, "late"), 408, "server_error", "provider_timeout", nil},
		{"gateway_timeout", said(504, "late"), 504, "server_error", "provider_timeout", nil},
		{"not_found", said(404, "what?"), 404, "not_found_error", "model_not_found", "model"},
		{"invalid", said(400, "bad"), 400, "invalid_request_error", "invalid_request", nil},
		{"conflict", said(409, "again"), 409, "conflict_error", "conflict", nil},
		{"unprocessable", said(422, "cannot"), 422, "unprocessable_entity_error", "unprocessable_entity", nil},
		{"server_error", said(500, "oops"), 500, "server_error", "provider_error", nil},
		{"unavailable", said(503, "busy"), 503, "server_error", "provider_error", nil},
		{"hung_up", "hang", 503, "server_error", "provider_unavailable", nil},
		{"rest", said(418, "teapot"), 500, "server_error", "inference_error", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				if stream && c.name == "cut_before_an_answer" {
					continue // is a document, no stream
				}
				body := chatBody(u.key, c.order)
				body["stream"] = stream
				message := h.trying(t, "POST", "/chat/completions", body).failed(c.status, c.kind, c.code, c.param)
				require.NotContains(t, message, u.secret)
				h.done(t, "POST", "/chat/completions", chatBody(u.key, "well")) // so that the breaker stays closed
			}
		})
	}
	t.Run("what_the_gateway_refuses_itself", func(t *testing.T) {
		before := len(u.asked())
		h.ask(t, "POST", "/chat/completions", `{`).failed(400, "invalid_request_error", "invalid_request", nil)
		h.ask(t, "POST", "/chat/completions", `{}`).failed(400, "invalid_request_error", "invalid_request", "model")
		h.ask(t, "POST", "/chat/completions", object1{"model": u.key}).failed(400, "invalid_request_error", "invalid_request", "messages")
		h.ask(t, "POST", "/chat/completions", chatBody("none", "hi")).failed(404, "not_found_error", "model_not_found", "model")
		h.ask(t, "POST", "/embeddings", object1{"model": u.key}).failed(400, "invalid_request_error", "invalid_request", "input")
		require.Equal(t, "Invalid API token", h.with("service_x").ask(t, "POST", "/chat/completions", `{}`).failed(401, "invalid_request_error", "invalid_api_key", nil))
		n := newTenant(t, h.p, "STARTER")
		_, b := n.user(t, "user", object1{"agents": "write"})
		denied := b.ask(t, "POST", "/chat/completions", chatBody("scripted", "hi"))
		require.Equal(t, "Forbidden: models requires write permission", denied.failed(403, "permission_error", "permission_denied", nil))
		said := decode(t, denied.text).at("error")
		require.Equal(t, "The token's scope does not include models:write", said.text("reason"))
		n.eventually(t, "/permissions/decisions/"+said.text("decisionId"))
		require.Len(t, u.asked(), before)
	})
}

// TestClientGatewayRelay: what a provider is asked, and what callers get of its answer.
func TestClientGatewayRelay(t *testing.T) {
	t.Parallel()
	h := house(t)
	u := newModel(t, h, "llm", hello)
	t.Run("whole", func(t *testing.T) {
		body := chatBody(u.key, "hi")
		for name, value := range (object1{"temperature": 0.5, "max_tokens": 7, "seed": 1, "unheard_of": true, "request_id": "mine"}) {
			body[name] = value
		}
		got := h.done(t, "POST", "/chat/completions", body)
		require.Equal(t, "Hello", got.at("choices").list()[0].text("message", "content"))
		require.Equal(t, []string{"chat.completion", u.key, "mine"}, []string{got.text("object"), got.text("model"), got.text("request_id")})
		require.InDelta(t, 15, got.number("usage", "total_tokens"), 0)
		asked := u.asked()
		last := asked[len(asked)-1]
		require.Equal(t, "Bearer "+u.secret, last.header.Get("Authorization"))
		require.Equal(t, "/v1/chat/completions", last.path)
		require.NoError(t, object(fields{
			"model": exactly(u.id), "messages": anything, "temperature": exactly(0.5), "max_tokens": exactly(7.0), "seed": exactly(1.0), "stream?": exactly(false),
		})(last.body.v), "neither unheard_of nor request_id: %v", last.body.v)
	})
	t.Run("request_id", func(t *testing.T) {
		require.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
			h.done(t, "POST", "/chat/completions", chatBody(u.key, "hi")).text("request_id"))
		a := h.ask(t, "POST", "/chat/completions", chatBody(u.key, "hi"), "X-Request-Id", "from-a-header")
		require.Equal(t, "from-a-header", a.header.Get("X-Request-Id"))
	})
	t.Run("usage_frame_only_on_request", func(t *testing.T) {
		for options, want := range map[string]int{"": 0, `,"stream_options":{"include_usage":false}`: 0, `,"stream_options":{"include_usage":true}`: 1} {
			body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"hi"}]%s}`, u.key, options)
			a := h.ask(t, "POST", "/chat/completions", body)
			require.Equal(t, 200, a.status, a.text)
			require.Equal(t, "text/event-stream", strings.Split(a.header.Get("Content-Type"), ";")[0])
			frames := framesOf(t, a.text)
			require.Equal(t, "[DONE]", frames[len(frames)-1])
			usages, ids, text := 0, map[string]bool{}, ""
			for i, frame := range frames[:len(frames)-1] {
				chunk := decode(t, frame)
				ids[chunk.text("id")] = true
				if choices := chunk.at("choices").list(); len(choices) == 0 {
					usages++
					require.Equal(t, len(frames)-2, i, "last before the end")
					require.InDelta(t, 15, chunk.number("usage", "total_tokens"), 0)
				} else if content, ok := choices[0].at("delta", "content").v.(string); ok {
					text += content
				}
			}
			require.Equal(t, want, usages, options)
			require.Len(t, ids, 1, "one id over all frames")
			require.Equal(t, "Hello", text)
			asked := u.asked()
			require.Equal(t, true, asked[len(asked)-1].body.at("stream_options", "include_usage").v, "always asked of the provider")
		}
	})
	t.Run("moderations", func(t *testing.T) {
		got := h.done(t, "POST", "/moderations", object1{"input": []string{"nice weather", "I will kill you"}})
		require.Regexp(t, "^modr_", got.text("id"))
		require.Equal(t, "default", got.text("model"))
		results := got.at("results").list()
		require.False(t, results[0].flag("flagged"))
		require.True(t, results[1].flag("categories", "violence"))
		categories, _ := results[0].at("categories").v.(map[string]any)
		require.Len(t, categories, 26)
		require.Len(t, results[0].at("category_scores").v, len(categories))
		h.ask(t, "POST", "/moderations", object1{}).failed(400, "invalid_request_error", "invalid_request", "input")
		judge := newModel(t, h, "moderation", says(200, `{"id":"modr-1","model":"up","results":[{"flagged":true,"categories":{},"category_scores":{}}]}`))
		require.True(t, h.done(t, "POST", "/moderations", object1{"input": "x", "model": judge.key}).at("results").list()[0].flag("flagged"))
		require.Len(t, judge.asked(), 1)
	})
	t.Run("embeddings", func(t *testing.T) {
		e := newModel(t, h, "embedding", says(200, `{"data":[{"index":0,"embedding":[0.5,-1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`))
		got := h.done(t, "POST", "/embeddings", object1{"model": e.key, "input": "hi"})
		require.Equal(t, []string{"list", e.key, "embedding"}, []string{got.text("object"), got.text("model"), got.at("data").list()[0].text("object")})
		require.InDelta(t, 3, got.number("usage", "prompt_tokens"), 0)
	})
	t.Run("a_foreign_model_is_no_model", func(t *testing.T) {
		other := newTenant(t, h.p, "ON_PREMISE")
		other.ask(t, "POST", "/chat/completions", chatBody(u.key, "hi")).failed(404, "not_found_error", "model_not_found", "model")
	})
	t.Run("a_change_of_the_record_counts_at_once", func(t *testing.T) {
		h.done(t, "PATCH", "/models/providers/p-"+u.key, object1{"credentials": object1{"apiKey": "sk-another"}})
		h.done(t, "POST", "/chat/completions", chatBody(u.key, "hi"))
		asked := u.asked()
		require.Equal(t, "Bearer sk-another", asked[len(asked)-1].header.Get("Authorization"))
		h.done(t, "PATCH", "/models/providers/p-"+u.key, object1{"status": "disabled"})
		h.ask(t, "POST", "/chat/completions", chatBody(u.key, "hi")).failed(404, "not_found_error", "model_not_found", "model")
	})
}

// framesOf is the data of the frames of a stream.
func framesOf(t *testing.T, text string) []string {
	t.Helper()
	var frames []string
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(block, "data: ")
		require.Truef(t, ok, "%q", block)
		frames = append(frames, data)
	}
	return frames
}

// TestClientGatewayLeft: when the caller of a stream leaves, the provider's call ends and counts as cancelled.
func TestClientGatewayLeft(t *testing.T) {
	t.Parallel()
	h := house(t)
	ended := make(chan struct{})
	u := newModel(t, h, "llm", func(w http.ResponseWriter, r *http.Request) {
		streams(helloFirst, helloText)(w, r)
		<-r.Context().Done()
		close(ended)
	})
	const cancelled = `parley_gateway_calls_total{outcome="cancelled",service="chat"}`
	before := h.p.metric(t, cancelled)
	body := chatBody(u.key, "hi")
	body["stream"] = true
	request := h.p.newRequest(t, "POST", h.url("/chat/completions"), body, []string{"Authorization", "Bearer " + h.token})
	ctx, leave := context.WithTimeout(t.Context(), time.Minute)
	defer leave()
	connections := &http.Transport{}
	defer connections.CloseIdleConnections()
	response, err := (&http.Client{Transport: connections}).Do(request.WithContext(ctx))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }() // it breaks off
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "Hello") {
	}
	require.NoError(t, lines.Err())
	leave()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the provider was not told")
	}
	require.Eventually(t, func() bool { return h.p.metric(t, cancelled) > before }, 30*time.Second, 10*time.Millisecond)
}

// TestClientGatewayBreaker: a provider that fails five times in a row is left alone for a while, and then tried again.
func TestClientGatewayBreaker(t *testing.T) {
	t.Parallel()
	h := house(t)
	var mu sync.Mutex
	works := false
	u := newModel(t, h, "llm", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if works {
			hello(w, r)
			return
		}
		says(500, `{"error":{"message":"oops"}}`)(w, r)
	})
	other := newModel(t, h, "llm", hello)
	for range 5 {
		h.trying(t, "POST", "/chat/completions", chatBody(u.key, "hi")).failed(500, "server_error", "provider_error", nil)
	}
	require.Len(t, u.asked(), 15, "three attempts each")
	// Open, unless this is so slow that one more call was let through, which closes the door behind it.
	require.Eventually(t, func() bool {
		before := len(u.asked())
		a := h.trying(t, "POST", "/chat/completions", chatBody(u.key, "hi"))
		if a.status != http.StatusServiceUnavailable {
			return false
		}
		require.Contains(t, a.failed(503, "server_error", "provider_unavailable", nil), "left alone")
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Len(t, u.asked(), before, "it does not reach the provider")
		return true
	}, 30*time.Second, time.Millisecond)
	h.done(t, "POST", "/chat/completions", chatBody(other.key, "hi"))
	mu.Lock()
	works = true
	mu.Unlock()
	require.Eventually(t, func() bool {
		return h.ask(t, "POST", "/chat/completions", chatBody(u.key, "hi")).status == http.StatusOK
	}, 30*time.Second, 20*time.Millisecond)
	require.Positive(t, h.p.metric(t, "parley_gateway_breaker_refusals_total{service=\"chat\"}"))
}
