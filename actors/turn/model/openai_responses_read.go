package model

import (
	"cmp"
	"slices"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// responseReader reads an answer of the Responses API. A value may come in any of its places, or in several of them: where an item is added,
// in pieces, where a part or the item is done, in the output of the response that has ended.
type responseReader struct {
	*question
	out     *recorder
	items   []*responseItem
	refused bool
	usage   Usage
	input   bool // how much that was is told
	output  bool
}

// responseItem is an item of the output: a message, a call or a thought.
type responseItem struct {
	kind, id string
	index    int64 // -1 = it is not told
	ended    bool
	strands  []*strand
	call     *toolDraft // nil = it is none
	raw      []byte     // of a thought, if it can go back
}

// strand is a part of an item's text, as it was passed on.
type strand struct {
	name  string // one of text, summary, thought
	index int64
	said  strings.Builder
	seam  rawjson.Seam
}

const (
	message  = "message"
	function = "function_call"
	thinking = "reasoning"
)

// event takes an event, and says whether it is the last.
func (r *responseReader) event(told object) (bool, error) {
	kind := told.string("type")
	place, wanted, _ := strings.Cut(strings.TrimPrefix(kind, "response."), ".")
	switch place {
	case "output_text", "refusal", "reasoning_summary_text", "reasoning_text":
		return false, r.text(told, place, wanted)
	case "content_part", "reasoning_summary_part":
		return false, r.part(told, told.object("part"), place)
	case "function_call_arguments":
		return false, r.arguments(told, wanted)
	case "output_item":
		return false, r.item(told, wanted)
	case "completed", "incomplete", "failed", "cancelled":
		return true, r.end(told.object("response"), place)
	}
	if complaint := r.complaint(told); complaint != nil {
		return true, complaint
	}
	if told.string("object") == "response" {
		return true, r.document(told)
	}
	r.count(told.object("response"))
	return false, nil
}

// document takes a whole response in place of a stream.
func (r *responseReader) document(told object) error { return r.end(told, "") }

// text takes a piece of a text, or all of it.
func (r *responseReader) text(told object, place, wanted string) error {
	item, err := r.meant(told, kindOf(place))
	if err != nil {
		return err
	}
	if wanted == "delta" {
		return r.say(item.strand(place, told), told.text("delta"), place)
	}
	whole := told.text("text")
	if place == "refusal" {
		whole = told.text("refusal").And(whole)
	}
	return r.complete(item.strand(place, told), whole, place)
}

// part takes a part of an item, as far as it is there.
func (r *responseReader) part(told, part object, place string) error {
	place = placeOf(part, place)
	item, err := r.meant(told, kindOf(place))
	if err != nil {
		return err
	}
	return r.complete(item.strand(place, told), part.text("text").And(part.text("refusal")), place)
}

// placeOf is the place where the text of a part comes in pieces.
func placeOf(part object, place string) string {
	switch kind := part.string("type"); {
	case kind == "reasoning_text", place == "reasoning_text":
		return "reasoning_text"
	case kind == "refusal" || kind == "" && part.has("refusal"):
		return "refusal"
	case kind == "summary_text", place == "reasoning_summary_part":
		return "reasoning_summary_text"
	}
	return "output_text"
}

func kindOf(place string) string {
	if place == "output_text" || place == "refusal" {
		return message
	}
	return thinking
}

// say passes a piece on.
func (r *responseReader) say(to *strand, piece rawjson.Text, place string) error {
	return r.pass(to, valid(to.seam.Join(piece).String()), place)
}

func (r *responseReader) pass(to *strand, piece, place string) error {
	to.said.WriteString(piece)
	if kindOf(place) == thinking {
		r.out.thought(piece)
		return nil
	}
	r.refused = r.refused || place == "refusal" && piece != ""
	return r.out.Text(piece)
}

// complete passes on what is missing of a text. Of one that differs from what was said, nothing: what is said stays.
func (r *responseReader) complete(to *strand, whole rawjson.Text, place string) error {
	rest, goesOn := strings.CutPrefix(valid(whole.String()), to.said.String())
	if !goesOn || rest == "" {
		return nil
	}
	to.seam = rawjson.Seam{} // what it holds is in the rest
	return r.pass(to, rest, place)
}

// strand is the part of an item that an event is about.
func (i *responseItem) strand(place string, told object) *strand {
	name, number := "text", "content_index"
	switch place {
	case "reasoning_summary_text":
		name, number = "summary", "summary_index"
	case "reasoning_text":
		name = "thought"
	}
	index := told.number(number)
	for _, known := range slices.Backward(i.strands) {
		if known.name == name && (index < 0 || known.index < 0 || known.index == index) {
			known.index = max(known.index, index)
			return known
		}
	}
	made := &strand{name: name, index: index}
	i.strands = append(i.strands, made)
	return made
}

// settle completes all texts of one name together: parts of an item are not always numbered alike.
func (r *responseReader) settle(item *responseItem, name string, parts []object, place string) error {
	var said, whole strings.Builder
	var last *strand
	for _, known := range item.strands {
		if known.name == name {
			said.WriteString(known.said.String())
			last = known
		}
	}
	for i, part := range parts {
		text, at := valid(part.text("text").And(part.text("refusal")).String()), placeOf(part, place)
		r.refused = r.refused || at == "refusal"
		whole.WriteString(text)
		rest := whole.Len() - said.Len()
		if rest <= 0 || !strings.HasPrefix(whole.String(), said.String()) {
			continue
		}
		if last == nil || i > 0 {
			last = &strand{name: name, index: int64(i)}
			item.strands = append(item.strands, last)
		}
		piece := text[max(len(text)-rest, 0):]
		last.seam = rawjson.Seam{} // what it holds is in the rest
		if err := r.pass(last, piece, at); err != nil {
			return err
		}
		said.WriteString(piece)
	}
	return nil
}

// arguments takes a piece of a call's arguments, or all of them.
func (r *responseReader) arguments(told object, wanted string) error {
	item, err := r.meant(told, function)
	if err != nil {
		return err
	}
	if wanted == "delta" {
		return r.out.adds(item.call, told.arguments("delta"))
	}
	if err := r.out.names(item.call, told.string("call_id"), told.string("name")); err != nil {
		return err
	}
	return r.out.settles(item.call, told.arguments("arguments").String())
}

// item takes an item that is added or done.
func (r *responseReader) item(told object, wanted string) error {
	inner := told.object("item")
	kind := itemKind(inner)
	if kind == "" {
		return nil
	}
	done := wanted == "done"
	id, index := cmp.Or(inner.string("id"), told.string("item_id")), told.number("output_index")
	item := r.find(kind, id, inner.string("call_id"), index)
	switch {
	case item == nil && done:
		item = r.newest(kind, func(open *responseItem) bool {
			named := open.call == nil || open.call.name == "" || open.call.name == inner.string("name")
			return named && (id == "" || open.id == "") && (index < 0 || open.index < 0)
		})
	case item != nil && !done && !item.same(id, inner.string("call_id"), index):
		item = nil
	}
	if item == nil {
		var err error
		if item, err = r.open(kind, id, index); err != nil {
			return err
		}
	}
	item.ended = item.ended || done
	return r.fill(item, inner, !done)
}

// fill takes what an item holds.
func (r *responseReader) fill(item *responseItem, told object, begins bool) error {
	switch item.kind {
	case function:
		if err := r.out.names(item.call, told.string("call_id"), told.string("name")); err != nil {
			return err
		}
		item.call.partial = !begins && told.string("status") == "incomplete"
		if begins {
			return r.out.begins(item.call, told.arguments("arguments").String())
		}
		return r.out.settles(item.call, told.arguments("arguments").String())
	case thinking:
		r.out.alive()
		if told.string("encrypted_content") != "" || len(told.list("content")) > 0 { // others are known to the provider only if it stores them
			item.raw = slices.Clone(told.raw)
		}
		if err := r.settle(item, "summary", told.list("summary"), "reasoning_summary_part"); err != nil {
			return err
		}
		return r.settle(item, "thought", told.list("content"), "reasoning_text")
	}
	return r.settle(item, "text", told.list("content"), "output_text")
}

func itemKind(item object) string {
	switch kind := item.string("type"); kind {
	case message, function, thinking:
		return kind
	case "":
		if item.has("arguments") {
			return function
		}
		if item.has("content") {
			return message
		}
	}
	return "" // a tool that the provider runs by itself, or what is not known
}

// meant is the item that an event is about; one that was not known is opened by it.
func (r *responseReader) meant(told object, kind string) (*responseItem, error) {
	id, index := told.string("item_id"), told.number("output_index")
	item := r.find(kind, id, "", index)
	if item == nil {
		item = r.newest(kind, func(open *responseItem) bool {
			return (id == "" || open.id == "") && (index < 0 || open.index < 0)
		})
	}
	if item == nil {
		return r.open(kind, id, index)
	}
	if index >= 0 {
		item.index = index
	}
	return item, nil
}

// newest is the newest item that has not ended and that nothing speaks against; nil = there is none.
func (r *responseReader) newest(kind string, fits func(open *responseItem) bool) *responseItem {
	for _, item := range slices.Backward(r.items) {
		if item.kind == kind && !item.ended && fits(item) {
			return item
		}
	}
	return nil
}

func (r *responseReader) open(kind, id string, index int64) (*responseItem, error) {
	item := &responseItem{kind: kind, id: id, index: index}
	r.items = append(r.items, item)
	if len(r.items) > maxItems {
		return nil, provider.ErrAnswerSize
	}
	var err error
	if kind == function {
		item.call, err = r.out.open(int64(len(r.items)))
	}
	return item, err
}

// maxItems bounds the items of one answer.
const maxItems = 1024

// find is the item that an id or a number stands for, the newest of several; nil = it is not known. The number of one that has ended is
// free for another.
func (r *responseReader) find(kind, id, callID string, index int64) *responseItem {
	var found *responseItem
	best := 0
	for _, item := range r.items {
		if score := item.score(kind, id, callID, index); score > 0 && score >= best && (!item.ended || score >= byID) {
			found, best = item, score
		}
	}
	return found
}

// What speaks for an item, and what against it.
const (
	byNumber      = 2
	byID          = 4
	anotherID     = 1 // some make up a new one each time
	anotherNumber = 3
)

func (i *responseItem) score(kind, id, callID string, index int64) (score int) {
	if i.kind != kind {
		return 0
	}
	if id != "" && id == i.id {
		score += byID
	}
	switch {
	case callID == "" || i.call == nil || i.call.id == "":
	case callID == i.call.id:
		score += byID
	default:
		score -= anotherID
	}
	switch {
	case index < 0 || i.index < 0:
	case index == i.index:
		score += byNumber
	default:
		score -= anotherNumber
	}
	return score
}

// same says whether an item that is added is this one told again: nothing contradicts it.
func (i *responseItem) same(id, callID string, index int64) bool {
	return (id == "" || i.id == "" || id == i.id) && (index < 0 || i.index < 0 || index == i.index) &&
		(callID == "" || i.call == nil || i.call.id == "" || callID == i.call.id)
}

// end takes a response that has ended: what it repeats of the answer, its usage, and how it ended. Where it contradicts itself, the status
// counts that is no success.
func (r *responseReader) end(told object, event string) error {
	r.count(told)
	status := told.string("status")
	if failure, _ := rawjson.Object(told.fields.Get("error")); failure.Text("message")+failure.Text("code")+told.string("error") != "" {
		status = "failed"
	}
	if event != "" && (status == "" || event != "completed" && status != "failed" && status != "cancelled") {
		status = event // else the status says more
	}
	switch status {
	case "failed", "cancelled":
		if complaint := provider.Complaint(0, told.raw, r.secrets); complaint.Message != "" || complaint.Class != provider.Unnamed {
			return complaint
		}
		return r.unknownEnd("its response is " + status)
	}
	if err := r.settleAll(told.list("output")); err != nil {
		return err
	}
	reason := told.object("incomplete_details").string("reason")
	switch {
	case r.refused, reason == "content_filter":
		r.finish(StopFilter)
	case reason == "max_output_tokens", reason == "max_tokens", reason == "length":
		r.finish(StopLength)
	case status == "completed", event == "completed" && (status == "in_progress" || status == "queued"): // which was left standing
		r.finish(StopEnd)
	default:
		return r.unknownEnd(strings.Join(strings.Fields("its response is "+cmp.Or(status, "without a status")+" "+reason), " "))
	}
	return nil
}

// finish ends the answer, with its calls in the order of the output.
func (r *responseReader) finish(stop Stop) {
	r.out.calls, r.out.said = r.out.calls[:0], nil
	for _, item := range inOrder(r.items, func(item *responseItem) int64 { return item.index }) {
		if item.call != nil {
			r.out.calls = append(r.out.calls, item.call)
		}
		r.out.said = append(r.out.said, item.held())
	}
	r.out.finish(stop)
}

// held is the item as the provider wants it back.
func (i *responseItem) held() held {
	var text strings.Builder
	for _, one := range i.strands {
		if one.name == "text" {
			text.WriteString(one.said.String())
		}
	}
	return held{raw: i.raw, text: text.String(), call: i.call}
}

// settleAll takes the output of a response. What it does not hold is not contradicted.
func (r *responseReader) settleAll(output []object) error {
	all, err := r.sayRest(output)
	if err != nil {
		return err
	}
	known := r.match(output)
	for i, told := range output {
		kind, item := itemKind(told), known[i]
		if kind == "" || kind == message && all {
			continue
		}
		if item == nil {
			if item, err = r.open(kind, told.string("id"), int64(i)); err != nil {
				return err
			}
		}
		item.index = int64(i)
		if err := r.fill(item, told, false); err != nil {
			return err
		}
	}
	return nil
}

// match finds the items that came before among those of the output: those with an id first, then those with a number, then the next of
// their kind that nothing speaks against.
func (r *responseReader) match(output []object) []*responseItem {
	matched, left := make([]*responseItem, len(output)), slices.Clone(r.items)
	for _, least := range []int{byID, 1, -anotherNumber} {
		for i, told := range output {
			if matched[i] != nil {
				continue
			}
			at, best := -1, least-1
			for j, item := range left {
				if item.call != nil && item.call.name != "" && item.call.name != told.string("name") {
					continue
				}
				id, callID := told.string("id"), told.string("call_id")
				score := item.score(itemKind(told), id, callID, int64(i))
				if score > best && (least > 0 || item.kind == itemKind(told) && item.same(id, callID, -1)) {
					at, best = j, score
				}
			}
			if at >= 0 {
				matched[i] = left[at]
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	return matched
}

// sayRest says what is missing of the whole text where it goes on from what was said, whatever its items are called. Otherwise they are
// compared one by one.
func (r *responseReader) sayRest(output []object) (bool, error) {
	var whole strings.Builder
	for _, item := range output {
		if itemKind(item) == message {
			for _, part := range item.list("content") {
				r.refused = r.refused || placeOf(part, "") == "refusal"
				whole.WriteString(part.text("text").And(part.text("refusal")).String())
			}
		}
	}
	rest, goesOn := strings.CutPrefix(valid(whole.String()), r.out.text.String())
	if !goesOn {
		return false, nil
	}
	return true, r.out.Text(rest)
}

// count takes the usage that a response tells of.
func (r *responseReader) count(response object) {
	usage := response.object("usage")
	input := usage.tell(&r.usage.InputTokens, "input_tokens", "prompt_tokens")
	output := usage.tell(&r.usage.OutputTokens, "output_tokens", "completion_tokens")
	for _, details := range []string{"prompt_tokens_details", "input_tokens_details"} {
		usage.object(details).tell(&r.usage.CachedInputTokens, "cached_tokens")
	}
	usage.object("output_tokens_details").tell(&r.usage.ReasoningTokens, "reasoning_tokens")
	r.input, r.output = r.input || input, r.output || output
	r.usage.Known = r.input && r.output
	if r.input || r.output {
		r.out.setUsage(r.usage)
	}
}
