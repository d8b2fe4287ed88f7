package standin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultSay is the default number of tokens of an answer.
const DefaultSay = 1

// TokenBytes is the length of every token, about that of real models in English.
const TokenBytes = 4

// maxRequest bounds a request to the model or to a tool.
const maxRequest = 64 << 20

// Call is what the model charges for one call.
type Call struct {
	Case           string
	Prompt, Output int64 // tokens
	Largest        int64 // output limit of the request, 0 = none
	Ended          bool  // it was completed with its usage; otherwise the client left
}

// Model is a model that records its calls. It is safe for concurrent use.
type Model struct {
	mu struct {
		sync.Mutex
		calls []*Call
		open  int
	}
}

func newModel() *Model { return &Model{} }

// Calls returns all finished calls, in the order in which they began.
func (m *Model) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	var over []Call
	for _, call := range m.mu.calls {
		if call != nil {
			over = append(over, *call)
		}
	}
	return over
}

// Open returns how many calls are in progress.
func (m *Model) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.open
}

// request is the part of a Chat Completions request that the model uses.
type request struct {
	Messages []struct {
		Role      string            `json:"role"`
		Content   json.RawMessage   `json:"content"`
		ToolCalls []json.RawMessage `json:"tool_calls"`
	} `json:"messages"`
	MaxTokens           int64 `json:"max_tokens"`
	MaxCompletionTokens int64 `json:"max_completion_tokens"`
}

// order is what a message tells the model to do.
type order struct {
	of    string
	say   int64
	pace  time.Duration
	tools [][]string // still to be called, by round
	round int        // rounds that have been called
}

// read finds the order, and the tokens of the prompt.
func (r *request) read() (order, int64) {
	o, bytes := order{say: DefaultSay}, 0
	for _, message := range r.Messages {
		bytes += len(message.Content)
		for _, call := range message.ToolCalls {
			bytes += len(call)
		}
		if len(message.ToolCalls) > 0 {
			o.round++
		}
		if message.Role == "user" && strings.Contains(string(message.Content), "case=") {
			o = orderOf(string(message.Content))
		}
	}
	o.tools = o.tools[min(o.round, len(o.tools)):]
	return o, int64(bytes/TokenBytes + 1)
}

func orderOf(text string) order {
	o := order{say: DefaultSay}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '"' || r == '\\' }) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "case":
			o.of = value
		case "say":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				o.say = n
			}
		case "pace":
			if d, err := time.ParseDuration(value); err == nil {
				o.pace = d
			}
		case "tools":
			for round := range strings.SplitSeq(value, "|") {
				o.tools = append(o.tools, strings.Split(round, ","))
			}
		}
	}
	return o
}

func (m *Model) serve(w http.ResponseWriter, r *http.Request) {
	var asked request
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o, prompt := asked.read()
	call := &Call{Case: o.of, Prompt: prompt, Largest: cmp.Or(asked.MaxTokens, asked.MaxCompletionTokens)}
	at := m.begin()
	defer func() { m.over(at, call) }()
	w.Header().Set("Content-Type", "text/event-stream")
	call.answer(&stream{w: w, flush: http.NewResponseController(w), left: r.Context().Done()}, &o)
}

func (m *Model) begin() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.open++
	m.mu.calls = append(m.mu.calls, nil) // until it is over
	return len(m.mu.calls) - 1
}

func (m *Model) over(at int, call *Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.open--
	m.mu.calls[at] = call
}

func (c *Call) answer(s *stream, o *order) {
	if !s.delta(`{"role":"assistant","content":""}`, "null") {
		return
	}
	finish := `"stop"`
	for n := range o.say {
		if c.Largest > 0 && c.Output >= c.Largest {
			finish = `"length"`
			break
		}
		if n > 0 && !s.wait(o.pace) {
			return
		}
		c.Output++ // it was generated, so it is charged
		if !s.delta(fmt.Sprintf(`{"content":"%03d "}`, n%1000), "null") {
			return
		}
	}
	if len(o.tools) > 0 && finish == `"stop"` {
		finish = `"tool_calls"`
		for i, name := range o.tools[0] {
			if !c.call(s, o, i, name) {
				return
			}
		}
	}
	c.Ended = s.delta(`{}`, finish) && s.send(fmt.Sprintf(
		`{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		c.Prompt, c.Output, c.Prompt+c.Output,
	)) && s.send("[DONE]")
}

// tokensOfCall is what the model charges for a tool call, in tokens.
const tokensOfCall = 16

// call calls a tool. The arguments contain the case and the number of the call, so that runs can be told apart.
func (c *Call) call(s *stream, o *order, at int, name string) bool {
	c.Output += tokensOfCall
	id := fmt.Sprintf("call_%s_%d_%d", o.of, o.round, at)
	head := fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, at, id, name)
	arguments := fmt.Sprintf(`{"case":%q,"call":"%d.%d"}`, o.of, o.round, at)
	body := fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%q}}]}`, at, arguments)
	return s.delta(head, "null") && s.wait(o.pace) && s.delta(body, "null")
}

// stream is the response being sent.
type stream struct {
	w     io.Writer
	flush *http.ResponseController
	left  <-chan struct{} // closed when the client has left
}

func (s *stream) delta(delta, finish string) bool {
	return s.send(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
}

func (s *stream) send(data string) bool {
	_, err := io.WriteString(s.w, "data: "+data+"\n\n")
	return err == nil && s.flush.Flush() == nil
}

func (s *stream) wait(pace time.Duration) bool {
	if pace <= 0 {
		return true
	}
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.left:
		return false
	}
}

// Of returns the calls on one account.
func Of(calls []Call, name string) []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.Case != name })
}
