package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// builtBinary is the command under test, built once for all tests of the package.
var builtBinary = sync.OnceValues(func() (string, error) { // built once, by whoever needs it first
	return built("parley", func(binary string) ([]byte, error) {
		return exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".").CombinedOutput()
	})
})

// testAgents are scripted agents with paces that tests need.
const testAgents = `
agents:
  - id: slow
    model: {provider: scripted, script: {tokens: 40, token_interval: 50ms}}
  - id: quick
    model: {provider: scripted, script: {tokens: 5}}
  - id: broken
    model: {provider: scripted, script: {steps: [{error_code: server_error, error_message: "the model broke", error_after_tokens: 2}]}}
`

// patientCancel has a cancel wait longer for the end of its turn than the two seconds of the default: a machine that is
// busy with other tests is no reason to answer that the end is still to come.
const patientCancel = "--conversation-cancel-wait=20s"

// process is a real parley process on loopback.
type process struct {
	t       *testing.T
	dir     string
	listen  string
	ops     string
	config  string
	base    string    // path of the API; empty = the default
	binary  string    // empty = built from this source
	files   int       // that it may open; 0 = as many as this process
	greets  io.Writer // takes what it says to people; nil = nobody
	command *exec.Cmd
	log     *processLog
	exited  chan error
}

// handedOut is the addresses that some process of these tests was given, so that no two of them get the same one
// between the moment it is found free and the moment it is bound.
var handedOut sync.Map // all tests of the package draw from it

// processLog takes what a running process says while a test reads it.
type processLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *processLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String is all that was said so far.
func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// keptLog keeps the log of a process in GATE_LOGS, where that is set, and returns its last lines: a failed run shall fit a screen.
func keptLog(name, text string) string {
	const shown = 40
	where := ""
	if dir := os.Getenv("GATE_LOGS"); dir != "" {
		file, err := os.CreateTemp(dir, strings.ReplaceAll(name, "/", "_")+"-*.log")
		if err == nil {
			_, err = file.WriteString(text)
			err = errors.Join(err, file.Close())
			where = file.Name()
		}
		if err != nil {
			where = err.Error()
		}
	}
	lines := strings.SplitAfter(text, "\n")
	return where + "\n" + strings.Join(lines[max(0, len(lines)-shown):], "")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		require.NoError(t, listener.Close())
		if _, taken := handedOut.LoadOrStore(address, true); !taken {
			return address
		}
	}
}

// newProcess prepares a process with a data directory of its own; config is the text of its configuration file.
func newProcess(t *testing.T, config string) *process {
	t.Helper()
	p := &process{t: t, dir: filepath.Join(t.TempDir(), "data"), listen: freeAddress(t), ops: freeAddress(t)}
	p.config = filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(p.config, []byte(config), 0o600))
	t.Cleanup(func() {
		if p.command != nil {
			p.kill()
		}
		if t.Failed() && p.log != nil {
			t.Logf("log of the last process: %s", keptLog(t.Name(), p.log.String()))
		}
	})
	return p
}

// start runs the process and waits until it is ready. An address that somebody on the machine has taken since it was
// found free is given up for another.
func (p *process) start() {
	p.t.Helper()
	const attempts = 3
	for range attempts {
		p.launch()
		err := p.awaitReady()
		if err == nil {
			return
		}
		if !strings.Contains(p.log.String(), syscall.EADDRINUSE.Error()) {
			require.Failf(p.t, "process ended", "%v: %s", err, keptLog(p.t.Name(), p.log.String()))
		}
		p.listen, p.ops = freeAddress(p.t), freeAddress(p.t)
	}
	require.Fail(p.t, "no free address")
}

func (p *process) launch() {
	p.t.Helper()
	binary := p.binary
	if binary == "" {
		var err error
		binary, err = builtBinary()
		require.NoError(p.t, err)
	}
	p.log = &processLog{}
	line := []string{binary, "serve", "--config", p.config, "--data-dir", p.dir, "--listen", p.listen, "--ops-listen", p.ops, patientCancel}
	if p.files > 0 {
		line = limited(p.files, line[0], line[1:]...)
	}
	p.command = exec.CommandContext(context.Background(), line[0], line[1:]...)
	p.command.Stderr, p.command.Stdout = p.log, p.greets
	require.NoError(p.t, p.command.Start())
	exited := make(chan error, 1)
	p.exited = exited
	command := p.command
	go func() { exited <- command.Wait() }()
}

// awaitReady waits until the process says that it is ready, or returns how it ended.
func (p *process) awaitReady() error {
	p.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if status, _ := p.try("GET", "http://"+p.ops+"/readyz", nil); status == http.StatusOK {
			return nil
		}
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("ended: %w", err)
		case <-deadline.C:
			require.Fail(p.t, "process is not ready after a minute")
		case <-again.C:
		}
	}
}

// kill ends the process as a power cut would end it: no handler runs.
func (p *process) kill() {
	p.t.Helper()
	if p.command == nil {
		return
	}
	_ = p.command.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	<-p.exited                                    //nolint:errcheck // it was killed
	p.command = nil
}

// terminate asks for a graceful stop and returns what Wait said.
func (p *process) terminate() error {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.exited:
		p.command = nil
		return err
	case <-time.After(time.Minute):
		require.Fail(p.t, "no graceful stop in a minute")
		return nil
	}
}

func (p *process) url(path string) string {
	return "http://" + p.listen + cmp.Or(p.base, "/api/agents") + path
}

func (p *process) try(method, url string, body any) (int, []byte) {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(p.t, err)
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, url, reader)
	require.NoError(p.t, err)
	client := http.Client{Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return response.StatusCode, text
}

// call makes a request that must succeed with a status, and decodes the answer.
func call[T any](p *process, method, path string, body any, want int) T {
	p.t.Helper()
	status, text := p.try(method, p.url(path), body)
	require.Equalf(p.t, want, status, "%s %s: %s", method, path, text)
	var answer T
	if len(text) > 0 {
		require.NoError(p.t, json.Unmarshal(text, &answer))
	}
	return answer
}

type created struct {
	Conversation struct {
		ID string `json:"id"`
	} `json:"conversation"`
}

func (p *process) create(agent string) string {
	p.t.Helper()
	return call[created](p, "POST", "/conversations", map[string]string{"agentId": agent, "userId": "ada"}, http.StatusCreated).Conversation.ID
}

type turnResult struct {
	Message    wireMessage  `json:"message"`
	Response   *wireMessage `json:"response"`
	StopReason string       `json:"stopReason"`
	Status     string       `json:"status"`
	RunID      string       `json:"runId"`
	Error      *struct {
		Code, Message string
	} `json:"error"`
}

type wireMessage struct {
	ID, Role, Content, Status string
}

func (p *process) send(id, text string) turnResult {
	p.t.Helper()
	return call[turnResult](p, "POST", "/conversations/"+id+"/messages", map[string]any{"message": text}, http.StatusOK)
}

type wireEvent struct {
	Seq   uint64          `json:"seq"`
	Type  string          `json:"type"`
	RunID string          `json:"run_id"`
	Data  json.RawMessage `json:"data"`
}

type eventPage struct {
	Events  []wireEvent `json:"events"`
	HasMore bool        `json:"hasMore"`
	LastSeq uint64      `json:"lastSeq"`
}

func (p *process) events(id string) []wireEvent {
	p.t.Helper()
	var all []wireEvent
	for {
		after := uint64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page := call[eventPage](p, "GET", fmt.Sprintf("/conversations/%s/events?limit=1000&after=%d", id, after), nil, http.StatusOK)
		all = append(all, page.Events...)
		if !page.HasMore {
			return all
		}
	}
}

// sse is one open event stream.
type sse struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

type sseFrame struct {
	Event, ID string
	Data      map[string]any
}

// open sends a request that answers with a stream.
func (p *process) open(method, path string, body any, lastEventID string) *sse {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		require.NoError(p.t, err)
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.url(path), reader)
	require.NoError(p.t, err)
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // sse.close does
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, response.StatusCode)
	require.Contains(p.t, response.Header.Get("Content-Type"), "text/event-stream")
	s := &sse{t: p.t, body: response.Body, lines: bufio.NewReader(response.Body), cancel: cancel}
	p.t.Cleanup(s.close)
	return s
}

func (s *sse) close() {
	s.cancel()
	_ = s.body.Close()
}

// next returns the next frame with data, or false at the end of the stream.
func (s *sse) next() (sseFrame, bool) {
	s.t.Helper()
	timer := time.AfterFunc(time.Minute, s.cancel)
	defer timer.Stop()
	var f sseFrame
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return f, false
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && f.Data != nil:
			return f, true
		case name == "event":
			f.Event = value
		case name == "id":
			f.ID = value
		case name == "data":
			require.NoError(s.t, json.Unmarshal([]byte(value), &f.Data))
		}
	}
}

// until reads frames up to one of an event type, and returns it.
func (s *sse) until(event string) sseFrame {
	s.t.Helper()
	for {
		f, ok := s.next()
		require.Truef(s.t, ok, "stream ended before %s", event)
		if f.Event == event {
			return f
		}
	}
}
