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
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"parley/actors/turn/tool"
	"parley/proto/agentpb"
)

// mcpServer makes a server of the real thing. Its tools say what they were called with; the one that hangs does so until it
// is cancelled or the server is over.
func mcpServer(name string, over <-chan struct{}, hung *atomic.Int32) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	add := func(name string, handler mcp.ToolHandler) {
		server.AddTool(&mcp.Tool{
			Name: name, Description: "Does " + name + ".",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		}, handler)
	}
	text := func(text string) []mcp.Content { return []mcp.Content{&mcp.TextContent{Text: text}} }
	add("echo", func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: text(fmt.Sprintf("%s: %s key=%v",
			name, call.Params.Arguments, call.Params.Meta["parley/idempotency-key"]))}, nil
	})
	add("structured", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: map[string]any{"a": []int{1}}}, nil
	})
	add("both", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: text("it is 3"), StructuredContent: map[string]any{"it": 3}}, nil
	})
	add("kinds", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.ImageContent{MIMEType: "image/png", Data: []byte("1234")},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a", Text: "inside"}},
			&mcp.ResourceLink{URI: "file:///b", Name: "b"},
		}}, nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: text("no such thing"), IsError: true}, nil
	})
	add("refuse", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("refused outright")
	})
	add("hang", func(ctx context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = call.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "t"}) // the answer begins
		hung.Add(1)
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil, errors.New("hung")
	})
	add("exit", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	add("environment", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: text(strings.Join(os.Environ(), "\n"))}, nil
	})
	server.AddTool(&mcp.Tool{Name: "tool.with/odd name", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: text("odd")}, nil
		})
	return server
}

// served is an MCP server over HTTP that can lose its sessions and be out of order.
type served struct {
	*httptest.Server
	handler  atomic.Pointer[mcp.StreamableHTTPHandler]
	down     atomic.Bool
	requests atomic.Int32
	ended    atomic.Int32 // sessions that their client ended
	hung     atomic.Int32 // calls of the tool that hangs
	header   atomic.Pointer[http.Header]
	servers  []*mcp.Server
	over     chan struct{}
}

func serveMCP(t *testing.T) *served {
	t.Helper()
	made := &served{over: make(chan struct{})}
	made.forget()
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost: // the standing GET of a session comes when its client gets to it
			made.requests.Add(1)
		case http.MethodDelete:
			made.ended.Add(1)
		}
		header := r.Header.Clone()
		made.header.Store(&header)
		if made.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		made.handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(made.over)
		made.CloseClientConnections()
		made.Close()
		for _, server := range made.servers {
			for session := range server.Sessions() {
				_ = session.Close()
			}
		}
	})
	return made
}

// forget makes the server one that knows no session.
func (s *served) forget() {
	server := mcpServer("remote", s.over, &s.hung)
	s.servers = append(s.servers, server)
	s.handler.Store(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
}

func mcpAgent(specs ...*agentpb.MCP) *agentpb.Agent { return &agentpb.Agent{Id: "a", Servers: specs} }

func run(t *testing.T, set tool.Set, name, args string) (string, error) {
	t.Helper()
	return textOf(find(t, set, name).Run(t.Context(), tool.Call{ID: "c", IdempotencyKey: "r/1/0", Args: []byte(args)}))
}

// textOf is the text of a result.
func textOf(result tool.Result, err error) (string, error) { return result.Text, err }

func names(set tool.Set) []string {
	var list []string
	for _, definition := range set.Definitions() {
		list = append(list, definition.Name)
	}
	return list
}

func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{
		Name: "r", Url: server.URL, Headers: map[string]string{"X-Key": "k"},
		Policies: map[string]*agentpb.ToolPolicy{"echo": {Approval: "always", MaxResultBytes: 100}},
	}))
	require.Equal(t, []string{
		"r_both", "r_echo", "r_environment", "r_exit", "r_fail", "r_hang", "r_kinds", "r_refuse", "r_structured", "r_tool_with_odd_name",
	}, names(set))
	require.Equal(t, "k", server.header.Load().Get("X-Key"))
	require.Equal(t, "always", find(t, set, "r_echo").Policy.GetApproval())
	require.Equal(t, "Does echo.", find(t, set, "r_echo").Description)
	_, misfit := find(t, set, "r_echo").Judge(t.Context(), `{"text":1}`)
	require.ErrorContains(t, misfit, "do not fit")

	for _, row := range []struct{ name, args, want string }{
		{"r_echo", `{"text":"x"}`, `remote: {"text":"x"} key=r/1/0`},
		{"r_structured", `{}`, `{"a":[1]}`},
		{"r_both", `{}`, "it is 3\n{\"it\":3}"},
		{"r_kinds", `{}`, "(an image, image/png, 4 bytes)\ninside\n(a resource, b: file:///b)"},
		{"r_fail", `{}`, "error: no such thing"},
		{"r_refuse", `{}`, "error: the tool answered with an error: refused outright"},
		{"r_tool_with_odd_name", `{}`, "odd"},
	} {
		text, err := run(t, set, row.name, row.args)
		if message, failed := strings.CutPrefix(row.want, "error: "); failed {
			require.EqualError(t, err, message)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, row.want, text)
	}
	text, err := run(t, set, "r_echo", `{"text":"`+strings.Repeat("x", 200)+`"}`)
	require.NoError(t, err)
	require.Len(t, text, 100)
}

func TestMCPOfferedTools(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL, Tools: []string{"echo", "nothing"}}))
	require.Equal(t, []string{"r_echo"}, names(set))
}

// A session that the server forgot is replaced, and the call that found out is made again: it was not looked at.
func TestMCPSessionIsReplaced(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL}))
	for range 2 {
		text, err := run(t, set, "r_echo", `{}`)
		require.NoError(t, err)
		require.Contains(t, text, "remote")
		server.forget()
	}
}

// A call that runs is not made again when another one finds the session forgotten: it may have done its work.
func TestMCPRunningCallIsNotRepeated(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"server/discover"`)) { // the newer protocol has no sessions
			http.Error(w, "unknown", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL}))
	hang, failed := find(t, set, "r_hang"), make(chan error, 1)
	go func() {
		_, err := hang.Run(t.Context(), tool.Call{Args: []byte(`{}`)})
		failed <- err
	}()
	require.Eventually(t, func() bool { return server.hung.Load() == 1 }, 30*time.Second, time.Millisecond)
	server.forget()
	_, err := run(t, set, "r_echo", `{}`)
	require.NoError(t, err)
	require.Error(t, <-failed)
	require.EqualValues(t, 1, server.hung.Load())
}

func TestMCPOutOfReach(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	server.down.Store(true)
	config := local(t)
	config.RetryAfter = time.Millisecond
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL, Tools: []string{"echo"}})
	agent.Tools = []*agentpb.Tool{httpTool("other")}
	set, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	require.Equal(t, []string{"other"}, names(set))

	server.down.Store(false)
	require.Eventually(t, func() bool {
		set, err = box.Open(t.Context(), agent)
		return err == nil && len(set.Definitions()) == 2
	}, 30*time.Second, time.Millisecond)

	// What was listed once stays on offer; its calls fail.
	server.down.Store(true)
	again, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	require.Same(t, set, again)
	_, err = run(t, set, "r_echo", `{}`)
	require.EqualError(t, err, "the tool could not be reached, or broke off")
	server.down.Store(false)
	require.Eventually(t, func() bool {
		_, err = run(t, set, "r_echo", `{}`)
		return err == nil
	}, 30*time.Second, time.Millisecond)
}

// What the log is told of a server that is out of reach does not hold its URL, in which keys like to be.
func TestMCPSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	config := local(t)
	config.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	box, err := tool.New(config)
	require.NoError(t, err)
	_, err = box.Open(t.Context(), mcpAgent(&agentpb.MCP{Name: "r", Url: "http://127.0.0.1:1/path-key/mcp?key=query-key"}))
	require.NoError(t, err)
	box.Close()
	require.Contains(t, logged.String(), "out of reach")
	require.NotContains(t, logged.String(), "-key")
}

// Between two tries, turns do not wait.
func TestMCPPauseBetweenTries(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	server.down.Store(true)
	box, err := tool.New(local(t))
	require.NoError(t, err)
	t.Cleanup(box.Close)
	for range 5 {
		set, err := box.Open(t.Context(), mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL}))
		require.NoError(t, err)
		require.Empty(t, set.Definitions())
	}
	require.LessOrEqual(t, server.requests.Load(), int32(4)) // one try: two ways to begin, at most
}

func TestMCPSilentServer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(release) })
	begin := time.Now()
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: silent.URL, ConnectTimeoutMs: 50}))
	require.Empty(t, set.Definitions())
	require.Less(t, time.Since(begin), 30*time.Second)

	// A turn that is cancelled waits no longer.
	box, err := tool.New(local(t))
	require.NoError(t, err)
	t.Cleanup(box.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	begin = time.Now()
	_, err = box.Open(ctx, mcpAgent(&agentpb.MCP{Name: "r", Url: silent.URL, ConnectTimeoutMs: 60_000}))
	require.NoError(t, err)
	require.Less(t, time.Since(begin), 30*time.Second)
}

func TestMCPGuarded(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	set := open(t, tool.Config{}, mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL}))
	require.Empty(t, set.Definitions())
	require.Zero(t, server.requests.Load())
}

// Headers are for the configured host: a redirect does not carry them away.
func TestMCPHeadersStayHome(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(door.Close)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: door.URL, Headers: map[string]string{"Authorization": "secret"}}))
	_ = set
	require.NotZero(t, server.requests.Load())
	require.Empty(t, server.header.Load().Get("Authorization"))
}

func TestMCPTimeout(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	set := open(t, local(t), mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL, Policy: &agentpb.ToolPolicy{TimeoutMs: 50}}))
	_, err := run(t, set, "r_hang", `{}`)
	require.EqualError(t, err, "the tool did not answer and was given up after 50ms")
	require.Eventually(t, func() bool { // on a busy machine it may take longer too
		_, err = run(t, set, "r_echo", `{}`)
		return err == nil
	}, 30*time.Second, time.Millisecond)
}

// Close ends calls under way.
func TestMCPClose(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	box, err := tool.New(local(t))
	require.NoError(t, err)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL}, stdio("s"))
	set, err := box.Open(t.Context(), agent)
	require.NoError(t, err)
	ended := make(chan error, 2)
	for _, name := range []string{"r_hang", "s_hang"} {
		hang := find(t, set, name)
		go func() {
			_, failed := hang.Run(t.Context(), tool.Call{Args: []byte(`{}`)})
			ended <- failed
		}()
	}
	box.Close()
	box.Close()
	require.Error(t, <-ended)
	require.Error(t, <-ended)
	_, err = run(t, set, "r_echo", `{}`)
	require.Error(t, err)
	set, err = box.Open(t.Context(), mcpAgent(stdio("other")))
	require.NoError(t, err)
	require.Empty(t, set.Definitions())
}

func TestMCPIdleSessionEnds(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	config := local(t)
	config.IdleTimeout = 20 * time.Millisecond
	set := open(t, config, mcpAgent(&agentpb.MCP{Name: "r", Url: server.URL}))
	require.Eventually(t, func() bool { return server.ended.Load() > 0 }, 30*time.Second, time.Millisecond)
	_, err := run(t, set, "r_echo", `{}`)
	require.NoError(t, err)
}

// grows makes a server list another tool after each call.
func grows(server *mcp.Server) {
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, request)
			if method == "tools/call" {
				server.AddTool(&mcp.Tool{Name: "late", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			}
			return result, err
		}
	})
}

// TestMCPListChangedNewest: a server of the newest version says that its list has changed to whoever has asked for it.
func TestMCPListChangedNewest(t *testing.T) {
	t.Parallel()
	server := mcpServer("remote", nil, new(atomic.Int32))
	grows(server)
	over := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(over.Close)
	process := stdio("r")
	process.Env[growVariable] = "yes"
	for name, spec := range map[string]*agentpb.MCP{"http": {Name: "r", Url: over.URL}, "process": process} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := local(t)
			config.RetryAfter = time.Hour // a stream that is opened again says nothing of this one
			box, err := tool.New(config)
			require.NoError(t, err)
			t.Cleanup(box.Close)
			set, err := box.Open(t.Context(), mcpAgent(spec))
			require.NoError(t, err)
			require.NotContains(t, names(set), "r_late")
			require.Eventually(t, func() bool {
				_, err = run(t, set, "r_echo", `{}`)
				require.NoError(t, err)
				set, err = box.Open(t.Context(), mcpAgent(spec))
				return err == nil && slices.Contains(names(set), "r_late")
			}, 30*time.Second, 10*time.Millisecond)
		})
	}
}

// stdio is this test binary as a server.
func stdio(name string) *agentpb.MCP {
	return &agentpb.MCP{Name: name, Command: os.Args[0], Env: map[string]string{serveVariable: name}, ConnectTimeoutMs: 30_000}
}

func TestMCPProcess(t *testing.T) {
	t.Setenv("PARLEY_SECRET", "never leaves") // not parallel: it changes the environment
	config := local(t)
	config.RetryAfter = time.Millisecond
	set := open(t, config, mcpAgent(stdio("p")))
	text, err := run(t, set, "p_echo", `{"text":"x"}`)
	require.NoError(t, err)
	require.Equal(t, `p: {"text":"x"} key=r/1/0`, text)

	text, err = run(t, set, "p_environment", `{}`)
	require.NoError(t, err)
	require.Contains(t, text, "PATH=")
	require.NotContains(t, text, "PARLEY_SECRET")

	_, err = run(t, set, "p_exit", `{}`)
	require.EqualError(t, err, "the tool could not be reached, or broke off")
	require.Eventually(t, func() bool {
		_, err = run(t, set, "p_echo", `{}`)
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
}

func TestMCPNoSuchCommand(t *testing.T) {
	t.Parallel()
	set := open(t, tool.Config{}, mcpAgent(&agentpb.MCP{Name: "p", Command: "/no/such/program"}))
	require.Empty(t, set.Definitions())
}

// Agents that name the same server share its session; the last one that goes takes it along.
func TestMCPShared(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	box, err := tool.New(local(t))
	require.NoError(t, err)
	t.Cleanup(box.Close)
	one, two := mcpAgent(&agentpb.MCP{Name: "x", Url: server.URL}), mcpAgent(&agentpb.MCP{Name: "y", Url: server.URL})
	two.Id = "b"
	_, err = box.Open(t.Context(), one)
	require.NoError(t, err)
	before := server.requests.Load()
	set, err := box.Open(t.Context(), two)
	require.NoError(t, err)
	require.Contains(t, names(set), "y_echo")
	require.Equal(t, before, server.requests.Load())
}

// A server that answers nothing it does not know is reached by the older protocol.
func TestMCPOlderProtocol(t *testing.T) {
	t.Parallel()
	server := serveMCP(t)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"server/discover"`)) {
			select {
			case <-r.Context().Done():
			case <-server.over:
			}
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	config := local(t)
	config.RetryAfter = time.Millisecond
	box, err := tool.New(config)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	agent := mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL, Tools: []string{"echo"}, ConnectTimeoutMs: 500})
	require.Eventually(t, func() bool {
		set, err := box.Open(t.Context(), agent)
		return err == nil && len(set.Definitions()) == 1
	}, 30*time.Second, 10*time.Millisecond)
}

// fronted stands before a server and answers one method in its place.
func fronted(t *testing.T, server *served, method, kind string, answer func(params json.RawMessage) (result string)) *httptest.Server {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test's own
		var asked struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		_ = json.Unmarshal(body, &asked)
		if asked.Method != method {
			r.Body = io.NopCloser(bytes.NewReader(body))
			server.Config.Handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		before, after := `{"jsonrpc":"2.0","id":`+string(asked.ID)+`,"result":`, `}`
		if kind == "text/event-stream" {
			before, after = "event: message\ndata: "+before, after+"\n\n"
		}
		for _, piece := range []string{before, answer(asked.Params), after} { // not joined: they may be large
			_, _ = io.WriteString(w, piece)
		}
	}))
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	return front
}

// TestMCPCostlyAnswers: what fits into a message, and would take a decoder's stack or memory beyond all bounds, fails its call.
func TestMCPCostlyAnswers(t *testing.T) {
	const deep = 7 << 20
	for name, result := range map[string]string{
		"deep": strings.Repeat("[", deep) + strings.Repeat("]", deep),
		"many": `{"content":[],"structuredContent":[` + strings.Repeat("{},", 1<<20) + `{}]}`,
	} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				server := serveMCP(t)
				front := fronted(t, server, "tools/call", kind, func(json.RawMessage) string { return result })
				box, err := tool.New(local(t))
				require.NoError(t, err)
				t.Cleanup(box.Close)
				set, err := box.Open(t.Context(), mcpAgent(&agentpb.MCP{Name: "r", Url: front.URL, Tools: []string{"echo"}, ConnectTimeoutMs: 20_000}))
				require.NoError(t, err)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err = run(t, set, "r_echo", `{"text":"x"}`)
				runtime.ReadMemStats(&after)
				require.Error(t, err)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20), "of an answer of %d MiB", len(result)>>20)
			})
		}
	}
}
