package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/actors/provider"
	"parley/proto/agentpb"
)

// homeGuard lets test servers be reached.
func homeGuard(tb testing.TB) *deliver.Guard {
	tb.Helper()
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
	}})
	tb.Cleanup(guard.Close)
	return guard
}

// posted is one request, as a connected agent saw it.
type posted struct {
	method, path string
	header       http.Header
	body         string
}

// agentServer is an agent that runs elsewhere.
func agentServer(tb testing.TB, answer http.HandlerFunc) (*httptest.Server, *[]posted) {
	tb.Helper()
	var requests []posted
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, posted{r.Method, r.URL.RequestURI(), r.Header, string(body)})
		answer(w, r)
	}))
	tb.Cleanup(server.Close)
	return server, &requests
}

func replies(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

func connectedRequest(connection *agentpb.Connection, said ...Message) *Request {
	if said == nil {
		said = []Message{{Role: User, Content: "hello"}}
	}
	return &Request{
		Agent: &agentpb.Agent{Id: "far", Model: &agentpb.Model{Provider: agentpb.Provider_CONNECTED, Connection: connection}},
		RunID: "run1", Messages: said,
	}
}

func askConnected(tb testing.TB, config Config, request *Request) (*Answer, *heard, error) {
	tb.Helper()
	if config.Guard == nil {
		config.Guard = homeGuard(tb)
	}
	listener := &heard{}
	answer, err := adapterOf(tb, agentpb.Provider_CONNECTED, config).Generate(tb.Context(), request, listener)
	listener.requireKept(tb, answer)
	return answer, listener, err
}

// What is posted, and where (document 3, 7.11).
func TestConnectedRequests(t *testing.T) {
	one := []Message{{Role: User, Content: "Hi"}}
	three := []Message{
		{Role: User, Content: "Hi"},
		{Role: Assistant, Content: "Hello."},
		{Role: Assistant, ToolCalls: []ToolCall{{ID: "c", Name: "t", Arguments: "{}"}}},
		{Role: ToolRole, ToolID: "c", Content: "r"},
		{Role: User, Content: "And now?"},
	}
	picture := []Message{{Role: User, Content: "What?", Images: []Image{{MIME: "image/png", Data: []byte("abc")}}}}
	wordless := []Message{{Role: User, Images: picture[0].Images}}
	for _, row := range []struct {
		protocol, url, path string
		said                []Message
		body                string
	}{
		{"openai-chat", "", "/chat/completions", wordless, `{"model":"m","messages":[{"role":"user","content":[
			{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}]}]}`},
		{"openai-responses", "", "/responses", wordless, `{"model":"m","input":[{"role":"user","content":[
			{"type":"input_image","image_url":"data:image/png;base64,YWJj"}]}]}`},
		{"a2a", "/", "/", wordless, `{"jsonrpc":"2.0","id":"req-1","method":"message/send","params":{"message":{"role":"user",
			"messageId":"msg-1","parts":[{"kind":"file","file":{"mimeType":"image/png","bytes":"YWJj"}}]}}}`},
		{"openai-chat", "/v1", "/v1/chat/completions", one, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`},
		{"openai-chat", "/v1/", "/v1/chat/completions", three, `{"model":"m","messages":[{"role":"user","content":"Hi"},
			{"role":"assistant","content":"Hello."},{"role":"user","content":"And now?"}]}`},
		{"openai-chat", "/v1/chat/completions", "/v1/chat/completions", one, ""},
		{"openai-chat", "/v1/chat/completions/?version=1", "/v1/chat/completions?version=1", one, ""},
		{"openai-chat", "", "/chat/completions", picture, `{"model":"m","messages":[{"role":"user","content":[
			{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}]}]}`},
		{"openai-responses", "/v1?k=v", "/v1/responses?k=v", one, `{"model":"m","input":[{"role":"user","content":"Hi"}]}`},
		{"openai-responses", "/v1/responses", "/v1/responses", three, `{"model":"m","input":[{"role":"user","content":"Hi"},
			{"role":"assistant","content":"Hello."},{"role":"user","content":"And now?"}]}`},
		{"openai-responses", "", "/responses", picture, `{"model":"m","input":[{"role":"user","content":[
			{"type":"input_text","text":"What?"},{"type":"input_image","image_url":"data:image/png;base64,YWJj"}]}]}`},
		{"a2a", "/a2a/x/?y=z", "/a2a/x/?y=z", one, `{"jsonrpc":"2.0","id":"req-1","method":"message/send","params":{"message":
			{"role":"user","messageId":"msg-1","parts":[{"kind":"text","text":"Hi"}]}}}`},
		{"a2a", "/", "/", three, `{"jsonrpc":"2.0","id":"req-3","method":"message/send","params":{"message":
			{"role":"user","messageId":"msg-3","parts":[{"kind":"text","text":"User: Hi\nAssistant: Hello.\nUser: And now?"}]}}}`},
		{"a2a", "/", "/", picture, `{"jsonrpc":"2.0","id":"req-1","method":"message/send","params":{"message":{"role":"user",
			"messageId":"msg-1","parts":[{"kind":"text","text":"What?"},{"kind":"file","file":{"mimeType":"image/png","bytes":"YWJj"}}]}}}`},
	} {
		server, requests := agentServer(t, replies(`{"here":"ok"}`))
		answer, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{
			Protocol: row.protocol, Url: server.URL + row.url, Model: "m", ResponsePath: "here",
		}, row.said...))
		require.NoError(t, err)
		require.Equal(t, "ok", answer.Text)
		require.Len(t, *requests, 1)
		got := (*requests)[0]
		require.Equal(t, "POST "+row.path, got.method+" "+got.path)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		if row.body != "" {
			require.JSONEq(t, row.body, got.body)
		}
	}
}

// TestConnectedA2AVersions: an agent that knows the methods of 1.0 only is asked by them; one that refuses for another reason is not
// asked again.
func TestConnectedA2AVersions(t *testing.T) {
	unknown := `{"jsonrpc":"2.0","id":"req-1","error":{"code":-32601,"message":"Method not found"}}`
	version := strings.Replace(unknown, "-32601", `"-32009"`, 1)
	for _, row := range []struct{ first, second, text string }{
		{version, `{"result":{"message":{"role":"ROLE_AGENT","parts":[{"text":"hello"}]}}}`, "hello"},
		{unknown, `{"result":{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"text":"a"},{"data":{}},{"text":"b"}]}]}}}`, "a\nb"},
		{unknown, `{"result":{"message":{"role":"ROLE_AGENT","parts":[{"text":"hello"}]}}}`, "hello"},
		{unknown, `{"result":{"task":{"status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"Which?"}]}}}}}`, "Which?"},
		{unknown, unknown, ""},
		{`{"error":{"code":-32603,"message":"Internal error"}}`, "", ""},
	} {
		var calls atomic.Int32
		server, requests := agentServer(t, func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				if row.first == version { // as the protocol has it over HTTP
					w.WriteHeader(http.StatusBadRequest)
				}
				replies(row.first)(w, r)
				return
			}
			replies(row.second)(w, r)
		})
		answer, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: server.URL, ApiKey: testKey}, Message{Role: User, Content: "Hi"}))
		if row.second == "" {
			require.Len(t, *requests, 1)
		} else {
			require.Len(t, *requests, 2)
			again := (*requests)[1]
			require.JSONEq(t, `{"jsonrpc":"2.0","id":"req-1","method":"SendMessage","params":{"message":
				{"role":"ROLE_USER","messageId":"msg-1","parts":[{"text":"Hi"}]}}}`, again.body)
			require.Equal(t, "1.0", again.header.Get("A2A-Version"))
			require.Equal(t, "Bearer "+testKey, again.header.Get("Authorization"))
		}
		if row.text == "" {
			require.ErrorContains(t, err, "A2A error: ")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.text, answer.Text)
	}
}

// TestConnectedVersionIsRemembered: the refusal of a version is waited for once, and the agent may change its mind.
func TestConnectedVersionIsRemembered(t *testing.T) {
	var knows atomic.Value // the version
	server, requests := agentServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A2A-Version") == knows.Load() {
			replies(`{"result":{"parts":[{"text":"hello"}]}}`)(w, r)
			return
		}
		replies(`{"error":{"code":-32601,"message":"Method not found"}}`)(w, r)
	})
	agent := adapterOf(t, agentpb.Provider_CONNECTED, Config{Guard: homeGuard(t)})
	for _, row := range []struct {
		knows string
		asked []string
	}{
		{"1.0", []string{"", "1.0"}},
		{"1.0", []string{"1.0"}},
		{"neither", []string{"1.0", ""}},
		{"1.0", []string{"1.0"}},
		{"", []string{"1.0", ""}},
		{"", []string{""}},
	} {
		knows.Store(row.knows)
		*requests = nil
		answer, err := agent.Generate(t.Context(), connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: server.URL}), &heard{})
		var asked []string
		for _, one := range *requests {
			asked = append(asked, one.header.Get("A2A-Version"))
		}
		require.Equal(t, row.asked, asked)
		if row.knows == "neither" {
			require.Equal(t, "A2A error: Method not found", requireError(t, err, CodeProviderError).Message)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "hello", answer.Text)
	}
}

// Where the text of a reply is found (document 3, 7.11).
func TestConnectedReplies(t *testing.T) {
	const missing = "(no text)"
	for _, row := range []struct{ protocol, path, reply, text string }{
		{"openai-chat", "", `{"choices":[{"message":{"content":"plain \ud83c\udf0d"}}]}`, "plain \U0001F30D"},
		{"openai-chat", "", `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"image"},{"text":"b"}]}}]}`, "ab"},
		{"openai-chat", "", `{"choices":[{"message":{"content":""}}]}`, ""},
		{"openai-chat", "", `{"choices":[{"message":{"content":null}}]}`, missing},
		{"openai-responses", "", `{"output_text":"whole","output":[{"content":[{"text":"part"}]}]}`, "whole"},
		{"openai-responses", "", `{"output":[{"type":"reasoning","content":[{"text":"hm"}]},{"type":"message","content":[{"text":"a"},{"text":"b"}]},
			{"content":[{"text":"c"}]}]}`, "abc"},
		{"openai-responses", "", `{"output_text":"","output":[]}`, ""},
		{"openai-responses", "", `{"output":[{"content":"odd"}]}`, "odd"},
		{"a2a", "", `{"result":{"kind":"message","parts":[{"kind":"text","text":"a"},{"kind":"data","data":{}},{"text":"b"}]}}`, "a\nb"},
		{"a2a", "", `{"result":{"artifacts":[{"parts":[{"kind":"text","text":"a"}]},{"parts":[{"kind":"text","text":"b"},
			{"kind":"file","text":"no"}]}],"status":{"message":{"parts":[{"text":"later"}]}}}}`, "a\nb"},
		{"a2a", "", `{"result":{"parts":[],"artifacts":[],"status":{"state":"input-required","message":{"parts":[{"kind":"text","text":"Which?"}]}}}}`, "Which?"},
		{"a2a", "", `{"result":{"parts":[{"kind":"text","text":""}]}}`, ""},
		{"a2a", "", `{"result":{"status":{"state":"completed"}}}`, missing},
		{"a2a", "", `{}`, missing},
		{"a2a", "result.parts[1].text", `{"result":{"parts":[{"text":"a"},{"text":"b"}]}}`, "b"},
		{"openai-chat", "data.0.reply", `{"data":[{"reply":"deep"}]}`, "deep"},
		{"openai-chat", "[0][1]", `[["a","b"]]`, "b"},
		{"openai-chat", "a.b", `{"a":{"b":12345678901234567890.50}}`, "12345678901234567890.50"},
		{"openai-chat", "a", `{"a":true}`, "true"},
		{"openai-chat", "a", `{"a":{"x":[1]}}`, `{"x":[1]}`},
		{"openai-chat", "a", `{"a":[{"text":"1"},{"text":"2"}]}`, "12"},
		{"openai-chat", "a", `{"a":["1","2"]}`, `["1","2"]`},
		{"openai-chat", "a[3]", `{"a":[1]}`, missing},
		{"openai-chat", "a.9", `{"a":[1]}`, missing},
		{"openai-chat", "a.b", `{"choices":[{"message":{"content":"not this one"}}]}`, missing},
	} {
		server, _ := agentServer(t, replies(row.reply))
		answer, listener, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{
			Protocol: row.protocol, Url: server.URL, Model: "m", ResponsePath: row.path,
		}))
		if row.text == missing {
			failure := requireError(t, err, CodeProviderError)
			require.Contains(t, failure.Message, "has no text", row.reply)
			continue
		}
		require.NoError(t, err, row.reply)
		require.Equal(t, row.text, answer.Text, row.reply)
		require.LessOrEqual(t, len(listener.pieces), 1)
		require.Equal(t, StopEnd, answer.Stop)
	}
}

func TestConnectedPaths(t *testing.T) {
	for _, path := range []string{".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[1", "a[1]b", "a]", "[99999999999]", "a[0].", "a.[0]"} {
		steps, err := parsePath(path)
		if path == "a]" { // a name like another
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "%q gives %v", path, steps)
	}
	steps, err := parsePath("a.b-c[0][12].d")
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b-c", 0, 12, "d"}, steps)
	_, _, err = askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: "http://127.0.0.1:1", ResponsePath: "a["}))
	require.Error(t, err)
}

func TestConnectedUsage(t *testing.T) {
	for reply, want := range map[string]Answer{
		`{"choices":[{"message":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":11,"completion_tokens":7,
			"prompt_tokens_details":{"cached_tokens":5}}}`: {Usage: Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 5, Known: true}, Stop: StopLength},
		`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"input_tokens":3,"output_tokens":2,
			"input_tokens_details":{"cached_tokens":9}}}`: {Usage: Usage{InputTokens: 3, OutputTokens: 2, CachedInputTokens: 3, Known: true}, Stop: StopEnd},
		`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3}}`:                          {Usage: Usage{InputTokens: 3}, Stop: StopEnd},
		`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":"3"}}`:                        {Usage: Usage{InputTokens: 3}, Stop: StopEnd},
		`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":-3,"completion_tokens":1}}`:   {Usage: Usage{Disbelieved: true}, Stop: StopEnd},
		`{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":9e18,"completion_tokens":1}}`: {Usage: Usage{Disbelieved: true}, Stop: StopEnd},
		`{"choices":[{"message":{"content":null},"finish_reason":"content_filter"}]}`:                    {Stop: StopFilter},
	} {
		server, _ := agentServer(t, replies(reply))
		answer, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "openai-chat", Url: server.URL, Model: "m"}))
		require.NoError(t, err, reply)
		require.Equal(t, want.Usage, answer.Usage, reply)
		require.Equal(t, want.Stop, answer.Stop, reply)
	}
}

// Own fields, then the credential unless one of them is that, then the turn's, which win.
func TestConnectedHeaders(t *testing.T) {
	for _, row := range []struct {
		own     map[string]string
		key     string
		runtime http.Header
		want    map[string]string
	}{
		{map[string]string{"X-A": "1"}, "k1", nil, map[string]string{"X-A": "1", "Authorization": "Bearer k1"}},
		{map[string]string{"authorization": "Basic x"}, "k1", nil, map[string]string{"Authorization": "Basic x"}},
		{
			map[string]string{"x-a": "1", "X-B": "2"},
			"k1",
			http.Header{"X-A": {"9"}, "Authorization": {"Bearer own"}},
			map[string]string{"X-A": "9", "X-B": "2", "Authorization": "Bearer own"},
		},
		{map[string]string{"Content-Type": "text/plain", "User-Agent": "me"}, "", nil, map[string]string{
			"Content-Type": "application/json", "User-Agent": "me", "Authorization": "",
		}},
	} {
		server, requests := agentServer(t, replies(`{"output_text":"ok"}`))
		request := connectedRequest(&agentpb.Connection{
			Protocol: "openai-responses", Url: server.URL, Model: "m", Headers: row.own, ApiKey: row.key,
		})
		request.Header = row.runtime
		_, _, err := askConnected(t, Config{}, request)
		require.NoError(t, err)
		for name, value := range row.want {
			require.Equal(t, value, (*requests)[0].header.Get(name), name)
		}
	}
	for _, connection := range []*agentpb.Connection{
		{Headers: map[string]string{"X-A": "a\r\nX-B: " + testKey}}, {Headers: map[string]string{"X A": testKey}}, {ApiKey: testKey + "\n"},
	} {
		connection.Protocol, connection.Url = "a2a", "http://127.0.0.1:1"
		_, _, err := askConnected(t, Config{}, connectedRequest(connection))
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		requireNoSecret(t, failure)
	}
}

func TestConnectedErrors(t *testing.T) {
	const runtimeSecret = "runtime-value-4711"
	long := strings.Repeat("ä", 600)
	for _, row := range []struct {
		status          int
		reply           string
		code, says      string
		retryable, a2ao bool
	}{
		{status: 500, reply: "oops", code: CodeProviderError, says: "External agent returned 500: oops", retryable: true},
		{status: 503, reply: "", code: CodeOverloaded, says: "External agent returned 503: ", retryable: true},
		{status: 429, reply: `{"error":"slow"}`, code: CodeRateLimited, says: `External agent returned 429: {"error":"slow"}`, retryable: true},
		{status: 401, reply: "bad key " + testKey, code: CodeAuthentication, says: "External agent returned 401: bad key [redacted]"},
		{status: 403, reply: "no", code: CodeAuthentication, says: "External agent returned 403: no"},
		{status: 404, reply: "gone", code: CodeInvalidRequest, says: "External agent returned 404: gone"},
		{status: 408, reply: "late", code: CodeProviderTimeout, says: "External agent returned 408: late", retryable: true},
		{status: 400, reply: long, code: CodeInvalidRequest, says: "External agent returned 400: " + strings.Repeat("ä", 500)},
		{status: 304, reply: "", code: CodeProviderError, says: "External agent returned 304: "},
		{
			status: 400, reply: "you sent " + runtimeSecret + " and " + testKey + " to https://userpart:passpart@host/x?key=querypart",
			code: CodeInvalidRequest, says: "External agent returned 400: you sent [redacted] and [redacted] to https://host/x",
		},
		{status: 200, reply: "<html>", code: CodeProviderError, says: "cannot be understood"},
		{status: 200, reply: `{"choices":`, code: CodeCut, says: "is not whole", retryable: true},
		{status: 200, reply: `{"error":{"code":-32000,"message":"no ` + testKey + `"}}`, code: CodeProviderError, says: "A2A error: no [redacted]", a2ao: true},
		{status: 200, reply: `{"error":{"code":-32000}}`, code: CodeProviderError, says: "A2A error: ", a2ao: true},
		{status: 200, reply: `{"a":"` + strings.Repeat("x", maxReply) + `"}`, code: CodeProviderError, says: "too long"},
	} {
		for _, protocol := range []string{"a2a", "openai-chat", "openai-responses"} {
			if row.a2ao && protocol != "a2a" {
				continue
			}
			var log bytes.Buffer
			server, requests := agentServer(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.reply)
			})
			request := connectedRequest(&agentpb.Connection{
				Protocol: protocol, Url: server.URL + "?key=querypart", Model: "m", ApiKey: testKey,
			})
			request.Header = http.Header{"X-Who": {"Token " + runtimeSecret}}
			answer, _, err := askConnected(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, request)
			failure := requireError(t, err, row.code)
			require.Contains(t, failure.Message, row.says)
			if row.status >= 300 {
				require.Equal(t, row.says, failure.Message)
			}
			require.Equal(t, row.retryable, failure.Retryable, row.says)
			require.Len(t, *requests, 1, "nothing is asked again")
			require.Empty(t, answer.Text)
			for _, shown := range []string{log.String(), failure.Message, failure.Error(), errText(failure.Err)} {
				require.NotContains(t, shown, runtimeSecret)
				require.NotContains(t, shown, testKey)
			}
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// An answer that is longer than a record may be fails, rather than that it is cut.
func TestConnectedLongAnswer(t *testing.T) {
	server, _ := agentServer(t, replies(`{"output_text":"`+strings.Repeat("x", 2000)+`"}`))
	_, _, err := askConnected(t, Config{MaxAnswerBytes: 1000}, connectedRequest(&agentpb.Connection{Protocol: "openai-responses", Url: server.URL}))
	require.Contains(t, requireError(t, err, CodeProviderError).Message, "too large")
}

func TestConnectedRefusedRequests(t *testing.T) {
	for _, row := range []struct{ protocol, url, says string }{
		{"grpc", "https://agent.example", "Unsupported connected agent protocol: grpc"},
		{"", "https://agent.example", "Unsupported connected agent protocol: "},
		{"a2a", "ftp://agent.example", "not a usable http or https URL"},
		{"openai-chat", "https://userpart:passpart@agent.example", "not a usable http or https URL"},
		{"a2a", "", "not a usable http or https URL"},
	} {
		_, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: row.protocol, Url: row.url}))
		require.Contains(t, requireError(t, err, CodeInvalidRequest).Message, row.says)
	}
	_, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: "https://agent.example"}, Message{Role: User, Content: " "}))
	_ = requireError(t, err, CodeInvalidRequest)
}

// Private addresses are refused when they are connected to, by name, by address, and behind a redirect.
func TestConnectedPrivateAddresses(t *testing.T) {
	server, requests := agentServer(t, replies(`{}`))
	port := server.Listener.Addr().String()[strings.LastIndex(server.Listener.Addr().String(), ":"):]
	closed := deliver.NewGuard(deliver.GuardConfig{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"} {
		_, _, err := askConnected(t, Config{Guard: closed}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: "http://" + host + port}))
		var failure *Error
		require.ErrorAs(t, err, &failure)
		if failure.Code == CodeInvalidRequest {
			require.Equal(t, "Refusing outbound request to private/loopback host: "+strings.Trim(host, "[]"), failure.Message)
		} else { // a name that resolves to nothing here
			require.Equal(t, "2130706433", host)
		}
	}
	require.Empty(t, *requests)

	// A guard that allows the first host only.
	front, _ := agentServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
	})
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	t.Cleanup(guard.Close)
	_, _, err := askConnected(t, Config{Guard: guard}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: front.URL}))
	require.Equal(t, "Refusing outbound request to private/loopback host: 127.0.0.2", requireError(t, err, CodeInvalidRequest).Message)
}

// A redirect repeats the POST, but for 303; another host is sent no credential of any kind.
func TestConnectedRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, strange := range []bool{false, true} {
			last, requests := agentServer(t, replies(`{"output_text":"there"}`))
			target := last.URL + "/end"
			first, _ := agentServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/end" {
					*requests = append(*requests, posted{method: r.Method, header: r.Header})
					replies(`{"output_text":"there"}`)(w, r)
					return
				}
				http.Redirect(w, r, target, status)
			})
			if !strange {
				target = "/end"
			}
			request := connectedRequest(&agentpb.Connection{
				Protocol: "openai-responses", Url: first.URL, Model: "m", ApiKey: testKey, Headers: map[string]string{"X-Own": "own"},
			})
			request.Header = http.Header{"X-Turn": {"turn"}}
			answer, _, err := askConnected(t, Config{}, request)
			require.NoError(t, err)
			require.Equal(t, "there", answer.Text)
			require.Len(t, *requests, 1)
			got := (*requests)[0]
			wantMethod := http.MethodPost
			if status == http.StatusSeeOther {
				wantMethod = http.MethodGet
				require.Empty(t, got.body)
			} else if strange {
				require.JSONEq(t, `{"model":"m","input":[{"role":"user","content":"hello"}]}`, got.body)
			}
			require.Equal(t, wantMethod, got.method)
			for name, value := range map[string]string{"Authorization": "Bearer " + testKey, "X-Own": "own", "X-Turn": "turn"} {
				if strange {
					value = ""
				}
				require.Equal(t, value, got.header.Get(name), "%d %s", status, name)
			}
		}
	}
	loop, requests := agentServer(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/again", http.StatusFound) })
	_, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: loop.URL}))
	require.Contains(t, requireError(t, err, CodeProviderError).Message, "redirect")
	require.Len(t, *requests, 6)
	for _, location := range []string{"ftp://host/", "http://userpart:passpart@127.0.0.1/", "http://[", "https://127.0.0.1:1/"} {
		server, _ := agentServer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		})
		_, _, err = askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: server.URL}))
		_ = requireError(t, err, CodeProviderError)
	}
}

// A turn that is stopped ends its call at once; one that takes too long ends by itself.
func TestConnectedCancelAndTimeout(t *testing.T) {
	asked, over := make(chan struct{}, 2), make(chan struct{})
	server, _ := agentServer(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	defer close(over)
	stopped := errors.New("stopped by hand")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(stopped)
	}()
	agent := adapterOf(t, agentpb.Provider_CONNECTED, Config{Guard: homeGuard(t)})
	require.True(t, agent.NeedsHistory())
	request := connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: server.URL})
	_, err := agent.Generate(ctx, request, &heard{})
	require.ErrorIs(t, err, stopped)

	request.Agent.Model.TotalTimeoutMs = 50
	_, err = agent.Generate(t.Context(), request, &heard{})
	failure := requireError(t, err, CodeProviderTimeout)
	require.True(t, failure.Retryable)
	require.Equal(t, 2*time.Minute, connectedTime)
}

func TestConnectedBrokenConnections(t *testing.T) {
	for _, row := range []struct {
		head, code string
	}{
		{"", CodeCut},
		{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"out", CodeCut},
		{"garbage\r\n\r\n", CodeProviderError},
	} {
		server, _ := agentServer(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, row.head)
			_ = conn.Close()
		})
		_, _, err := askConnected(t, Config{}, connectedRequest(&agentpb.Connection{Protocol: "a2a", Url: server.URL}))
		failure := requireError(t, err, row.code)
		require.True(t, failure.Retryable)
	}
}

// The models that tenants have chosen go through the guard, the operator's own do not.
func TestGuardedModels(t *testing.T) {
	for _, w := range wires() {
		t.Run(w.name, func(t *testing.T) {
			var packed atomic.Value
			server, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
				packed.Store(request.Header.Get("Accept-Encoding"))
				stream(response, w.start, w.text("hello"), w.end)
			})
			closed := deliver.NewGuard(deliver.GuardConfig{})
			request := w.request(server)
			_, _, err := w.ask(t, Config{Guard: closed}, request)
			require.NoError(t, err)

			request = w.request(server)
			request.Agent.Model.Guarded = true
			_, _, err = w.ask(t, Config{Guard: closed}, request)
			require.Contains(t, requireError(t, err, CodeInvalidRequest).Message, "Refusing outbound request to private/loopback host: 127.0.0.1")

			answer, _, err := w.ask(t, Config{Guard: homeGuard(t)}, request)
			require.NoError(t, err)
			require.Equal(t, "hello", answer.Text)
			require.Equal(t, "identity", packed.Load())

			moved, _ := w.serve(t, func(_ int, response http.ResponseWriter, request *http.Request) {
				http.Redirect(response, request, server.URL, http.StatusTemporaryRedirect)
			})
			request = w.request(moved)
			request.Agent.Model.Guarded = true
			_, _, err = w.ask(t, Config{Guard: homeGuard(t)}, request)
			require.Contains(t, requireError(t, err, CodeProviderError).Message, "redirect")
		})
	}
}

// Whatever a connected agent replies, the call ends with an answer or an error, and with nothing that is not valid.
func FuzzConnectedReply(f *testing.F) {
	f.Add("a2a", "", []byte(`{"result":{"parts":[{"text":"a"}]}}`))
	f.Add("openai-chat", "a[0].b", []byte(`{"a":[{"b":"c"}]}`))
	f.Add("openai-responses", "", []byte(`{"output":[{"content":[{"text":1}]}],"usage":{"input_tokens":1e400}}`))
	f.Fuzz(func(t *testing.T, protocol, path string, document []byte) {
		if _, known := protocols[protocol]; !known {
			return
		}
		out := &recorder{stream: &heard{}, limit: 1 << 20}
		err := readReply(document, &agentpb.Connection{Protocol: protocol, ResponsePath: path}, protocols[protocol], provider.Redactor{}, out)
		if err != nil {
			require.NotEmpty(t, newCaller(DefaultConfig()).worded(err, &call{}).Message)
			return
		}
		require.NotEmpty(t, out.stop)
	})
}
