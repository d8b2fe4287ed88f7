package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// workshop is a server of tools: it counts what was done for each idempotency key.
type workshop struct {
	url string
	box *tool.Toolbox

	mu     sync.Mutex
	done   map[string]int
	args   map[string]string
	served chan string // what was done, in order
	hook   func(name string, request *http.Request) (status int, answer string)
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{done: make(map[string]int), args: make(map[string]string), served: make(chan string, 100_000)}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	box, err := tool.New(tool.Config{Guard: deliver.NewGuard(deliver.GuardConfig{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})})
	require.NoError(t, err)
	t.Cleanup(box.Close)
	w.url, w.box = server.URL, box
	return w
}

func (w *workshop) serve(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	name := strings.TrimPrefix(request.URL.Path, "/")
	status, answer := http.StatusOK, name+" done"
	w.mu.Lock()
	hook := w.hook
	w.mu.Unlock()
	if hook != nil {
		status, answer = hook(name, request)
	}
	w.mu.Lock()
	key := request.Header.Get("Idempotency-Key")
	w.done[key]++
	w.args[key] = string(body)
	w.mu.Unlock()
	select {
	case w.served <- name:
	default: // nobody counts so far
	}
	response.Header().Set("Content-Type", "text/plain")
	response.WriteHeader(status)
	_, _ = io.WriteString(response, answer)
}

func (w *workshop) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[string]int, len(w.done))
	for key, count := range w.done {
		counts[key] = count
	}
	return counts
}

// agent has tools of every kind.
func (w *workshop) agent() *agentpb.Agent {
	http := func(name string, policy *agentpb.ToolPolicy) *agentpb.Tool {
		return &agentpb.Tool{Name: name, Policy: policy, Http: &agentpb.HTTP{Url: w.url + "/" + name}, Schema: []byte(
			`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)}
	}
	return &agentpb.Agent{
		Id: "a", AskUser: &agentpb.AskUser{ActionTimeoutMs: 5000},
		Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Price: testPrice},
		Tools: []*agentpb.Tool{
			http("read", &agentpb.ToolPolicy{Idempotent: true}),
			http("write", nil),
			http("pay", &agentpb.ToolPolicy{Approval: "always", ApprovalPrompt: "Really?"}),
			{Name: "camera", Client: true},
		},
	}
}

var testPrice = &agentpb.Price{InputNanoUsdPerMtok: 1_000_000_000, OutputNanoUsdPerMtok: 2_000_000_000}

// dialogue answers the model call of each step of a turn; the last one is repeated.
type dialogue struct {
	mu       sync.Mutex
	rounds   []func(stream model.Stream) (*model.Answer, error)
	requests []*model.Request
}

func (d *dialogue) NeedsHistory() bool { return true }

func (d *dialogue) Generate(_ context.Context, request *model.Request, stream model.Stream) (*model.Answer, error) {
	d.mu.Lock()
	seen := *request
	seen.Messages = append([]model.Message(nil), request.Messages...)
	d.requests = append(d.requests, &seen)
	round := d.rounds[min(request.Step, len(d.rounds)-1)]
	d.mu.Unlock()
	return round(stream)
}

func (d *dialogue) last() *model.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.requests[len(d.requests)-1]
}

var callUsage = model.Usage{InputTokens: 10, OutputTokens: 5, Known: true}

// asks is a round in which the model says a text and asks for tools, each "id name arguments".
func asks(text string, calls ...string) func(model.Stream) (*model.Answer, error) {
	return func(stream model.Stream) (*model.Answer, error) {
		stream.Text(text)
		answer := &model.Answer{Text: text, Stop: model.StopTools, Usage: callUsage}
		for _, call := range calls {
			parts := strings.SplitN(call, " ", 3)
			answer.ToolCalls = append(answer.ToolCalls, model.ToolCall{ID: parts[0], Name: parts[1], Arguments: parts[2]})
		}
		return answer, nil
	}
}

func says(text string) func(model.Stream) (*model.Answer, error) { return asks(text) }

// bench is a desk with a workshop and a book.
type bench struct {
	*desk
	shop   *workshop
	book   *book
	talks  *dialogue
	agent  *agentpb.Agent
	titles chan *conversationpb.SetTitle
	runID  string

	untitled bool
}

func newBench(t *testing.T, rounds ...func(model.Stream) (*model.Answer, error)) *bench {
	t.Helper()
	b := &bench{
		shop: newWorkshop(t), book: &book{epoch: 7, attempt: 1}, talks: &dialogue{rounds: rounds},
		titles: make(chan *conversationpb.SetTitle, 10), runID: "run_1",
	}
	b.agent = b.shop.agent()
	b.renew(t)
	return b
}

// renew gives the conversation to a new runner, as another node would.
func (b *bench) renew(t *testing.T, change ...func(*Config)) {
	t.Helper()
	b.desk = newDesk(t, b.talks, append([]func(*Config){func(c *Config) {
		c.Agents, c.History, c.Tools = agents{"a": b.agent}, past{b.book}, b.shop.box
	}}, change...)...)
}

// past is a conversation without earlier messages.
type past struct{ *book }

func (past) Before(context.Context, string, uint64, func(*conversationpb.Message) bool) error {
	return nil
}

func (b *bench) start(t *testing.T) {
	t.Helper()
	job := b.book.on(b.job())
	job.RunID, job.Untitled = b.runID, b.untitled
	job.SetTitle = func(_ context.Context, title *conversationpb.SetTitle) error {
		b.titles <- title
		return nil
	}
	require.NoError(t, b.Start(job))
}

// whole runs the turn to its report.
func (b *bench) whole(t *testing.T) *conversationpb.Finish {
	t.Helper()
	b.start(t)
	return <-b.reports
}

// untilPause runs the turn until it waits for a person.
func (b *bench) untilPause(t *testing.T) *conversationpb.Progress {
	t.Helper()
	b.start(t)
	b.Wait(t.Context(), 3)
	require.Empty(t, b.reports)
	require.True(t, b.book.paused)
	require.True(t, b.page.isSealed())
	return b.book.stored
}

func callsOf(calls []*conversationpb.ToolCall) []string {
	var lines []string
	for _, call := range calls {
		lines = append(lines, fmt.Sprintf("%s %s %s = %s%s", call.GetId(), call.GetName(), call.GetArguments(), call.GetResult(), call.GetError()))
	}
	return lines
}

func messagesOf(messages []model.Message) []string {
	var lines []string
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Content
		if m.ToolID != "" {
			line = string(m.Role) + " " + m.ToolID + ": " + m.Content
		}
		for _, call := range m.ToolCalls {
			line += fmt.Sprintf(" [%s %s %s]", call.ID, call.Name, call.Arguments)
		}
		lines = append(lines, line)
	}
	return lines
}

var errDisk = errors.New("disk full")
