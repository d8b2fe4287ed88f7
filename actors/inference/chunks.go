package inference

import (
	"encoding/json"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/proto/agentpb"
)

// Emit receives the chunks of a streamed answer, in order, from one goroutine: JSON that is valid only until it returns. more means
// that the next chunk follows at once. An error ends the call.
type Emit func(chunk []byte, more bool) error

// chunks writes a stream by the rules of document 3, 10.3: one id, the role first, usage only when it was asked for and last,
// always a finish reason.
type chunks struct {
	emit      Emit
	callee    *agentpb.Model
	model     string
	wantUsage bool

	head        []byte // of every chunk, up to its choices
	buffer      []byte
	choices     []*choice
	used        consumed
	answerBytes int // bytes of the answer
	begun       bool
}

// maxDepth and maxValues bound JSON that is decoded, not passed through: a value of three bytes takes a hundred in memory.
const (
	maxDepth  = 200
	maxValues = 100_000
)

// choice is one of the answers that n asks for.
type choice struct {
	index                    int
	answered, called, closed bool
	held                     bool // was ended by its length before it said anything: that becomes an error
	tool                     int  // number of the newest tool call, -1 = none
}

func newChunks(call *Call, t *target, emit Emit) *chunks {
	options, _ := rawjson.Object(call.Body.Get("stream_options")) // without options no usage
	return &chunks{emit: emit, callee: t.model, model: call.Model, wantUsage: options.True("include_usage")}
}

// open sets the fields that are the same in all chunks.
func (w *chunks) open(fingerprint []byte, created int64) {
	if w.head != nil {
		return
	}
	dst := append(make([]byte, 0, 256), `{"id":`...)
	dst = appendID(dst)
	dst = append(dst, `,"object":"chat.completion.chunk","created":`...)
	dst = strconv.AppendInt(dst, createdAt(created), 10)
	dst = append(dst, `,"model":`...)
	dst = rawjson.AppendString(dst, w.model)
	dst = append(dst, `,"system_fingerprint":`...)
	dst = appendOrNull(dst, fingerprint)
	w.head = append(dst, `,"choices":`...)
}

// relay passes on a chunk of a provider.
func (w *chunks) relay(raw []byte, more bool) error {
	if !rawjson.Modest(raw, maxDepth, maxValues) || !json.Valid(raw) {
		return unreadable()
	}
	chunk, err := rawjson.Object(raw)
	if err != nil {
		return unreadable()
	}
	if chunk.Get("error") != nil {
		return provider.Complaint(0, raw, provider.RedactorOf(w.callee))
	}
	if used, ok := readUsage(chunk.Get("usage")); ok {
		used.inputDetails, used.outputDetails = clone(used.inputDetails), clone(used.outputDetails)
		w.used = used
	}
	w.open(chunk.Get("system_fingerprint"), number(chunk.Get("created")))
	choices := chunk.Get("choices")
	if choices == nil {
		return nil
	}
	parts, err := rawjson.Array(choices, maxChoices)
	if err != nil {
		return unreadable()
	}
	for i, one := range parts {
		part, err := rawjson.Object(one)
		index := number(part.Get("index"))
		if err != nil || index < 0 || index >= maxChoices {
			return unreadable()
		}
		if err := w.part(int(index), part.Get("delta"), part.Get("logprobs"), part.Text("finish_reason"), more || i+1 < len(parts)); err != nil {
			return err
		}
	}
	return nil
}

func clone(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	return append([]byte(nil), raw...)
}

// part passes on a delta of one choice.
func (w *chunks) part(index int, delta, logprobs []byte, finish string, more bool) error {
	var fields rawjson.Fields
	var err error
	if !rawjson.IsNull(delta) {
		if fields, err = rawjson.Object(delta); err != nil {
			return unreadable()
		}
	}
	one, err := w.choice(index, more || finish != "" || says(fields))
	if err != nil {
		return err
	}
	w.buffer = append(w.buffer[:0], w.head...)
	w.buffer = append(w.buffer, `[{"index":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(index), 10)
	w.buffer = append(w.buffer, `,"delta":{`...)
	empty := len(w.buffer)
	if err := w.delta(one, fields, empty); err != nil {
		return err
	}
	if finish == "length" && !one.answered && !one.called {
		one.held = true
		finish = ""
	}
	if len(w.buffer) == empty && finish == "" && rawjson.IsNull(logprobs) {
		return nil
	}
	w.buffer = append(w.buffer, `},"logprobs":`...)
	if rawjson.IsNull(logprobs) {
		logprobs = nil
	}
	w.buffer = appendOrNull(w.buffer, logprobs)
	w.buffer = append(w.buffer, `,"finish_reason":`...)
	if finish == "" {
		w.buffer = append(w.buffer, "null"...)
	} else {
		one.closed = true
		w.buffer = rawjson.AppendString(w.buffer, finish)
	}
	w.buffer = append(w.buffer, '}', ']', '}')
	return w.emit(w.buffer, more)
}

// says reports whether a delta holds anything besides the role.
func says(fields rawjson.Fields) bool {
	for _, field := range fields {
		if field.Name != "role" && !isEmpty(field.Value) {
			return true
		}
	}
	return false
}

func isEmpty(raw []byte) bool {
	return rawjson.IsNull(raw) || string(raw) == `""` || string(raw) == "[]"
}

// choice returns a choice, and begins it with its role when it is new.
func (w *chunks) choice(index int, more bool) (*choice, error) {
	for _, one := range w.choices {
		if one.index == index {
			return one, nil
		}
	}
	one := &choice{index: index, tool: -1}
	w.choices = append(w.choices, one)
	w.begun = true
	w.buffer = append(w.buffer[:0], w.head...)
	w.buffer = append(w.buffer, `[{"index":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(index), 10)
	w.buffer = append(w.buffer, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`...)
	return one, w.emit(w.buffer, more)
}

// delta copies the fields of a delta, except the role, which was sent before, and empty ones. Reasoning goes under one name.
func (w *chunks) delta(one *choice, fields rawjson.Fields, empty int) error {
	for _, field := range fields {
		name, value := field.Name, field.Value
		if isEmpty(value) {
			continue
		}
		switch name {
		case "role":
			continue
		case "reasoning":
			if fields.Get("reasoning_content") != nil {
				continue
			}
			name = "reasoning_content"
		case "content", "refusal":
			one.answered = true
		}
		w.answerBytes += len(value)
		if len(w.buffer) > empty {
			w.buffer = append(w.buffer, ',')
		}
		w.buffer = rawjson.AppendString(w.buffer, name)
		w.buffer = append(w.buffer, ':')
		if name != "tool_calls" {
			w.buffer = append(w.buffer, value...)
			continue
		}
		one.called = true
		if err := w.toolCalls(one, value); err != nil {
			return err
		}
	}
	return nil
}

// toolCalls copies fragments of tool calls. Each names the call that it belongs to, even if the provider left that out.
func (w *chunks) toolCalls(one *choice, raw []byte) error {
	pieces, err := rawjson.Array(raw, maxChoices)
	if err != nil {
		return unreadable()
	}
	w.buffer = append(w.buffer, '[')
	for i, piece := range pieces {
		fields, err := rawjson.Object(piece)
		if err != nil {
			return unreadable()
		}
		if i > 0 {
			w.buffer = append(w.buffer, ',')
		}
		if index := fields.Get("index"); index != nil {
			one.tool = max(one.tool, int(number(index)))
			w.buffer = append(w.buffer, piece...)
			continue
		}
		if fields.Text("id") != "" || one.tool < 0 {
			one.tool++
		}
		w.buffer = append(w.buffer, `{"index":`...)
		w.buffer = strconv.AppendInt(w.buffer, int64(one.tool), 10)
		for _, field := range fields {
			w.buffer = append(w.buffer, ',')
			w.buffer = rawjson.AppendString(w.buffer, field.Name)
			w.buffer = append(append(w.buffer, ':'), field.Value...)
		}
		w.buffer = append(w.buffer, '}')
	}
	w.buffer = append(w.buffer, ']')
	return nil
}

// close ends the stream: a finish reason for every choice, and the usage.
func (w *chunks) close() error {
	w.open(nil, 0)
	if len(w.choices) == 0 {
		if _, err := w.choice(0, true); err != nil {
			return err
		}
	}
	held := 0
	for _, one := range w.choices {
		switch {
		case one.held:
			held++
		case !one.closed:
			finish := "stop"
			if one.called {
				finish = "tool_calls"
			}
			if err := w.part(one.index, nil, nil, finish, true); err != nil {
				return err
			}
		}
	}
	if held == len(w.choices) {
		return cutShort()
	}
	for _, one := range w.choices {
		if one.held { // another choice did answer
			one.answered = true
			if err := w.part(one.index, nil, nil, "length", true); err != nil {
				return err
			}
		}
	}
	if !w.wantUsage {
		return nil
	}
	w.buffer = append(append(w.buffer[:0], w.head...), `[],"usage":`...)
	w.buffer = w.used.append(w.buffer)
	return w.emit(append(w.buffer, '}'), true)
}
