package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// echoModel is a model server that speaks Chat Completions. It answers "answer <n>", n counted over all calls, unless the
// newest user message says more: "say x" answers x, "fail" fails, "once" fails from the second time on, "tell long" streams
// until it is cut. It keeps what it was asked.
type echoModel struct {
	*httptest.Server

	mu    sync.Mutex
	calls int
	asked []string
}

// echo is the one model server of all content tests; it ends with the process.
var echo = sync.OnceValue(func() *echoModel { // started by whoever needs it first
	m := &echoModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	return m
})

type echoRequest struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

func (m *echoModel) serve(w http.ResponseWriter, r *http.Request) {
	var request echoRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(w, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	var seen strings.Builder
	var last string
	for _, message := range request.Messages {
		fmt.Fprintf(&seen, "%s: %s\n", message.Role, message.Content)
		if message.Role == "user" {
			last = string(message.Content)
			_ = json.Unmarshal(message.Content, &last) // a list of parts stays as it is
		}
	}
	m.mu.Lock()
	m.calls++
	text := fmt.Sprintf("answer %d", m.calls)
	m.asked = append(m.asked, seen.String())
	m.mu.Unlock()
	said, says := strings.CutPrefix(last, "say ")
	switch again := strings.HasPrefix(last, "once") && m.times(last) > 1; {
	case says:
		text = said
	case again, strings.HasPrefix(last, "fail"):
		http.Error(w, `{"error":{"message":"this model fails","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	case strings.HasPrefix(last, "tell long"):
		m.tellLong(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	piece(w, text)
	_, _ = fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n"+
		`data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`+"\n\ndata: [DONE]\n\n")
}

// times is how often something was asked.
func (m *echoModel) times(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Count(strings.Join(m.asked, "\n"), text)
}

// tellLong streams a word and then nothing until the caller goes away.
func (m *echoModel) tellLong(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	piece(w, "once ")
	_ = http.NewResponseController(w).Flush() // the caller's going away is seen below
	<-r.Context().Done()
}

func piece(w http.ResponseWriter, text string) {
	encoded, _ := json.Marshal(text) // text has a JSON form
	_, _ = fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":%s}}]}`+"\n\n", encoded)
}

// about is the newest request that holds a text.
func (m *echoModel) about(t *testing.T, text string) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.asked) - 1; i >= 0; i-- {
		if strings.Contains(m.asked[i], text) {
			return m.asked[i]
		}
	}
	require.Failf(t, "never asked", "%q", text)
	return ""
}

// contentAgents are agents that answer from the echo model, with every switch of content.
func contentAgents() string {
	model := "model: {provider: openai, name: echo, base_url: " + echo().URL + "/v1, api_key: k, retries: 0}"
	return `
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: open
    name: Open Agent
    ` + model + `
    capabilities: {attachments: {enabled: true, accepts_images: true}}
    experience: {export: {enabled: true, include_tools: true}}
  - id: blind
    ` + model + `
    capabilities: {attachments: {enabled: true}}
  - id: narrow
    ` + model + `
    capabilities: {attachments: {enabled: true, max_files: 2, max_file_size: 1KiB, allowed_mime_types: [image/*, text/csv], retention_days: 7}}
    experience: {feedback: {enabled: true, comments: false, reasons: [wrong]}, export: {enabled: true, formats: [md, json]}}
  - id: closed
    ` + model + `
    experience: {regenerate: false, edit: false, feedback: {enabled: false}, export: {enabled: false}}
  - id: brief
    ` + model + `
    experience: {feedback: {enabled: true, max_comment_length: 5}}
  - id: titled
    ` + model + `
    experience: {titles: true}
    title_model: {provider: scripted, script: {text: "\"A Fine Title\""}}
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
  - id: priced
    model: {provider: scripted, price: {input: 1, output: 2}, script: {text: "a b c", usage: {input_tokens: 1000, output_tokens: 500}}}
  - id: wordy
    model: {provider: scripted, price: {input: 1, output: 2}, script: {tokens: 2000}}
  - id: thrifty
    default_budget: {max_cost: 0.001, on_reach: pause}
    model: {provider: scripted, price: {input: 1, output: 2}, script: {tokens: 2000}}
  - id: handy
    model: {provider: scripted, script: {steps: [{text: "let me look", tool_calls: [{name: current_time, arguments: {}}]}, {text: "it is **late**"}]}}
    tools: [{name: current_time, builtin: current_time}]
    experience: {export: {enabled: true, include_tools: true}}
  - id: asking
    model: {provider: scripted, script: {steps: [{text: "one thing", tool_calls: [{name: ask_user, arguments: {questions: [{question: "Which colour?"}]}}]}, {text: "thank you"}]}}
    capabilities: {ask_user: true, attachments: {enabled: true}}
  - id: steady
    model: {provider: scripted, script: {tokens: 60, token_interval: 150ms}}
  - id: slow
    model: {provider: scripted, script: {tokens: 400, token_interval: 25ms}}
    capabilities: {attachments: {enabled: true}}
`
}

func content(t *testing.T) *process {
	t.Helper()
	return shared.of(t, "node: {name: content-1}\nlog: {level: warn}\n"+contentAgents())
}

// messages reads a conversation and returns its messages.
func (p *process) messages(t *testing.T, id string, headers ...string) []tree {
	t.Helper()
	return p.ask(t, "GET", "/conversations/"+id, nil, headers...).fits(200, anyObject).at("messages").list()
}

// logged is the data of a conversation's events of a type, in order.
func (p *process) logged(t *testing.T, id, kind string) []tree {
	t.Helper()
	var all []tree
	for _, event := range p.ask(t, "GET", "/conversations/"+id+"/events?limit=1000&types="+kind, nil).fits(200, anyObject).at("events").list() {
		all = append(all, event.at("data"))
	}
	return all
}
