package model

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// messagesReader reads an answer of the Messages API. A block may come in pieces, whole where it begins, or in the message that holds it.
type messagesReader struct {
	*question
	out    *recorder
	blocks []*messageBlock
	kept   int    // bytes of what the blocks began with
	stop   string // the reason, "" = it is not told yet

	prompt [3]int64 // tokens that the cache had no part in, that went into it, that came from it
	input  bool     // they are told
	usage  Usage
}

// messageBlock is a block of the content: a text, a thought, a call, or what the provider's own tools do.
type messageBlock struct {
	kind      string
	index     int64 // -1 = it is not told
	begun     []byte
	said      strings.Builder // text, thought or input, in pieces
	signature string
	seam      rawjson.Seam
	call      *toolDraft // nil = it is none of ours
	whole     bool       // it came with its message
	ended     bool
}

const (
	textBlock     = "text"
	thinkingBlock = "thinking"
	toolBlock     = "tool_use"
)

// event takes an event, and says whether it is the last.
func (r *messagesReader) event(told object) (bool, error) {
	switch told.string("type") {
	case "message_start":
		return false, r.message(told.object("message"), false)
	case "content_block_start":
		return false, r.begin(told.number("index"), told.object("content_block"), false)
	case "content_block_delta":
		return false, r.delta(told.number("index"), told.object("delta"))
	case "content_block_stop":
		return false, r.end(told)
	case "message_delta":
		r.count(told.object("usage"), true)
		if reason := told.object("delta").string("stop_reason"); reason != "" {
			r.stop = reason
			return false, r.finish()
		}
		return false, nil
	case "message_stop":
		if err := r.message(told.object("message"), true); err != nil {
			return true, err
		}
		return true, r.finish()
	case "message":
		return true, r.document(told)
	}
	if complaint := r.complaint(told); complaint != nil {
		return true, complaint
	}
	return false, nil
}

// document takes a whole message in place of a stream.
func (r *messagesReader) document(told object) error {
	if err := r.message(told, true); err != nil {
		return err
	}
	return r.finish()
}

// message takes a message, as far as it is there.
func (r *messagesReader) message(told object, final bool) error {
	r.count(told.object("usage"), final)
	if len(r.blocks) == 0 { // else they are told already
		for i, block := range told.list("content") {
			if err := r.begin(int64(i), block, true); err != nil {
				return err
			}
		}
	}
	if reason := told.string("stop_reason"); reason != "" {
		r.stop = reason
	}
	return nil
}

// begin takes a block where it begins, or as its message holds it. One that came with the message may begin once more.
func (r *messagesReader) begin(index int64, told object, whole bool) error {
	kind := told.string("type")
	if kind == "" && told.has("text") {
		kind = textBlock
	}
	if known := r.newest(kind, index); known != nil && known.kind == kind && (known.whole || known.again(told)) {
		return r.settle(known, told, r.out.begins)
	}
	block, err := r.open(kind, index)
	if err != nil {
		return err
	}
	block.whole = whole
	if r.kept += len(told.raw); r.kept <= r.out.limit {
		block.begun = slices.Clone(told.raw)
	}
	switch kind {
	case textBlock:
		return r.say(block, told.text("text"))
	case thinkingBlock, "redacted_thinking":
		r.out.alive()
		block.signature = told.string("signature")
		return r.say(block, told.text("thinking"))
	case toolBlock:
		if err := r.out.names(block.call, told.string("id"), told.string("name")); err != nil {
			return err
		}
		if input := told.arguments("input").String(); input != "{}" {
			return r.out.begins(block.call, input)
		}
	}
	return nil
}

// again says whether a block that begins is this one, told again.
func (b *messageBlock) again(told object) bool {
	id := told.string("id")
	return !b.ended && b.call != nil && id != "" && id == b.call.id && b.call.arguments.Len() == 0
}

// settle takes the whole of a block that is known. An input with nothing in it is a placeholder.
func (r *messagesReader) settle(block *messageBlock, told object, settles func(call *toolDraft, input string) error) error {
	switch {
	case block.call != nil:
		if err := r.out.names(block.call, told.string("id"), told.string("name")); err != nil {
			return err
		}
		if input := told.arguments("input").String(); input != "{}" {
			return settles(block.call, input)
		}
	case block.kind == textBlock, block.kind == thinkingBlock:
		if rest, goesOn := strings.CutPrefix(valid(told.text(block.kind).String()), block.said.String()); goesOn {
			block.seam = rawjson.Seam{} // what it holds is in the rest
			return r.pass(block, rest)
		}
	}
	return nil
}

// end takes the end of a block, with which some say all of it once more, or for the first time.
func (r *messagesReader) end(told object) error {
	index, last := told.number("index"), told.object("content_block")
	for _, block := range slices.Backward(r.blocks) {
		if block.index != index && index >= 0 {
			continue
		}
		block.ended = true
		if last.string("type") == block.kind {
			return r.settle(block, last, r.out.settles)
		}
		return nil
	}
	if last.raw == nil {
		return nil
	}
	return r.begin(index, last, false)
}

// say passes a piece of a text or a thought on.
func (r *messagesReader) say(block *messageBlock, piece rawjson.Text) error {
	return r.pass(block, valid(block.seam.Join(piece).String()))
}

func (r *messagesReader) pass(block *messageBlock, piece string) error {
	block.said.WriteString(piece)
	if block.kind == textBlock {
		return r.out.Text(piece)
	}
	r.out.thought(piece)
	return nil
}

func (r *messagesReader) delta(index int64, told object) error {
	switch kind := told.string("type"); {
	case kind == "text_delta", kind == "" && told.has("text"):
		block, err := r.meant(textBlock, index)
		if err != nil {
			return err
		}
		return r.say(block, told.text("text"))
	case kind == "thinking_delta", kind == "" && told.has("thinking"):
		block, err := r.meant(thinkingBlock, index)
		if err != nil {
			return err
		}
		return r.say(block, told.text("thinking"))
	case kind == "signature_delta":
		block, err := r.meant(thinkingBlock, index)
		if err != nil {
			return err
		}
		block.signature = told.string("signature")
	case kind == "input_json_delta", kind == "" && told.has("partial_json"):
		block, err := r.meant(toolBlock, index)
		if err != nil {
			return err
		}
		piece := told.arguments("partial_json")
		if block.call == nil { // the provider runs it by itself
			block.said.WriteString(block.seam.Join(piece).String())
			return r.keep(len(piece))
		}
		return r.out.adds(block.call, piece)
	}
	return nil
}

// keep bounds what is kept of blocks that are neither text nor calls.
func (r *messagesReader) keep(more int) error {
	if r.kept += more; r.kept > maxKept {
		return provider.ErrAnswerSize
	}
	return nil
}

// maxKept bounds what a provider's own tools may be asked, beside what they answer.
const maxKept = 4 << 20

// newest is the newest block of a kind under a number, or under any where it is not told; nil = there is none.
func (r *messagesReader) newest(kind string, index int64) *messageBlock {
	for _, block := range slices.Backward(r.blocks) {
		tool := kind == toolBlock && strings.HasSuffix(block.kind, toolBlock)
		if (block.kind == kind || tool) && (index < 0 || block.index == index) {
			return block
		}
	}
	return nil
}

// meant is the block that a piece goes into. One that was not known is opened by it.
func (r *messagesReader) meant(kind string, index int64) (*messageBlock, error) {
	if block := r.newest(kind, index); block != nil {
		return block, nil
	}
	return r.open(kind, index)
}

func (r *messagesReader) open(kind string, index int64) (*messageBlock, error) {
	block := &messageBlock{kind: kind, index: index}
	if r.blocks = append(r.blocks, block); len(r.blocks) > maxItems {
		return nil, provider.ErrAnswerSize
	}
	var err error
	if kind == toolBlock {
		block.call, err = r.out.open(int64(len(r.blocks)))
	}
	return block, err
}

// finish ends the answer as the provider says, or pauses it.
func (r *messagesReader) finish() error {
	blocks := inOrder(r.blocks, func(block *messageBlock) int64 { return block.index })
	r.out.calls = r.out.calls[:0]
	for _, block := range blocks {
		if block.call != nil {
			r.out.calls = append(r.out.calls, block.call)
		}
	}
	pauses := r.stop == "pause_turn" && len(r.out.calls) == 0 // calls are ours to run before it can go on
	if pauses || len(r.out.calls) > 0 {
		if err := r.keepAll(blocks); err != nil && pauses {
			return err
		}
	}
	switch r.stop {
	case "end_turn", "stop_sequence":
		r.out.finish(StopEnd)
	case "tool_use":
		r.out.finish(StopTools)
	case "max_tokens", "model_context_window_exceeded":
		r.out.finish(StopLength)
	case "refusal":
		r.out.finish(StopFilter)
	case "pause_turn":
		if !pauses {
			r.out.finish(StopTools)
			return nil
		}
		r.out.pause()
	case "":
		return r.unknownEnd("its answer ended without a stop_reason")
	default:
		return r.unknownEnd("its answer ended with " + r.stop)
	}
	return nil
}

// keepAll notes the content until now, as the provider wants it back.
func (r *messagesReader) keepAll(blocks []*messageBlock) error {
	if r.out.said = nil; r.kept > r.out.limit {
		r.out.forgotten = true
		return provider.ErrAnswerSize
	}
	for _, block := range blocks {
		said := block.said.String()
		switch {
		case block.kind == textBlock:
			r.out.said = append(r.out.said, held{text: said})
			continue
		case block.call != nil:
			r.out.said = append(r.out.said, held{call: block.call})
			continue
		}
		fields, _ := rawjson.Object(block.begun) // nothing, where a piece opened it
		whole := map[string]any{"type": block.kind}
		for _, field := range fields {
			whole[field.Name] = json.RawMessage(field.Value)
		}
		switch {
		case block.kind == thinkingBlock:
			whole[thinkingBlock] = said
			if block.signature != "" || fields.Get("signature") != nil {
				whole["signature"] = block.signature
			}
		case isObject(said):
			whole["input"] = json.RawMessage(said)
		}
		encoded, err := json.Marshal(whole)
		if err != nil {
			return err
		}
		r.out.said = append(r.out.said, held{raw: encoded})
	}
	return nil
}

// count takes usage. Its numbers are totals; what is missing, or nothing where there was something, does not change them. Only the last word
// counts the whole output.
func (r *messagesReader) count(usage object, final bool) {
	var said [len(r.prompt)]int64
	var told [len(r.prompt)]bool
	something := false
	for i, name := range []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
		told[i] = usage.tell(&said[i], name)
		something = something || said[i] != 0
	}
	for i := range said {
		if told[i] && (something || !r.input) {
			r.prompt[i] = said[i]
		}
	}
	r.input = r.input || slices.Contains(told[:], true)
	output := usage.tell(&r.usage.OutputTokens, "output_tokens")
	usage.object("output_tokens_details").tell(&r.usage.ReasoningTokens, "thinking_tokens")
	r.usage.InputTokens, r.usage.CachedInputTokens = provider.Sum(r.prompt[:]...), r.prompt[2]
	r.usage.Known = r.input && (r.usage.Known || output && final)
	if r.input || output {
		r.out.setUsage(r.usage)
	}
}
