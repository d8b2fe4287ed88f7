package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/actors/provider"
)

// maxToolCalls bounds how many tool calls one answer may hold.
const maxToolCalls = 128

// recorder passes the output of a call on to its Stream and keeps it for the Answer. One goroutine uses it.
type recorder struct {
	stream Stream
	limit  int // bytes of text and of tool calls together

	text     strings.Builder
	size     int
	calls    []*toolDraft
	done     []ToolCall
	usage    Usage
	stop     Stop
	idPrefix string

	started  bool // a piece of text or of a tool call has arrived: never ask again
	finished bool // the provider has ended the answer

	onFirst  func()             // the first piece of all attempts
	exchange *provider.Exchange // is told how far the answer is; nil without one
	onUnsaid func(piece string) // nil when nobody wants to hear
}

// toolDraft is a tool call whose arguments are still arriving.
type toolDraft struct {
	key       int64
	id, name  string
	arguments strings.Builder
}

// alive says that the model is at work.
func (r *recorder) alive() {
	if r.exchange != nil {
		r.exchange.Alive()
	}
}

// thought is a piece of a thought; empty when the provider does not show it.
func (r *recorder) thought(piece string) {
	r.alive()
	r.unsaid(piece)
}

func (r *recorder) unsaid(piece string) {
	if r.onUnsaid != nil && piece != "" {
		r.onUnsaid(piece)
	}
}

func (r *recorder) begin() {
	r.alive()
	if r.started {
		return
	}
	r.started = true
	if r.onFirst != nil {
		r.onFirst()
	}
}

func (r *recorder) grow(bytes int) error {
	r.begin()
	r.size += bytes
	if r.size > r.limit {
		return provider.ErrAnswerSize
	}
	return nil
}

// Text passes a piece of the answer on. Text must be valid UTF-8 from here on: it goes into records that insist on it.
func (r *recorder) Text(piece string) error {
	if piece == "" {
		return nil
	}
	piece = strings.ToValidUTF8(piece, "\uFFFD")
	if err := r.grow(len(piece)); err != nil {
		return err
	}
	r.text.WriteString(piece)
	r.stream.Text(piece)
	return nil
}

// toolPiece adds to the tool call with that key, or opens it. A new id under an old key is a new call: some compatible
// servers number every call of an answer with 0.
func (r *recorder) toolPiece(key int64, id, name, arguments string) error {
	if err := r.grow(len(id) + len(name) + len(arguments)); err != nil {
		return err
	}
	draft := r.draft(key)
	if draft == nil || (id != "" && draft.id != "" && id != draft.id) {
		if len(r.calls) == maxToolCalls {
			return provider.ErrAnswerSize
		}
		draft = &toolDraft{key: key}
		r.calls = append(r.calls, draft)
	}
	if id != "" {
		draft.id = strings.ToValidUTF8(id, "\uFFFD")
	}
	draft.name += strings.ToValidUTF8(name, "\uFFFD")
	draft.arguments.WriteString(arguments)
	r.unsaid(name)
	r.unsaid(arguments)
	return nil
}

// draft is the newest tool call with that key, or nil.
func (r *recorder) draft(key int64) *toolDraft {
	for i := len(r.calls) - 1; i >= 0; i-- {
		if r.calls[i].key == key {
			return r.calls[i]
		}
	}
	return nil
}

// finish notes why the provider ended the answer.
func (r *recorder) finish(stop Stop) {
	r.finished, r.stop = true, stop
	if r.exchange != nil {
		r.exchange.Finish()
	}
}

// deliver passes the tool calls on once the answer has ended. An answer cut by its length may end inside the arguments of a
// call: such a call is left out. One that is whole and yet no JSON object is passed on: the model is told what is wrong with
// it, as of any other call that cannot be run.
func (r *recorder) deliver() error {
	if r.stop == StopFilter {
		return nil
	}
	for i, draft := range r.calls {
		arguments := strings.TrimSpace(draft.arguments.String())
		if arguments == "" && r.stop != StopLength {
			arguments = "{}"
		}
		whole := isObject(arguments)
		if !whole && r.stop == StopLength {
			continue
		}
		if draft.name == "" {
			return errToolName
		}
		if draft.id == "" {
			draft.id = fmt.Sprintf("%s_%d", r.idPrefix, i)
		}
		r.done = append(r.done, ToolCall{ID: draft.id, Name: draft.name, Arguments: strings.ToValidUTF8(arguments, "\uFFFD")})
	}
	for _, call := range r.done {
		r.stream.ToolCall(call)
	}
	if len(r.done) > 0 && r.stop == StopEnd {
		r.stop = StopTools
	}
	if len(r.done) == 0 && r.stop == StopTools {
		r.stop = StopEnd
	}
	return nil
}

// setUsage notes what the provider says was consumed. What no call can have consumed is a fault of the provider: it is as if nothing
// was said.
func (r *recorder) setUsage(usage Usage) {
	if !provider.Believable(usage.InputTokens, usage.OutputTokens, usage.CachedInputTokens) {
		r.usage = Usage{Disbelieved: true}
		return
	}
	usage.CachedInputTokens = min(usage.CachedInputTokens, usage.InputTokens)
	r.usage = usage
}

func (r *recorder) answer() *Answer {
	return &Answer{Text: r.text.String(), ToolCalls: r.done, Usage: r.usage, Stop: r.stop}
}

// said is the arguments of a call as a provider is told of them: one refuses a whole conversation for a call that its own
// model made badly.
func said(arguments string) string {
	if isObject(arguments) {
		return arguments
	}
	return "{}"
}

// isObject says whether text is one JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}
