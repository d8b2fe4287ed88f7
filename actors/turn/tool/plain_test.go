package tool_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/deliver"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// local is a configuration that may reach test servers.
func local(t *testing.T) tool.Config {
	t.Helper()
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}})
	t.Cleanup(guard.Close)
	return tool.Config{Guard: guard}
}

// heard is one request, as a tool server saw it.
type heard struct {
	line   string // method and URI
	header http.Header
	body   string
}

func listen(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *[]heard) {
	t.Helper()
	var requests []heard
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, heard{r.Method + " " + r.RequestURI, r.Header, string(body)})
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server, &requests
}

func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// call runs the agent's tool x.
func call(t *testing.T, spec *agentpb.HTTP, policy *agentpb.ToolPolicy, args string) (string, error) {
	t.Helper()
	set := open(t, local(t), &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "x", Http: spec, Policy: policy}}})
	return textOf(find(t, set, "x").Run(t.Context(), tool.Call{ID: "c1", IdempotencyKey: "run/1/0", Args: []byte(args)}))
}

func TestHTTPRequests(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ method, path, args, line, body string }{
		{"", "/do", `{"b":[1,{"c":null}],"a":"ü"}`, "POST /do", `{"a":"ü","b":[1,{"c":null}]}`},
		{"put", "/u/{id}", `{"id":"a/b c?","n":1.50}`, "PUT /u/a%2Fb%20c%3F", `{"n":1.50}`},
		{
			"GET", "/s?key=k", `{"key":"stolen","q":"a b&c","n":10,"on":true,"list":["x","y",1],"none":null,"o":{"p":1}}`,
			"GET /s?key=k&list=x&list=y&list=1&n=10&o=%7B%22p%22%3A1%7D&on=true&q=a+b%26c", "",
		},
		{"DELETE", "/u/{id}?v={v}", `{"id":7,"v":"1&x=2"}`, "DELETE /u/7?v=1%26x%3D2", ""},
		{"PATCH", "", `{}`, "PATCH /", `{}`},
	} {
		server, requests := listen(t, say(`{"ok":1}`))
		text, err := call(t, &agentpb.HTTP{Method: row.method, Url: server.URL + row.path, Headers: map[string]string{"X-Key": "k"}}, nil, row.args)
		require.NoError(t, err)
		require.JSONEq(t, `{"ok":1}`, text)
		got := (*requests)[0]
		require.Equal(t, row.line, got.line)
		require.Equal(t, row.body, got.body)
		require.Equal(t, "k", got.header.Get("X-Key"))
		require.Equal(t, "run/1/0", got.header.Get("Idempotency-Key"))
		if row.body != "" {
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
		}
	}
}

// What a model fills in never leaves its place in the URL.
func TestHTTPTraversal(t *testing.T) {
	t.Parallel()
	server, requests := listen(t, say(`{}`))
	for _, args := range []string{`{"id":".."}`, `{"id":"."}`, `{"id":""}`, `{}`, `{"id":null}`, `{"id":{}}`, `{"id":["a"]}`} {
		_, err := call(t, &agentpb.HTTP{Url: server.URL + "/users/{id}/delete"}, nil, args)
		require.ErrorContains(t, err, "argument id", args)
	}
	require.Empty(t, *requests)
	_, err := call(t, &agentpb.HTTP{Url: server.URL + "/users/{id}"}, nil, `{"id":"../../admin?x#y"}`)
	require.NoError(t, err)
	require.Equal(t, "POST /users/..%2F..%2Fadmin%3Fx%23y", (*requests)[0].line)
}

func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status     int
		kind, body string
		want       string
	}{
		{200, "application/json", `{"a":1}`, `{"a":1}`},
		{201, "text/plain; charset=utf-8", "hi", "hi"},
		{200, "application/problem+json", "{}", "{}"},
		{204, "", "", "(status 204, no content)"},
		{200, "image/png", "\x89PNG", `(status 200, content of type "image/png", which is not text)`},
		{200, "text/plain", "a\xffb", "a\uFFFDb"},
		{404, "application/json", `{"error":"no such user"}`, `error: the tool answered with status 404: {"error":"no such user"}`},
		{500, "text/html", strings.Repeat("x", 5000), "error: the tool answered with status 500: xxx"},
		{304, "", "", "error: the tool answered with status 304: (status 304, no content)"},
	} {
		server, _ := listen(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", row.kind)
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		})
		text, err := call(t, &agentpb.HTTP{Url: server.URL}, nil, `{}`)
		if message, failed := strings.CutPrefix(row.want, "error: "); failed {
			require.ErrorContains(t, err, message)
			require.Less(t, len(err.Error()), 2100)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.want, text)
	}
}

func TestHTTPResultIsCut(t *testing.T) {
	t.Parallel()
	server, _ := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for range 1000 {
			_, _ = io.WriteString(w, strings.Repeat("ü", 500))
		}
	})
	text, err := call(t, &agentpb.HTTP{Url: server.URL}, &agentpb.ToolPolicy{MaxResultBytes: 1001}, `{}`)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 1001)
	require.Contains(t, text, "\n[the result was cut here; it is longer than 1001 bytes]")
	require.NotContains(t, text, "\uFFFD")
	text, err = call(t, &agentpb.HTTP{Url: server.URL}, nil, `{}`)
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), 64<<10)
}

func TestHTTPFailures(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	server, _ := listen(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	_, err := call(t, &agentpb.HTTP{Url: server.URL + "/?key=secret"}, &agentpb.ToolPolicy{TimeoutMs: 30}, `{}`)
	require.EqualError(t, err, "the tool did not answer and was given up after 30ms")

	_, err = call(t, &agentpb.HTTP{Url: "http://127.0.0.1:1/?key=secret"}, nil, `{}`)
	require.EqualError(t, err, "the tool could not be reached, or broke off")

	set := open(t, tool.Config{}, &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "x", Http: &agentpb.HTTP{Url: server.URL}}}})
	_, err = find(t, set, "x").Run(t.Context(), tool.Call{Args: []byte(`{}`)})
	require.EqualError(t, err, "the tool's address is not allowed")
}

// A connection that breaks after the request was sent: only a tool that says it is idempotent hears it again.
func TestHTTPIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, idempotent := range []bool{false, true} {
		var served atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if served.Add(1) != 2 {
				_, _ = io.WriteString(w, "done")
				return
			}
			taken, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = taken.Close()
			}
		}))
		t.Cleanup(server.Close)
		set := open(t, local(t), &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{
			Name: "x", Http: &agentpb.HTTP{Url: server.URL}, Policy: &agentpb.ToolPolicy{Idempotent: idempotent},
		}}})
		run := func(key string) error {
			_, err := find(t, set, "x").Run(t.Context(), tool.Call{IdempotencyKey: key, Args: []byte(`{}`)})
			return err
		}
		require.NoError(t, run("1")) // leaves a connection to be used again
		if idempotent {
			require.NoError(t, run("2"))
			require.EqualValues(t, 3, served.Load())
		} else {
			require.Error(t, run("2"))
			require.EqualValues(t, 2, served.Load())
		}
	}
}

// A POST that is moved is not made as a GET.
func TestHTTPRedirects(t *testing.T) {
	t.Parallel()
	target, requests := listen(t, say(`{"from":"target"}`))
	for status, want := range map[int]string{
		http.StatusFound: "", http.StatusMovedPermanently: "",
		http.StatusSeeOther: "GET /", http.StatusTemporaryRedirect: "POST /", http.StatusPermanentRedirect: "POST /",
	} {
		*requests = nil
		front, _ := listen(t, http.RedirectHandler(target.URL, status).ServeHTTP)
		_, err := call(t, &agentpb.HTTP{Url: front.URL}, nil, `{"n":1}`)
		if want == "" {
			require.Error(t, err, status)
			require.Empty(t, *requests, status)
			continue
		}
		require.NoError(t, err, status)
		require.Equal(t, want, (*requests)[0].line)
	}
}

func TestCurrentTime(t *testing.T) {
	t.Parallel()
	set := open(t, tool.Config{}, &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "now", Builtin: tool.CurrentTime}}})
	text, err := textOf(find(t, set, "now").Run(t.Context(), tool.Call{Args: []byte(`{}`)}))
	require.NoError(t, err)
	require.Contains(t, text, `"timezone":"UTC"`)
	for _, zone := range []string{"Mars/Base", "../../etc/passwd", "Local"} {
		_, err = find(t, set, "now").Run(t.Context(), tool.Call{Args: []byte(`{"timezone":"` + zone + `"}`)})
		require.ErrorContains(t, err, "there is no time zone")
	}
}

// Whatever a model fills in, a request goes where the operator said: the host, the fixed parts of the path, the fixed
// parameters.
func TestHTTPTargetProperty(t *testing.T) {
	t.Parallel()
	server, requests := listen(t, say(`{}`))
	set := open(t, local(t), &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{
		{Name: "x", Http: &agentpb.HTTP{Method: "GET", Url: server.URL + "/v1/{a}/b/{c}/end?key=k&d={d}"}},
	}})
	x := find(t, set, "x")
	rapid.Check(t, func(r *rapid.T) {
		word := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("./%?#&=@:\\{}ac\r\n"))))
		args := map[string]string{"a": word.Draw(r, "a"), "c": word.Draw(r, "c"), "d": word.Draw(r, "d"), "e": word.Draw(r, "e")}
		raw, err := json.Marshal(args)
		require.NoError(t, err)
		*requests = nil
		if _, err = x.Run(t.Context(), tool.Call{Args: raw}); err != nil {
			require.Contains(t, []string{"", ".", ".."}, strings.TrimSpace(firstBad(args)), err)
			return
		}
		got, err := url.ParseRequestURI(strings.TrimPrefix((*requests)[0].line, "GET "))
		require.NoError(t, err)
		parts := strings.Split(got.EscapedPath(), "/")
		require.Len(t, parts, 6)
		require.Equal(t, []string{"", "v1", "b", "end"}, []string{parts[0], parts[1], parts[3], parts[5]})
		for index, name := range map[int]string{2: "a", 4: "c"} {
			said, err := url.PathUnescape(parts[index])
			require.NoError(t, err)
			require.Equal(t, args[name], said)
		}
		require.Equal(t, url.Values{"key": {"k"}, "d": {args["d"]}, "e": {args["e"]}}, got.Query())
	})
}

// firstBad is a value that cannot stand in a path.
func firstBad(args map[string]string) string {
	for _, name := range []string{"a", "c"} {
		if strings.Trim(args[name], ".") == "" && len(args[name]) < 3 {
			return args[name]
		}
	}
	return "none"
}
