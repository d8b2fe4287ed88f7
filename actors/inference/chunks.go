package inference

import (
	"strconv"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
)

// Emit receives the chunks of a streamed answer, in order, from one goroutine: JSON that is valid only until it returns. more means
// that the next chunk follows at once. An error ends the call.
type Emit func(chunk []byte, more bool) error

// chunks writes a stream by the rules of document 3, 10.3: one id, the role first, usage only when it was asked for and last,
// always a finish reason.
type chunks struct {
	emit      Emit
	model     string
	wantUsage bool

	head        []byte // of every chunk, up to its choices
	buffer      []byte
	choices     []*choice
	used        consumed
	answerBytes int // bytes of the answer
	begun       bool
	ending      func() // before the last chunk; nil = nothing
}

// maxDepth and maxValues bound JSON that is decoded, not passed through: a value of three bytes takes a hundred in memory.
const (
	maxDepth  = 200
	maxValues = 100_000
)

// choice is one of the answers that n asks for.
type choice struct {
	index            int
	begun            bool // its role was sent
	answered, called bool
	held             bool // was ended by its length before it said anything: that becomes an error
}

func newChunks(call *Call, emit Emit) *chunks {
	options, _ := rawjson.Object(call.Body.Get("stream_options")) // without options no usage
	return &chunks{emit: emit, model: call.Model, wantUsage: options.True("include_usage")}
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

// hear passes on what an event says.
func (w *chunks) hear(reader *chat.Reader, deltas []chat.Delta, more bool) error {
	w.used.Usage = reader.Usage
	if len(deltas) == 0 {
		return nil
	}
	w.open(reader.Fingerprint, reader.Created)
	for i := range deltas {
		if err := w.part(&deltas[i], more || i+1 < len(deltas)); err != nil {
			return err
		}
	}
	return nil
}

// part passes on a delta of one choice.
func (w *chunks) part(delta *chat.Delta, more bool) error {
	finish := delta.Finish
	one := w.choice(delta.Choice)
	if finish == chat.Length && !one.begun && !says(delta) {
		one.held = true
		return nil
	}
	if err := w.begin(one, more || finish != "" || says(delta)); err != nil {
		return err
	}
	one.answered = one.answered || delta.Text != nil || delta.Refusal != nil
	one.called = one.called || delta.Calls != nil
	w.answerBytes += sizeOf(delta)
	w.buffer = append(w.buffer[:0], w.head...)
	w.buffer = append(w.buffer, `[{"index":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(delta.Choice), 10)
	w.buffer = append(w.buffer, `,"delta":{`...)
	empty := len(w.buffer)
	w.buffer = appendDelta(w.buffer, delta)
	if finish == chat.Length && !one.answered && !one.called {
		one.held = true
		finish = ""
	}
	if len(w.buffer) == empty && finish == "" && delta.Logprobs == nil {
		return nil
	}
	w.buffer = append(w.buffer, `},"logprobs":`...)
	w.buffer = appendOrNull(w.buffer, delta.Logprobs)
	w.buffer = append(w.buffer, `,"finish_reason":`...)
	w.buffer = appendFinish(w.buffer, finish)
	w.buffer = append(w.buffer, '}', ']', '}')
	return w.emit(w.buffer, more)
}

// says reports whether a delta holds anything besides the role.
func says(delta *chat.Delta) bool {
	return delta.Text != nil || delta.Refusal != nil || delta.Thought != nil || delta.Calls != nil || delta.Rest != nil
}

// sizeOf is how many bytes a delta adds to the answer.
func sizeOf(delta *chat.Delta) int {
	size := len(delta.Text) + len(delta.Refusal) + len(delta.Thought)
	for _, call := range delta.Calls {
		size += len(`[{"index":0,"function":{"arguments":}}]`) + max(len(call.Arguments), len(`""`))
		if call.First {
			size += len(`"id":"","type":"function","name":"",`) + len(call.ID) + len(call.Name)
		}
	}
	for _, field := range delta.Rest {
		size += len(field.Value)
	}
	return size
}

func (w *chunks) choice(index int) *choice {
	for _, one := range w.choices {
		if one.index == index {
			return one
		}
	}
	one := &choice{index: index}
	w.choices = append(w.choices, one)
	return one
}

// begin sends the role of a choice, once.
func (w *chunks) begin(one *choice, more bool) error {
	if one.begun {
		return nil
	}
	one.begun, w.begun = true, true
	w.buffer = append(w.buffer[:0], w.head...)
	w.buffer = append(w.buffer, `[{"index":`...)
	w.buffer = strconv.AppendInt(w.buffer, int64(one.index), 10)
	w.buffer = append(w.buffer, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`...)
	return w.emit(w.buffer, more)
}

// close ends the stream: what was held, and the usage.
func (w *chunks) close() error {
	held := 0
	for _, one := range w.choices {
		if one.held {
			held++
		}
	}
	if held == len(w.choices) {
		return cutShort()
	}
	if w.ending != nil {
		w.ending()
	}
	for _, one := range w.choices {
		if one.held { // another choice did answer
			one.answered = true
			if err := w.part(&chat.Delta{Choice: one.index, Finish: chat.Length}, true); err != nil {
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
