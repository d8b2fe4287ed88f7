package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// workshop is what agents and operators have beside the server: a model that does what the newest message tells it to,
// tools over HTTP, an MCP server, and an application that answers hooks.
type workshop struct {
	server *httptest.Server
	dir    string // of the OpenAPI document

	mu struct {
		sync.Mutex
		asked []*modelRequest
		used  []toolRequest
		gates map[string]chan struct{}
		hooks map[string]func(question tree) (int, string)
		meets map[string]*meeting
	}
}

// openWorkshop starts a workshop for a test.
func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	w, err := workshopAnywhere()
	require.NoError(t, err)
	t.Cleanup(func() {
		w.server.CloseClientConnections() // whoever waits in a tool waits no more
		w.server.Close()
		require.NoError(t, os.RemoveAll(w.dir))
	})
	return w
}

// commonWorkshop is the one of the tests that share a node: they tell their requests apart by marks. It ends with the test process.
var commonWorkshop = sync.OnceValues(workshopAnywhere)

func workshopAnywhere() (*workshop, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return newWorkshop(listener)
}

// newWorkshop starts a workshop that is found at the address of the listener.
func newWorkshop(listener net.Listener) (*workshop, error) {
	w := &workshop{}
	w.forget()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", w.model)
	mux.HandleFunc("/tools/", w.tool)
	mux.HandleFunc("/shop/", w.tool)
	mux.HandleFunc("POST /hooks/{hook}", w.hook)
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return w.mcpServer() }, nil))
	w.server = serveAt(listener, mux)
	var err error
	if w.dir, err = os.MkdirTemp("", "parley-workshop-"); err != nil {
		return nil, err
	}
	return w, os.WriteFile(w.openAPI(), []byte(shopDocument), 0o600)
}

// serveAt starts a server on a listener.
func serveAt(listener net.Listener, handler http.Handler) *httptest.Server {
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	return server
}

// forget forgets what it was asked and told.
func (w *workshop) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.asked, w.mu.used = nil, nil
	w.mu.gates = map[string]chan struct{}{}
	w.mu.hooks = map[string]func(tree) (int, string){}
	w.mu.meets = map[string]*meeting{}
}

func (w *workshop) openAPI() string { return filepath.Join(w.dir, "shop.yaml") }

// shopDocument describes an API whose operations are tools.
const shopDocument = `
openapi: 3.0.3
info: {title: Shop, version: "1"}
servers: [{url: "https://shop.example"}]
paths:
  /items/{id}:
    get:
      operationId: getItem
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: detail, in: query, schema: {type: boolean}}
        - {name: X-Shop, in: header, schema: {type: string}}
      responses: {"200": {description: An item}}
  /orders:
    post:
      operationId: order
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [item], properties: {item: {type: string}, count: {type: integer, minimum: 1}}}
      responses: {"201": {description: Ordered}}
`

// part is what the model does in one of its calls.
type part struct {
	Text  string   `json:"text,omitempty"`  // said word by word
	Calls []wanted `json:"calls,omitempty"` // asked for
	Hold  string   `json:"hold,omitempty"`  // a gate before the end
	Die   bool     `json:"die,omitempty"`   // breaks off
	Usage []int64  `json:"usage,omitempty"` // input, output, cached
}

type wanted struct {
	Name string `json:"name"`
	Args any    `json:"args"`
}

func use(name string, args any) wanted {
	if args == nil {
		args = struct{}{}
	}
	return wanted{name, args}
}

// calls is a part that asks for tools.
func calls(all ...wanted) part { return part{Calls: all} }

// script is a message that tells the model what to do, one part for each of its calls. In a call beyond them it says
// what the tools came to.
func script(parts ...part) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// modelRequest is what the model was sent.
type modelRequest struct {
	Messages []struct {
		Role, Content string
		ToolCallID    string `json:"tool_call_id"`
		ToolCalls     []any  `json:"tool_calls"`
	} `json:"messages"`
	MaxTokens int `json:"max_tokens"`
	Tools     []struct {
		Function struct{ Name string }
	} `json:"tools"`
}

// part finds what this call is to do.
func (r *modelRequest) part() part {
	var parts []part
	var results []string
	step := 0
	for _, message := range r.Messages {
		switch message.Role {
		case "user":
			if strings.HasPrefix(message.Content, "[{") {
				parts, results, step = nil, nil, 0
				_ = json.Unmarshal([]byte(message.Content), &parts) // else it says that there were no results
			}
		case "tool":
			results = append(results, message.Content)
		case "assistant":
			if len(message.ToolCalls) > 0 {
				step++
			}
		}
	}
	if last := r.Messages[len(r.Messages)-1]; last.Role == "user" && !strings.HasPrefix(last.Content, "[{") {
		return part{Text: "and so on"}
	}
	if step < len(parts) {
		return parts[step]
	}
	return part{Text: strings.Join(results, " | ")}
}

// model speaks Chat Completions, streaming.
func (w *workshop) model(out http.ResponseWriter, in *http.Request) {
	var request modelRequest
	if err := json.NewDecoder(in.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(out, `{"error":{"message":"malformed"}}`, http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.mu.asked = append(w.mu.asked, &request)
	number := len(w.mu.asked)
	w.mu.Unlock()
	does := request.part()
	out.Header().Set("Content-Type", "text/event-stream")
	chunk := func(body string) {
		_, _ = fmt.Fprintf(out, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"stand-in\",%s}\n\n", body)
		_ = http.NewResponseController(out).Flush()
	}
	delta := func(body, finish string) {
		chunk(fmt.Sprintf(`"choices":[{"index":0,"delta":%s,"finish_reason":%s}]`, body, finish))
	}
	words := strings.SplitAfter(does.Text, " ")
	for _, word := range words {
		text, _ := json.Marshal(word)
		delta(`{"content":`+string(text)+`}`, "null")
	}
	if does.Hold != "" {
		select {
		case <-w.gate(does.Hold):
		case <-in.Context().Done():
			return
		}
	}
	if does.Die {
		panic(http.ErrAbortHandler)
	}
	for i, call := range does.Calls {
		args, _ := json.Marshal(call.Args)
		if text, raw := call.Args.(string); raw {
			args = []byte(text) // whatever it is
		}
		quoted, _ := json.Marshal(string(args))
		delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d_%d","type":"function","function":{"name":%q,"arguments":%s}}]}`,
			i, number, i, call.Name, quoted), "null")
	}
	finish := `"stop"`
	if len(does.Calls) > 0 {
		finish = `"tool_calls"`
	}
	delta(`{}`, finish)
	usage := does.Usage
	if len(usage) == 0 {
		usage = []int64{10, int64(len(words)), 0}
	}
	chunk(fmt.Sprintf(`"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		usage[0], usage[1], usage[0]+usage[1], usage[2]))
	_, _ = io.WriteString(out, "data: [DONE]\n\n")
}

// gate is what holds the model until it is opened.
func (w *workshop) gate(name string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.gates[name] == nil {
		w.mu.gates[name] = make(chan struct{})
	}
	return w.mu.gates[name]
}

// toolRequest is one use of a tool.
type toolRequest struct {
	name, method, query, body, key string
	header                         http.Header
}

// meeting is where a tool waits for others of its kind.
type meeting struct {
	left int
	all  chan struct{}
}

// tool is all tools over HTTP.
func (w *workshop) tool(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	name := strings.TrimPrefix(in.URL.Path, "/tools/")
	w.mu.Lock()
	w.mu.used = append(w.mu.used, toolRequest{name, in.Method, in.URL.RawQuery, string(body), in.Header.Get("Idempotency-Key"), in.Header})
	w.mu.Unlock()
	var args struct {
		A, B, Count int
		Together    string
	}
	_ = json.Unmarshal(body, &args) // tools that need them have a schema
	switch name {
	case "add":
		_, _ = fmt.Fprintf(out, `{"sum":%d}`, args.A+args.B)
	case "fails":
		http.Error(out, "the database is on fire", http.StatusInternalServerError)
	case "slow":
		<-in.Context().Done()
	case "wide":
		_, _ = io.WriteString(out, strings.Repeat("wide ", 1000))
	case "away":
		http.Redirect(out, in, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	case "meet":
		w.meet(in.Context(), args.Together, args.Count)
		_, _ = io.WriteString(out, "met")
	default:
		_, _ = fmt.Fprintf(out, "done %s", name)
	}
}

// meet waits until so many are there.
func (w *workshop) meet(ctx context.Context, together string, count int) {
	w.mu.Lock()
	m := w.mu.meets[together]
	if m == nil {
		m = &meeting{count, make(chan struct{})}
		w.mu.meets[together] = m
	}
	if m.left--; m.left == 0 {
		close(m.all)
	}
	w.mu.Unlock()
	select {
	case <-m.all:
	case <-ctx.Done():
	}
}

// uses are the uses of a tool whose path or body holds a mark.
func (w *workshop) uses(name, mark string) []toolRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []toolRequest
	for _, used := range w.mu.used {
		if strings.HasPrefix(used.name, name) && strings.Contains(used.name+used.query+used.body, mark) {
			found = append(found, used)
		}
	}
	return found
}

// lastAsked is the last request to the model that holds a mark in one of its messages.
func (w *workshop) lastAsked(mark string) *modelRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.mu.asked) - 1; i >= 0; i-- {
		for _, message := range w.mu.asked[i].Messages {
			if strings.Contains(message.Content, mark) {
				return w.mu.asked[i]
			}
		}
	}
	return nil
}

// mcpServer has a tool that answers and one that fails.
func (w *workshop) mcpServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "box", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)
	server.AddTool(&mcp.Tool{Name: "echo", Description: "Says it again.", InputSchema: schema},
		func(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			key, _ := call.Params.Meta["parley/idempotency-key"].(string)
			w.mu.Lock()
			w.mu.used = append(w.mu.used, toolRequest{name: "mcp:echo", body: string(call.Params.Arguments), key: key})
			w.mu.Unlock()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "echo " + string(call.Params.Arguments)}}}, nil
		})
	server.AddTool(&mcp.Tool{Name: "break", Description: "Fails.", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "it broke"}}}, nil
		})
	return server
}

// onHook has the application answer the questions of a hook.
func (w *workshop) onHook(name string, answer func(question tree) (int, string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.hooks[name] = answer
}

func (w *workshop) hook(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	var question any
	if json.Unmarshal(body, &question) != nil || !hookSigned(in.Header.Get("X-Service-Signature"), body) {
		http.Error(out, "not signed, or malformed", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	answer := w.mu.hooks[in.PathValue("hook")]
	w.mu.Unlock()
	status, text := http.StatusOK, `{"allowed":true}`
	if answer != nil {
		status, text = answer(tree{v: question})
	}
	if status == 0 { // no answer at all
		<-in.Context().Done()
		return
	}
	out.WriteHeader(status)
	_, _ = io.WriteString(out, text)
}

// hookSecret signs the questions of hooks.
const hookSecret = "hook-secret"

// hookSigned says whether a signature, t=SECONDS,v1=HEX, is that of a body, made now.
func hookSigned(signature string, body []byte) bool {
	stamp, sum, found := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if !found || err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = mac.Write(append([]byte(stamp+"."), body...)) // never fails
	return hex.EncodeToString(mac.Sum(nil)) == sum
}
