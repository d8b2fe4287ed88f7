package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// TestMutatedStreams: answers that are known are told in all the ways that there are, in pieces, in several places, in one of them alone,
// between each other, in a document. What is read is what they are, or it is no answer. PARLEY_MUTATED_STREAMS is how many,
// PARLEY_MUTATED_SEED the first of them.
func TestMutatedStreams(t *testing.T) {
	number := func(name string, otherwise uint64) uint64 {
		if set, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return set
		}
		return otherwise
	}
	first := number("PARLEY_MUTATED_SEED", 1)
	for seed := first; seed < first+number("PARLEY_MUTATED_STREAMS", 4000); seed++ {
		for name, encode := range map[string]func(m *mutator) (told string, whole bool){"responses": (*mutator).responses, "messages": (*mutator).messages} {
			m := &mutator{Rand: rand.New(rand.NewPCG(seed, 26))} //nolint:gosec // a test that can be repeated
			m.invent(name == "messages")
			told, whole := encode(m)
			wrong := m.compare(name, told, whole)
			if wrong != "" {
				require.Failf(t, "what is read differs", "PARLEY_MUTATED_SEED=%d PARLEY_MUTATED_STREAMS=1 %s: %s\n%s", seed, name, wrong, told)
			}
		}
	}
}

// mutator tells one known answer.
type mutator struct {
	*rand.Rand
	items   []*knownItem
	usage   Usage
	stop    Stop
	refused bool
	mode    int // how items are told apart
}

type knownItem struct {
	kind, text string // message, function_call or reasoning; its text or arguments
	id, name   string // of a call
	at         int
}

func (m *mutator) chance(percent int) bool { return m.IntN(100) < percent }

func (m *mutator) word(alphabet string, least int) string {
	letters := []rune(alphabet)
	word := make([]rune, least+m.IntN(12))
	for i := range word {
		word[i] = letters[m.IntN(len(letters))]
	}
	return string(word)
}

// invent makes up an answer. Thoughts are in Greek, so that they are told apart.
func (m *mutator) invent(cacheApart bool) {
	kinds := []string{message, message, function, function, thinking}
	for range 1 + m.IntN(5) {
		item := &knownItem{kind: kinds[m.IntN(len(kinds))], at: len(m.items)}
		switch item.kind {
		case message:
			item.text = m.word("abc xyz\n\"\\ö🌍", 6)
		case thinking:
			item.text = m.word("αβγδεζ", 6)
		default:
			item.id, item.name = fmt.Sprintf("call%d", item.at), []string{"look", "find"}[m.IntN(2)]
			arguments, _ := json.Marshal(map[string]any{"n": m.IntN(1000), "text": m.word("abc\"\\{}🌍", 0)})
			item.text = string(arguments)
			if m.chance(10) {
				item.text = "{}"
			}
		}
		m.items = append(m.items, item)
	}
	m.usage = Usage{InputTokens: int64(10 + m.IntN(5000)), OutputTokens: int64(2 + m.IntN(5000)), Known: true}
	if m.chance(50) {
		m.usage.CachedInputTokens = int64(m.IntN(int(m.usage.InputTokens)))
		m.usage.ReasoningTokens = int64(m.IntN(int(m.usage.OutputTokens)))
	}
	m.stop = StopEnd
	switch m.IntN(10) {
	case 0:
		m.stop = StopLength
	case 1:
		m.stop = StopFilter
	}
	for _, item := range m.items {
		if m.stop == StopLength && item.text == "{}" {
			item.text = `{"n":0}` // a call with nothing yet may be cut
		}
	}
	m.refused = !cacheApart && m.stop == StopFilter
}

// compare reads what was told, and says how it differs from what is known; "" = not at all.
func (m *mutator) compare(name, told string, whole bool) string {
	var thoughts strings.Builder
	listener := &heard{}
	out := &recorder{stream: listener, limit: 1 << 20, idPrefix: "call_run", hears: hearing{unsaid: func(piece string) {
		thoughts.WriteString(strings.Map(func(c rune) rune {
			if c < 'α' || c > 'ζ' {
				return -1
			}
			return c
		}, piece))
	}}}
	asked := &question{}
	var err error
	if name == "messages" {
		reader := &messagesReader{question: asked, out: out}
		err = asked.read(strings.NewReader(told), reader.event, reader.document)
	} else {
		reader := &responseReader{question: asked, out: out}
		err = asked.read(strings.NewReader(told), reader.event, reader.document)
	}
	if !whole {
		if err == nil && out.finished {
			return "what has no end is called complete"
		}
		return ""
	}
	if err == nil && out.finished {
		err = out.deliver()
	}
	switch {
	case err != nil:
		return "error: " + err.Error()
	case !out.finished:
		return "it has not ended"
	}
	return m.differs(out.answer(), thoughts.String())
}

func (m *mutator) differs(answer *Answer, thoughts string) string {
	var text, thought strings.Builder
	var calls []ToolCall
	for _, item := range m.items {
		switch item.kind {
		case message:
			text.WriteString(item.text)
		case thinking:
			thought.WriteString(item.text)
		default:
			calls = append(calls, ToolCall{ID: item.id, Name: item.name, Arguments: item.text})
		}
	}
	stop := m.stop
	if stop == StopEnd && len(calls) > 0 {
		stop = StopTools
	}
	if stop == StopFilter {
		calls = nil
	}
	said := slices.Clone(answer.ToolCalls)
	for i := range min(len(said), len(calls)) {
		var a, b bytes.Buffer
		if json.Compact(&a, []byte(said[i].Arguments)) == nil && json.Compact(&b, []byte(calls[i].Arguments)) == nil && a.String() == b.String() {
			said[i].Arguments = calls[i].Arguments // they may be told in another form
		}
	}
	for _, c := range []struct {
		what      string
		want, got any
	}{
		{"text", text.String(), answer.Text},
		{"thoughts", thought.String(), thoughts},
		{"calls", fmt.Sprintf("%q", calls), fmt.Sprintf("%q", said)},
		{"usage", m.usage, answer.Usage},
		{"stop", stop, answer.Stop},
	} {
		if c.want != c.got {
			return fmt.Sprintf("%s: %v\nis read as: %v", c.what, c.want, c.got)
		}
	}
	return ""
}

// js is JSON.
type js = map[string]any

func encoded(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return strings.TrimSpace(text.String())
}

// cut splits a text into pieces, be it within a character.
func (m *mutator) cut(text string) (pieces []any) {
	units, halves := utf16.Encode([]rune(text)), m.chance(50)
	for len(units) > 0 {
		n := 1 + m.IntN(len(units))
		if m.chance(50) {
			n = min(n, 3)
		}
		for !halves && n < len(units) && utf16.IsSurrogate(rune(units[n-1])) && units[n-1] < 0xDC00 {
			n++
		}
		pieces, units = append(pieces, m.quoted(units[:n])), units[n:]
	}
	return pieces
}

// quoted is a JSON string in which what need not be escaped may be.
func (m *mutator) quoted(units []uint16) json.RawMessage {
	quoted := []byte{'"'}
	plain := m.chance(50) && !slices.ContainsFunc(units, func(unit uint16) bool { return utf16.IsSurrogate(rune(unit)) })
	for _, unit := range units {
		if plain && unit >= ' ' && unit != '"' && unit != '\\' {
			quoted = append(quoted, string(rune(unit))...)
			continue
		}
		quoted = fmt.Appendf(quoted, `\u%04X`, unit)
	}
	return append(quoted, '"')
}

// merge puts the events of items between each other. What is shown keeps its order.
func (m *mutator) merge(events [][]js, apart bool) (merged []js) {
	if !apart {
		return slices.Concat(events...)
	}
	for {
		var ready []int
		shown := map[string]bool{}
		for i, item := range m.items {
			if len(events[i]) == 0 {
				continue
			}
			if item.kind == function || !shown[item.kind] {
				ready = append(ready, i)
			}
			shown[item.kind] = true
		}
		if len(ready) == 0 {
			return merged
		}
		next := ready[m.IntN(len(ready))]
		merged, events[next] = append(merged, events[next][0]), events[next][1:]
	}
}

// frame writes a stream of events.
func (m *mutator) frame(events []js) string {
	var stream strings.Builder
	end := "\n"
	if m.chance(30) {
		end = "\r\n"
	}
	named, space := m.chance(70), m.chance(80)
	for _, event := range events {
		if m.chance(5) {
			stream.WriteString(": ping" + end + end)
		}
		if m.chance(5) {
			stream.WriteString("data:" + end + end)
		}
		if named {
			fmt.Fprintf(&stream, "event: %s%s", event["type"], end)
		}
		data := encoded(event)
		if m.chance(5) {
			var lines bytes.Buffer
			_ = json.Indent(&lines, []byte(data), "", " ")
			data = lines.String()
		}
		for line := range strings.SplitSeq(data, "\n") {
			stream.WriteString("data:")
			if space {
				stream.WriteString(" ")
			}
			stream.WriteString(line + end)
		}
		stream.WriteString(end)
	}
	if m.chance(20) {
		stream.WriteString("data: [DONE]" + end + end)
	}
	return stream.String()
}

// whole is arguments where they stand all at once: as JSON in a string, or as they are.
func (m *mutator) whole(arguments string) any {
	if m.chance(30) {
		return json.RawMessage(arguments)
	}
	return arguments
}

// nothing is a value that says nothing.
func (m *mutator) nothing() any {
	if m.chance(50) {
		return nil
	}
	return ""
}

// How the items of a response are told apart.
const (
	byBoth = iota
	byIDAlone
	byIndexAlone
	byFreshIDs
	byIDUnderOneIndex
	byIndexWithOneID
	byOrder
	waysApart
)

func (m *mutator) itemID(item *knownItem) string {
	switch m.mode {
	case byIndexAlone, byOrder:
		return ""
	case byFreshIDs:
		return fmt.Sprintf("fresh%d", m.Uint64())
	case byIndexWithOneID:
		return "item"
	}
	return fmt.Sprintf("item%d", item.at)
}

// place is an event about an item.
func (m *mutator) place(kind string, item *knownItem, more js) js {
	event := js{"type": "response." + kind, "sequence_number": 1}
	if id := m.itemID(item); id != "" && !strings.HasPrefix(kind, "output_item") {
		event["item_id"] = id
	}
	switch m.mode {
	case byIDAlone, byOrder:
	case byIDUnderOneIndex:
		event["output_index"] = 0
	default:
		event["output_index"] = item.at
	}
	for name, value := range more {
		event[name] = value
	}
	return event
}

// mustOpen says that an item can only be told from another where it is added.
func (m *mutator) mustOpen() bool {
	return m.mode == byOrder || m.mode == byIndexWithOneID || m.mode == byIDUnderOneIndex
}

// spread chooses the places of a value: one at least.
func (m *mutator) spread(places ...string) map[string]bool {
	held := map[string]bool{places[m.IntN(len(places))]: true}
	for _, place := range places {
		if m.chance(30) {
			held[place] = true
		}
	}
	return held
}

func (m *mutator) responses() (string, bool) {
	m.mode = m.IntN(waysApart)
	late := map[string]bool{} // kinds of which one is told in the end alone: so are those after it
	events := make([][]js, len(m.items))
	var output []js
	lastText := -1
	for _, item := range m.items {
		if item.kind == message {
			lastText = item.at
		}
	}
	document := m.chance(5)
	for i, item := range m.items {
		var final js
		if item.kind == function {
			events[i], final = m.responsesCall(item, document)
		} else {
			held := m.spread("added", "part_added", "delta", "done", "part_done", "item_done", "final")
			if late[item.kind] || document {
				held = map[string]bool{"final": true}
			}
			events[i], final = m.responsesText(item, held, i == lastText)
			late[item.kind] = len(held) == 1 && held["final"]
		}
		output = append(output, final)
	}
	told := js{"object": "response", "id": "r1", "status": "completed", "error": nil, "output": output, "usage": js{
		"input_tokens": m.usage.InputTokens, "output_tokens": m.usage.OutputTokens, "total_tokens": 1,
		"input_tokens_details":  js{"cached_tokens": m.usage.CachedInputTokens},
		"output_tokens_details": js{"reasoning_tokens": m.usage.ReasoningTokens},
	}}
	kind := "response.completed"
	switch {
	case m.stop == StopLength:
		told["incomplete_details"] = js{"reason": "max_output_tokens"}
		told["status"], kind = "incomplete", []string{kind, "response.incomplete"}[m.IntN(2)]
	case m.stop == StopFilter && !m.textRefused():
		told["incomplete_details"] = js{"reason": "content_filter"}
		told["status"], kind = "incomplete", "response.incomplete"
	case !document && m.chance(20):
		told["status"] = []any{nil, "in_progress"}[m.IntN(2)]
	}
	if document {
		return encoded(told), true
	}
	stream := m.merge(events, m.mode != byOrder)
	if m.chance(10) {
		return m.frame(stream[:m.IntN(len(stream)+1)]), false
	}
	if m.chance(50) {
		stream = slices.Insert(stream, 0, js{"type": "response.created", "response": js{"object": "response", "status": "in_progress", "output": []any{}, "usage": nil}})
	}
	return m.frame(append(stream, js{"type": kind, "response": told})), true
}

// textRefused says whether a text of the answer is a refusal, which says why it ended.
func (m *mutator) textRefused() bool {
	return m.refused && slices.ContainsFunc(m.items, func(item *knownItem) bool { return item.kind == message })
}

func (m *mutator) responsesText(item *knownItem, held map[string]bool, last bool) (events []js, final js) {
	kind, part, name, field, number := "output_text", "content_part", "output_text", "text", "content_index"
	switch {
	case item.kind == thinking:
		kind, part, name, number = "reasoning_summary_text", "reasoning_summary_part", "summary_text", "summary_index"
	case m.refused:
		kind, name, field = "refusal", "refusal", "refusal"
	}
	parts := func(place string) []js {
		if !held[place] {
			if m.chance(50) {
				return []js{}
			}
			return []js{{"type": name, field: ""}}
		}
		return []js{{"type": name, field: item.text}}
	}
	object := func(place string) js {
		said := js{"type": item.kind, "id": m.itemID(item), "content": parts(place)}
		if item.kind == thinking {
			said["summary"] = said["content"]
			delete(said, "content")
		}
		return said
	}
	content := func(more js) js {
		if m.chance(80) {
			more[number] = 0
		}
		return more
	}
	opened := held["added"] || m.mustOpen() || m.chance(60)
	onlyFinal := len(held) == 1 && held["final"] && m.chance(50)
	if opened && !onlyFinal {
		events = append(events, m.place("output_item.added", item, js{"item": object("added")}))
	}
	if held["part_added"] || m.chance(30) && !onlyFinal {
		events = append(events, m.place(part+".added", item, content(js{"part": js{"type": name, field: textIf(held["part_added"], item.text)}})))
	}
	if held["delta"] && !held["added"] && !held["part_added"] {
		pieces := m.cut(item.text)
		if held["done"] || held["part_done"] || held["item_done"] || held["final"] && last && item.kind == message {
			pieces = pieces[:m.IntN(len(pieces)+1)] // the rest is told there
		}
		for _, piece := range pieces {
			events = append(events, m.place(kind+".delta", item, content(js{"delta": piece})))
		}
	}
	if held["done"] || m.chance(30) && !onlyFinal {
		events = append(events, m.place(kind+".done", item, content(js{field: textIf(held["done"], item.text)})))
	}
	if held["part_done"] || m.chance(30) && !onlyFinal {
		events = append(events, m.place(part+".done", item, content(js{"part": parts("part_done")})))
		if p, _ := events[len(events)-1]["part"].([]js); len(p) > 0 {
			events[len(events)-1]["part"] = p[0]
		} else {
			events[len(events)-1]["part"] = js{"type": name, field: ""}
		}
	}
	if held["item_done"] || m.mode == byOrder && !onlyFinal || m.chance(30) && !onlyFinal {
		events = append(events, m.place("output_item.done", item, js{"item": object("item_done")}))
	}
	return events, object("final")
}

func textIf(held bool, text string) string {
	if held {
		return text
	}
	return ""
}

func (m *mutator) responsesCall(item *knownItem, document bool) (events []js, final js) {
	held := m.spread("added", "delta", "done", "item_done", "final")
	if document {
		held = map[string]bool{"final": true}
	}
	object := func(place string) js {
		arguments := m.nothing()
		if held[place] {
			arguments = m.whole(item.text)
		} else if place == "added" && m.chance(20) {
			arguments = "{}"
		}
		return js{"type": function, "id": m.itemID(item), "call_id": item.id, "name": item.name, "arguments": arguments, "status": "completed"}
	}
	onlyFinal := len(held) == 1 && held["final"] && m.chance(50)
	if onlyFinal || document {
		return nil, object("final")
	}
	if held["added"] || m.mustOpen() || m.chance(60) {
		events = append(events, m.place("output_item.added", item, js{"item": object("added")}))
	}
	if held["delta"] {
		for _, piece := range m.cut(item.text) {
			events = append(events, m.place("function_call_arguments.delta", item, js{"delta": piece}))
		}
	}
	if held["done"] || m.chance(30) {
		arguments := m.nothing()
		if held["done"] {
			arguments = m.whole(item.text)
		}
		events = append(events, m.place("function_call_arguments.done", item, js{"arguments": arguments}))
	}
	if held["item_done"] || m.mode == byOrder || m.chance(30) {
		events = append(events, m.place("output_item.done", item, js{"item": object("item_done")}))
	}
	return events, object("final")
}

// How the blocks of a message are told apart.
const (
	blocksByIndex = iota
	blocksUnderOneIndex
	blocksByOrder
	waysOfBlocks
)

func (m *mutator) block(kind string, item *knownItem, more js) js {
	event := js{"type": "content_block_" + kind}
	switch m.mode {
	case blocksByIndex:
		event["index"] = item.at
	case blocksUnderOneIndex:
		event["index"] = 0
	}
	for name, value := range more {
		event[name] = value
	}
	return event
}

func (m *mutator) messages() (string, bool) {
	m.mode = m.IntN(waysOfBlocks)
	content := []js{}
	events := make([][]js, len(m.items))
	for i, item := range m.items {
		var object js
		events[i], object = m.messagesBlock(item)
		content = append(content, object)
	}
	cached := m.usage.CachedInputTokens
	created := int64(m.IntN(int(m.usage.InputTokens - cached)))
	prompt := js{"input_tokens": m.usage.InputTokens - cached - created, "cache_creation_input_tokens": created, "cache_read_input_tokens": cached}
	output := js{"output_tokens": m.usage.OutputTokens}
	if m.usage.ReasoningTokens > 0 {
		output["output_tokens_details"] = js{"thinking_tokens": m.usage.ReasoningTokens}
	}
	both := js{}
	for _, part := range []js{prompt, output} {
		for name, value := range part {
			both[name] = value
		}
	}
	start, last := js{}, output
	switch m.IntN(4) {
	case 0: // all of it in the end
		start, last = js{"input_tokens": 0, "output_tokens": 0}, both
	case 1: // once more in the end
		start, last = prompt, both
	case 2: // nothing in the end
		start = prompt
		last = js{"input_tokens": 0, "cache_read_input_tokens": nil}
		for name, value := range output {
			last[name] = value
		}
	default:
		for name, value := range prompt {
			start[name] = value
		}
		start["output_tokens"] = 1
	}
	reason := map[Stop]string{StopEnd: "end_turn", StopLength: "max_tokens", StopFilter: "refusal"}[m.stop]
	if m.stop == StopEnd && m.chance(50) && slices.ContainsFunc(m.items, func(item *knownItem) bool { return item.kind == function }) {
		reason = "tool_use"
	}
	whole := js{"type": "message", "role": "assistant", "content": content, "stop_reason": reason, "usage": both}
	if m.chance(5) {
		return encoded(whole), true
	}
	begun := js{"type": "message", "role": "assistant", "content": []any{}, "stop_reason": nil, "usage": start}
	stream := m.merge(events, m.mode == blocksByIndex)
	if m.chance(5) {
		begun["content"], stream = content, nil
	}
	stream = slices.Insert(stream, 0, js{"type": "message_start", "message": begun})
	if m.chance(10) {
		return m.frame(stream[:m.IntN(len(stream)+1)]), false
	}
	stream = append(stream, js{"type": "message_delta", "delta": js{"stop_reason": reason}, "usage": last})
	if m.chance(20) { // what says nothing does not change anything
		stream = append(stream, js{"type": "message_delta", "delta": js{"stop_reason": nil}, "usage": js{"output_tokens": nil}})
	}
	if m.chance(80) {
		stream = append(stream, js{"type": "message_stop"})
	}
	return m.frame(stream), true
}

func (m *mutator) messagesBlock(item *knownItem) (events []js, whole js) {
	held := m.spread("start", "delta", "stop")
	if item.kind == function {
		object := func(place string) js {
			var input any = json.RawMessage("{}")
			switch {
			case held[place]:
				if input = m.whole(item.text); place == "whole" {
					input = json.RawMessage(item.text)
				}
			case m.chance(20):
				input = nil
			}
			return js{"type": toolBlock, "id": item.id, "name": item.name, "input": input}
		}
		events = append(events, m.block("start", item, js{"content_block": object("start")}))
		if held["delta"] {
			for _, piece := range m.cut(item.text) {
				events = append(events, m.block("delta", item, js{"delta": js{"type": "input_json_delta", "partial_json": piece}}))
			}
		}
		stop := js{}
		if held["stop"] {
			stop["content_block"] = object("stop")
		}
		held["whole"] = true
		return append(events, m.block("stop", item, stop)), object("whole")
	}
	kind, field, delta := textBlock, textBlock, "text_delta"
	if item.kind == thinking {
		kind, field, delta = thinkingBlock, thinkingBlock, "thinking_delta"
	}
	if held["start"] || m.mode != blocksByIndex || m.chance(80) {
		events = append(events, m.block("start", item, js{"content_block": js{"type": kind, field: textIf(held["start"], item.text)}}))
	}
	if held["delta"] && !held["start"] {
		pieces := m.cut(item.text)
		if held["stop"] {
			pieces = pieces[:m.IntN(len(pieces)+1)]
		}
		for _, piece := range pieces {
			events = append(events, m.block("delta", item, js{"delta": js{"type": delta, field: piece}}))
		}
	}
	stop := js{}
	if held["stop"] {
		stop["content_block"] = js{"type": kind, field: item.text}
	}
	return append(events, m.block("stop", item, stop)), js{"type": kind, field: item.text}
}
