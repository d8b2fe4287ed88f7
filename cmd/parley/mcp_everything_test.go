package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const everythingAgents = `
node: {name: everything}
log: {level: warn}
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: http
    model: {provider: openai, name: stand-in, base_url: "MODEL/v1", api_key: k, retries: 0}
    capabilities: {attachments: {enabled: true, accepts_images: true}}
    tool_sources: [{name: e, mcp_url: "http://SERVER/mcp"}]
  - id: stdio
    model: {provider: openai, name: stand-in, base_url: "MODEL/v1", api_key: k, retries: 0}
    capabilities: {attachments: {enabled: true, accepts_images: true}}
    tool_sources: [{name: e, mcp_command: NODE, mcp_args: [ENTRY, stdio, "MARK"], policy: {idempotent: true}}]
`

// TestMCPEverything: the reference server of MCP, unchanged, by both transports: every kind of result, and a restart while a turn
// is under way.
func TestMCPEverything(t *testing.T) {
	t.Parallel()
	node := nodeWith(t, "mcp", "@modelcontextprotocol/server-everything")
	entry, err := filepath.Abs("testdata/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	require.NoError(t, err)
	server := &referenceServer{node: node, entry: entry, address: freeAddress(t)}
	require.NoError(t, server.start())
	t.Cleanup(server.stop)
	asker := &toolAsker{}
	mind := httptest.NewServer(asker)
	t.Cleanup(mind.Close)
	mark := "of-" + server.address // tells its process from those of other tests
	p := shared.of(t, strings.NewReplacer("MODEL", mind.URL, "SERVER", server.address, "NODE", node, "ENTRY", entry, "MARK", mark).Replace(everythingAgents))

	for _, row := range []struct {
		agent   string
		restart func() error
	}{
		{"http", func() error {
			server.stop()
			return server.start()
		}},
		{"stdio", func() error { return killMarked(mark) }},
	} {
		t.Run(row.agent, func(t *testing.T) {
			id := p.newConversation(t, row.agent, "everything")
			for _, one := range []struct {
				call   wanted
				want   string // of the result, a regular expression
				images int
			}{
				{use("e_echo", map[string]any{"message": "12345678901234567890"}), `^Echo: 12345678901234567890$`, 0},
				{use("e_get-sum", map[string]any{"a": 2, "b": 0.5}), `^The sum of 2 and 0\.5 is 2\.5\.$`, 0},
				{use("e_get-tiny-image", nil), `(?s)^Here's the image you requested:\n\(an image, image/png, \d+ bytes\)\nThe image above is the MCP logo\.$`, 1},
				{use("e_get-annotated-message", map[string]any{"messageType": "error", "includeImage": true}), `^Error: Operation failed\n\(an image, image/png, \d+ bytes\)$`, 1},
				{use("e_get-structured-content", map[string]any{"location": "Chicago"}), `^\{"temperature":36,"conditions":"Light rain / drizzle","humidity":82\}$`, 0},
				{use("e_get-resource-links", map[string]any{"count": 2}), `(?s)\n\(a resource, .*: demo://resource/dynamic/.*, text/plain: .*\)\n?`, 0},
				{use("e_get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": 1}), `(?s)\nResource 1: This is a plaintext resource`, 0},
				{use("e_get-resource-reference", map[string]any{"resourceType": "Blob", "resourceId": 2}), `(?s)\nResource 2: This is a base64 blob`, 0},
				{use("e_get-resource-reference", map[string]any{"resourceType": "Text", "resourceId": -1}), `^error: Invalid resourceId: -1`, 0},
				{use("e_get-sum", map[string]any{"a": "x", "b": 1}), `^error: the arguments do not fit the tool's schema`, 0},
				{
					use("e_gzip-file-as-resource", map[string]any{"name": "a.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"}),
					`^\(a resource, demo://resource/session/a\.gz, application/gzip, \d+ bytes\)$`, 0,
				},
				{use("e_trigger-long-running-operation", map[string]any{"duration": 0.1, "steps": 2}), `^Long running operation completed\. Duration: 0\.1 seconds, Steps: 2\.$`, 0},
			} {
				asker.do(nil, one.call)
				said := p.say(t, id, "go on").text("response", "content")
				require.Regexp(t, one.want, said, one.call.Name)
				require.Equal(t, one.images, asker.images, one.call.Name)
			}
			require.NotContains(t, asker.offered, "e_simulate-research-query", "it runs as a task only")
			require.Contains(t, asker.offered, "e_toggle-simulated-logging")

			again := use("e_echo", map[string]any{"message": "after"})
			asker.do(row.restart, use("e_echo", map[string]any{"message": "before"}), again)
			require.Equal(t, "Echo: before | Echo: after", p.say(t, id, "go on").text("response", "content"))
			require.NoError(t, asker.failed)
		})
	}
}

// toolAsker is a model that asks for one tool after the other, and says what they came to.
type toolAsker struct {
	mu      sync.Mutex
	calls   []wanted
	between func() error // before the second call
	failed  error
	results []string
	images  int
	offered []string
	next    int
}

// do says what is asked for in the next turn.
func (a *toolAsker) do(between func() error, calls ...wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls, a.between, a.next = calls, between, 0
}

// ServeHTTP implements http.Handler: Chat Completions, streaming.
func (a *toolAsker) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var request struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct{ Name string } `json:"function"`
		} `json:"tools"`
	}
	if json.NewDecoder(in.Body).Decode(&request) != nil {
		http.Error(out, `{"error":{"message":"malformed"}}`, http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.results, a.images, a.offered = nil, 0, nil
	for _, message := range request.Messages {
		var text string
		_ = json.Unmarshal(message.Content, &text) // not one with images
		switch {
		case text == "go on":
			a.results, a.images = nil, 0
		case message.Role == "tool":
			a.results = append(a.results, text)
		}
		a.images += strings.Count(string(message.Content), "data:image/png;base64,")
	}
	for _, tool := range request.Tools {
		a.offered = append(a.offered, tool.Function.Name)
	}
	delta, finish := map[string]any{"content": strings.Join(a.results, " | ")}, "stop"
	if a.next < len(a.calls) {
		call := a.calls[a.next]
		if a.next == 1 {
			a.failed = a.between()
		}
		a.next++
		args, _ := json.Marshal(call.Args)
		delta, finish = map[string]any{"tool_calls": []any{map[string]any{
			"index": 0, "id": "call_" + strconv.Itoa(a.next), "type": "function", "function": map[string]string{"name": call.Name, "arguments": string(args)},
		}}}, "tool_calls"
	}
	out.Header().Set("Content-Type", "text/event-stream")
	chunk, _ := json.Marshal(map[string]any{
		"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stand-in",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
	})
	_, _ = fmt.Fprintf(out, "data: %s\n\ndata: [DONE]\n\n", chunk)
}

// referenceServer is the process of the reference server over HTTP.
type referenceServer struct {
	node, entry, address string
	command              *exec.Cmd
}

// start returns when the server listens.
func (e *referenceServer) start() error {
	_, port, err := net.SplitHostPort(e.address)
	if err != nil {
		return err
	}
	e.command = exec.Command(e.node, e.entry, "streamableHttp") //nolint:gosec,noctx // of this test, which ends it
	e.command.Env = append(os.Environ(), "PORT="+port)
	said, err := e.command.StderrPipe()
	if err == nil {
		err = e.command.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "listening on port") {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return nil
		}
	}
	return errors.New("the server does not listen")
}

func (e *referenceServer) stop() {
	_ = e.command.Process.Kill()
	_ = e.command.Wait() // it was killed
}

var parentLine = regexp.MustCompile(`(?m)^PPid:\s*(\d+)$`)

// killMarked kills the child of this process that has the mark among its arguments.
func killMarked(mark string) error {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range found {
		arguments, _ := os.ReadFile(path) // it may have ended
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		parent := parentLine.FindSubmatch(status)
		if !strings.Contains(string(arguments), mark) || parent == nil || string(parent[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return err
		}
		return syscall.Kill(id, syscall.SIGKILL)
	}
	return errors.New("no such process")
}
