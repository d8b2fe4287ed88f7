package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"parley/actors/turn/runtimecontext"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// turnSecret is a value of a runtime context that no error and no log record may repeat.
const turnSecret = "turn-secret-0815"

func given(t *testing.T, text string) *runtimecontext.Context {
	t.Helper()
	made, err := runtimecontext.New(nil, []byte(text), runtimecontext.Stamp{UserID: "ada", TokenID: "tok_1", Source: "api"})
	require.NoError(t, err)
	return made
}

// echo answers with header fields that it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, shown(r.Header))
}

func shown(header http.Header) string {
	var said []string
	for _, name := range []string{"Authorization", "X-Tenant", "X-Own", "Cookie", "Idempotency-Key"} {
		if values := header.Values(name); len(values) > 0 {
			said = append(said, name+"="+strings.Join(values, "|"))
		}
	}
	return strings.Join(said, " ")
}

var passing = &agentpb.RuntimeHeaders{Allow: true}

// HTTP tools are sent what their own policy lets pass, over their configured fields, and never an idempotency key or a
// cookie of a caller's making.
func TestRuntimeHeadersOfHTTP(t *testing.T) {
	t.Parallel()
	const text = `{"headers":{"X-Tenant":"acme","Cookie":"c","Idempotency-Key":"forged"},
		"connections":{"tool:x":{"headers":{"Authorization":"Bearer ` + turnSecret + `"}},"mcp:x":{"headers":{"X-Own":"no"}}}}`
	for _, row := range []struct {
		policy *agentpb.RuntimeHeaders
		given  string
		want   string
	}{
		{nil, text, "Authorization=Bearer own X-Own=own Idempotency-Key=k"},
		{&agentpb.RuntimeHeaders{AllowedNames: []string{"X-Tenant"}}, text, "Authorization=Bearer own X-Own=own Idempotency-Key=k"},
		{passing, text, "Authorization=Bearer " + turnSecret + " X-Tenant=acme X-Own=own Idempotency-Key=k"},
		{&agentpb.RuntimeHeaders{Allow: true, AllowedNames: []string{"x-tenant"}}, text, "Authorization=Bearer own X-Tenant=acme X-Own=own Idempotency-Key=k"},
		{passing, "", "Authorization=Bearer own X-Own=own Idempotency-Key=k"},
	} {
		server, _ := listen(t, echo)
		set := open(t, local(t), &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "x", Http: &agentpb.HTTP{
			Url: server.URL, Headers: map[string]string{"Authorization": "Bearer own", "X-Own": "own"}, RuntimeHeaders: row.policy,
		}}}})
		for _, idempotent := range []bool{true, false} {
			one := find(t, set, "x")
			one.Policy.Idempotent = idempotent
			said, err := textOf(one.Run(t.Context(), tool.Call{IdempotencyKey: "k", Args: []byte(`{}`), Context: given(t, row.given)}))
			require.NoError(t, err)
			require.Equal(t, row.want, said)
		}
	}
}

// The operations of a document are one target: tool:<name of the document>.
func TestRuntimeHeadersOfOperations(t *testing.T) {
	t.Parallel()
	server, _ := listen(t, echo)
	document := `{"openapi":"3.0.3","info":{"title":"x","version":"1"},"paths":{"/x":{"get":{"operationId":"get","responses":{"200":{"description":"ok"}}}}}}`
	for _, policy := range []*agentpb.RuntimeHeaders{nil, passing} {
		set := open(t, local(t), &agentpb.Agent{Id: "a", Apis: []*agentpb.OpenAPI{{
			Name: "api", Document: []byte(document), BaseUrl: server.URL, RuntimeHeaders: policy,
		}}})
		said, err := textOf(find(t, set, "api_get").Run(t.Context(), tool.Call{
			Args: []byte(`{}`), Context: given(t, `{"connections":{"tool:api":{"headers":{"X-Tenant":"acme"}}}}`),
		}))
		require.NoError(t, err)
		if policy == nil {
			require.Empty(t, strings.TrimPrefix(said, "(status 200, no content)"))
			continue
		}
		require.Equal(t, "X-Tenant=acme", said)
	}
}

// Another host behind a redirect is sent nothing of a caller's.
func TestRuntimeHeadersAndRedirects(t *testing.T) {
	t.Parallel()
	last, _ := listen(t, echo)
	first, _ := listen(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, last.URL, http.StatusTemporaryRedirect)
	})
	set := open(t, local(t), &agentpb.Agent{Id: "a", Tools: []*agentpb.Tool{{Name: "x", Http: &agentpb.HTTP{Url: first.URL, RuntimeHeaders: passing}}}})
	said, err := textOf(find(t, set, "x").Run(t.Context(), tool.Call{
		Args: []byte(`{}`), Context: given(t, `{"headers":{"Authorization":"Bearer `+turnSecret+`","X-Tenant":"acme"}}`),
	}))
	require.NoError(t, err)
	require.NotContains(t, said, turnSecret)
	require.NotContains(t, said, "acme")
}

// echoMCP is an MCP server whose tool tells the header fields of its call, and the metadata.
func echoMCP(t *testing.T) (url string, sessions func() int) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	add := func(name string, handler mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, handler)
	}
	add("headers", func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		meta, err := json.Marshal(call.Params.Meta["parley/runtime-context"])
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: shown(call.Extra.Header) + " " + string(meta)}}}, err
	})
	add("fail", func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "bad " + shown(call.Extra.Header)}}}, nil
	})
	add("refuse", func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("bad " + shown(call.Extra.Header))
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var mu sync.Mutex
	var outside []string // fields of requests that are no calls
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("tools/call")) && shown(r.Header) != "" {
			mu.Lock()
			outside = append(outside, shown(r.Header))
			mu.Unlock()
		}
		if bytes.Contains(body, []byte(`"crash"`)) {
			http.Error(w, "bad "+shown(r.Header), http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, said := range outside {
			require.Equal(t, "X-Own=own", said, "only a call carries what is a caller's")
		}
	})
	t.Cleanup(func() {
		outer.CloseClientConnections()
		outer.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return outer.URL, func() int {
		count := 0
		for range server.Sessions() {
			count++
		}
		return count
	}
}

// The session of an MCP server is shared, and what is a caller's own goes with the call alone.
func TestRuntimeHeadersOfMCP(t *testing.T) {
	t.Parallel()
	url, sessions := echoMCP(t)
	spec := func(name string, policy *agentpb.RuntimeHeaders) *agentpb.MCP {
		return &agentpb.MCP{Name: name, Url: url, Headers: map[string]string{"X-Own": "own"}, RuntimeHeaders: policy}
	}
	set := open(t, local(t), mcpAgent(spec("free", passing), spec("shut", nil),
		spec("some", &agentpb.RuntimeHeaders{Allow: true, AllowedNames: []string{"X-TENANT"}})))
	ask := func(name, user string) string {
		said, err := textOf(find(t, set, name).Run(t.Context(), tool.Call{IdempotencyKey: "k", Args: []byte(`{}`), Context: given(t, fmt.Sprintf(
			`{"headers":{"X-Tenant":%q,"Mcp-Session-Id":"stolen","Mcp-Protocol-Version":"0","Accept":"none","Cookie":"c"},
			"connections":{"mcp:free":{"headers":{"Authorization":"Bearer %s"}}},"metadata":{"case":7}}`, user, user))}))
		require.NoError(t, err)
		return said
	}
	const meta = `{"metadata":{"case":7},"source":"api","tokenId":"tok_1","userId":"ada"}`
	var group sync.WaitGroup
	for number := range 20 {
		group.Go(func() {
			user := fmt.Sprint("user", number)
			require.Equal(t, "Authorization=Bearer "+user+" X-Tenant="+user+" X-Own=own "+meta, ask("free_headers", user))
			require.Equal(t, "X-Own=own null", ask("shut_headers", user))
			require.Equal(t, "X-Tenant="+user+" X-Own=own "+meta, ask("some_headers", user))
		})
	}
	group.Wait()
	require.Equal(t, 1, sessions())
}

// Whatever a tool answers, no error and no record of the log repeats what it was sent in confidence.
func TestRuntimeHeadersInErrors(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := local(t)
	config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	server, _ := listen(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad "+shown(r.Header), http.StatusBadRequest)
	})
	url, _ := echoMCP(t)
	own := map[string]string{"X-Own": "configured-secret-1"}
	agent := mcpAgent(&agentpb.MCP{Name: "m", Url: url, RuntimeHeaders: passing})
	agent.Tools = []*agentpb.Tool{
		{Name: "x", Http: &agentpb.HTTP{Url: server.URL, Headers: own, RuntimeHeaders: passing}},
		{Name: "gone", Http: &agentpb.HTTP{Url: "http://127.0.0.1:1", Headers: own, RuntimeHeaders: passing}},
	}
	set := open(t, config, agent)
	for name, says := range map[string]string{
		"x": "the tool answered with status 400: bad Authorization=[redacted] X-Tenant=eu X-Own=[redacted]", "gone": "could not be reached",
		"m_fail": "bad Authorization=[redacted] X-Tenant=eu", "m_refuse": "bad Authorization=[redacted] X-Tenant=eu",
	} {
		_, err := find(t, set, name).Run(t.Context(), tool.Call{
			Args: []byte(`{}`), Context: given(t, `{"headers":{"Authorization":"Bearer `+turnSecret+`","X-Tenant":"eu"}}`),
		})
		require.ErrorContains(t, err, says, name)
		require.NotContains(t, err.Error(), turnSecret)
	}
	_, err := find(t, set, "m_headers").Run(t.Context(), tool.Call{
		Args: []byte(`{"a":"crash"}`), Context: given(t, `{"headers":{"Authorization":"Bearer `+turnSecret+`"}}`),
	})
	require.Error(t, err)
	require.NotContains(t, err.Error(), turnSecret)
	require.NotContains(t, log.String(), turnSecret)
	require.NotContains(t, log.String(), "configured-secret-1")
}
