package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/actors/machine/rawjson"
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
	usage    Usage // of the request under way
	spent    Usage // of those before it
	stop     Stop
	idPrefix string

	paused    bool   // the provider wants to be asked to go on
	said      []held // in this request
	state     []byte
	forgotten bool // the state is too long
	vague     bool // a request before this one did not say what it consumed

	started  bool // a piece of text or of a tool call has arrived: never ask again
	finished bool // the provider has ended the answer

	onFirst  func()             // the first piece of all attempts
	exchange *provider.Exchange // is told how far the answer is; nil without one
	hears    hearing
}

// hearing is who wants to hear what is not said, nil = nobody does.
type hearing struct{ unsaid, thought func(piece string) }

// toolDraft is a tool call whose arguments are still arriving.
type toolDraft struct {
	key       int64
	id, name  string
	arguments strings.Builder // what came in pieces
	seam      rawjson.Seam    // of them
	head      string          // what stood where the call began
	final     string          // what the provider said last of all of them
	counted   int             // bytes of the arguments that were heard
	partial   bool            // the provider says that it is not whole
	number    int             // among the calls of the answer, from 1; 0 = it is none of them
}

// said is the arguments as the place says that counts: the last one, else the pieces, else where the call began.
func (d *toolDraft) said() string {
	pieces := strings.TrimSpace(d.arguments.String())
	switch head := strings.TrimSpace(d.head); {
	case d.final != "":
		return d.final
	case pieces == "":
		return head
	case !isObject(pieces) && isObject(head+pieces):
		return head + pieces
	}
	return pieces
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
	if r.hears.thought == nil || piece == "" {
		r.unsaid(piece)
		return
	}
	r.begin()
	r.hears.thought(piece)
}

func (r *recorder) unsaid(piece string) {
	if r.hears.unsaid != nil && piece != "" {
		r.hears.unsaid(piece)
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
	piece = valid(piece)
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
		draft.id = valid(id)
	}
	draft.name += valid(name)
	draft.arguments.WriteString(arguments)
	r.unsaid(name)
	r.unsaid(arguments)
	return nil
}

// open opens a tool call that its dialect puts together by itself, with begins, adds and settles.
func (r *recorder) open(key int64) (*toolDraft, error) {
	if len(r.calls) == maxToolCalls {
		return nil, provider.ErrAnswerSize
	}
	draft := &toolDraft{key: key}
	r.calls = append(r.calls, draft)
	return draft, r.grow(0)
}

// names says what a call is called. What is said again replaces what was said before.
func (r *recorder) names(draft *toolDraft, id, name string) error {
	if id != "" {
		draft.id = valid(id)
	}
	if name == "" || name == draft.name {
		return nil
	}
	draft.name = valid(name)
	r.unsaid(name)
	return r.grow(len(id) + len(name))
}

// begins notes arguments that stand where their call begins: nothing, all of them, or a placeholder.
func (r *recorder) begins(draft *toolDraft, arguments string) error {
	if arguments != "" {
		draft.head = arguments
	}
	return r.count(draft, arguments)
}

// adds notes a piece of arguments.
func (r *recorder) adds(draft *toolDraft, next rawjson.Text) error {
	piece := draft.seam.Join(next).String()
	draft.arguments.WriteString(piece)
	extra := min(draft.arguments.Len()-draft.counted, len(piece))
	if extra <= 0 {
		return nil
	}
	draft.counted += extra
	r.unsaid(piece[len(piece)-extra:])
	return r.grow(extra)
}

// settles notes what the provider says is the whole of the arguments. Nothing says nothing.
func (r *recorder) settles(draft *toolDraft, arguments string) error {
	if arguments = strings.TrimSpace(arguments); arguments != "" {
		draft.final = arguments
	}
	return r.count(draft, arguments)
}

// count meters what is new of arguments that were heard in part.
func (r *recorder) count(draft *toolDraft, arguments string) error {
	if len(arguments) <= draft.counted {
		return nil
	}
	extra := arguments[draft.counted:]
	draft.counted = len(arguments)
	r.unsaid(extra)
	return r.grow(len(extra))
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

// pause notes that the provider wants to be asked to go on, with what it has said.
func (r *recorder) pause() {
	r.paused = true
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
	if slices.ContainsFunc(r.calls, func(call *toolDraft) bool { return call.name == "" }) {
		r.calls = adopt(r.calls)
	}
	for _, draft := range r.calls {
		arguments := draft.said()
		if (arguments == "" || arguments == "null") && r.stop != StopLength {
			arguments = "{}"
		}
		whole := isObject(arguments) && !draft.partial
		if !whole && r.stop == StopLength {
			continue
		}
		if draft.name == "" {
			return errToolName
		}
		r.done = append(r.done, ToolCall{ID: draft.id, Name: draft.name, Arguments: valid(arguments)})
		draft.number = len(r.done)
	}
	r.identify()
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

// identify gives each call an id of its own: some have none, some share one.
func (r *recorder) identify() {
	taken := map[string]bool{"": true}
	for i := range r.done {
		if call := &r.done[i]; taken[call.ID] {
			call.ID = "" // the first one keeps it
		} else {
			taken[call.ID] = true
		}
	}
	for i := range r.done {
		for made := fmt.Sprintf("%s_%d", r.idPrefix, i); r.done[i].ID == ""; made += "x" {
			if !taken[made] {
				r.done[i].ID, taken[made] = made, true
			}
		}
	}
}

// adopt gives arguments that came under another number than the head of their call to the first call that has none.
func adopt(calls []*toolDraft) []*toolDraft {
	kept := make([]*toolDraft, 0, len(calls))
	for _, orphan := range calls {
		bare := slices.IndexFunc(calls, func(call *toolDraft) bool {
			return call.name != "" && (call.said() == "" || call.said() == call.head && call.head == "{}")
		})
		if orphan.name != "" || orphan.said() == "" || bare < 0 {
			kept = append(kept, orphan)
			continue
		}
		calls[bare].final = orphan.said()
	}
	return kept
}

// setUsage notes what the provider says was consumed. What no call can have consumed is a fault of the provider: it is as if nothing
// was said.
func (r *recorder) setUsage(usage Usage) {
	if !provider.Believable(usage.InputTokens, usage.OutputTokens, usage.CachedInputTokens) {
		r.usage = Usage{Disbelieved: true}
		return
	}
	usage.CachedInputTokens = min(usage.CachedInputTokens, usage.InputTokens)
	usage.ReasoningTokens = min(max(usage.ReasoningTokens, 0), usage.OutputTokens)
	r.usage = usage
}

// again begins a further request of the call. What the provider has told of one that ended is consumed, however it ended.
func (r *recorder) again() {
	if r.usage.Known || r.paused {
		r.spent = r.spent.plus(r.usage)
		r.vague = r.vague || !r.usage.Known
	}
	r.usage, r.paused, r.said = Usage{}, false, nil
}

// consumed is the usage of the whole call.
func (r *recorder) consumed() Usage {
	if r.spent == (Usage{}) || r.usage.Disbelieved {
		return r.usage
	}
	whole := r.spent.plus(r.usage)
	whole.Known = !r.vague && (r.usage.Known || r.usage == (Usage{}) && !r.started) // else the last one was refused
	return whole
}

// plus adds the usage of two requests.
func (u Usage) plus(more Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + more.InputTokens, OutputTokens: u.OutputTokens + more.OutputTokens,
		CachedInputTokens: u.CachedInputTokens + more.CachedInputTokens, ReasoningTokens: u.ReasoningTokens + more.ReasoningTokens,
		Known: u.Known || more.Known,
	}
}

func (r *recorder) answer() *Answer {
	return &Answer{Text: r.text.String(), ToolCalls: r.done, Usage: r.consumed(), Stop: r.stop, State: r.state}
}

// said is the arguments of a call as a provider is told of them: one refuses a whole conversation for a call that its own
// model made badly.
func said(arguments string) string {
	if isObject(arguments) {
		return arguments
	}
	return "{}"
}

// valid is a text without bytes that are none.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// isObject says whether text is one JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}
