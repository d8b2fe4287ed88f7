package chat

import (
	"strings"

	"parley/actors/machine/rawjson"
)

// Delta is what an event adds to one choice.
type Delta struct {
	Choice                 int
	Text, Refusal, Thought rawjson.Text
	ThoughtName            string // of the field that says the thought; "" = none, or among the parts of the text
	Calls                  []Call
	Rest                   rawjson.Fields // further fields of the message that say anything; of a document, all
	Logprobs               []byte
	Finish                 Finish         // "" = it goes on
	Beside                 rawjson.Fields // further fields of a choice of a document
}

// choice is one of the answers that n asks for.
type choice struct {
	index                  int
	said, ended, nameless  bool // nameless: a call of it has no name
	text, refusal, thought rawjson.Seam
	calls                  calls
}

// message is what a part of an answer says, and whether that is all of the answer. After pieces a message is a repetition.
func (c *choice) message(part rawjson.Fields, document bool) (message []byte, whole bool) {
	delta, message := part.Get("delta"), part.Get("message")
	switch {
	case message == nil || delta != nil && string(delta) != "{}":
		return delta, false
	case c.said && (document || part.Get("finish_reason") != nil):
		return nil, false
	}
	return message, document || part.Get("finish_reason") != nil
}

// read takes a message, or a delta, apart.
func (c *choice) read(raw []byte, whole bool, r *Reader, delta *Delta) error {
	if raw == nil {
		if text := r.part.Get("text"); text != nil && text[0] == '"' {
			delta.Text = c.text.Join(text)
			c.said = c.said || delta.Text != nil
		}
		return nil
	}
	if raw[0] == '"' { // a delta that is no more than its text
		delta.Text = c.text.Join(raw)
		c.said = c.said || delta.Text != nil
		return nil
	}
	fields, err := r.message.Object(raw)
	if err != nil {
		return misshapen("delta is " + kindOf(raw))
	}
	r.message = fields
	for _, field := range fields {
		if err := c.field(field, whole, r, delta); err != nil {
			return err
		}
	}
	delta.Text, delta.Refusal, delta.Thought = c.text.Join(delta.Text), c.refusal.Join(delta.Refusal), c.thought.Join(delta.Thought)
	c.said = c.said || delta.Text != nil || delta.Refusal != nil || delta.Calls != nil
	return nil
}

func (c *choice) field(field rawjson.Field, whole bool, r *Reader, delta *Delta) error {
	value := field.Value
	switch field.Name {
	case "role":
		return nil
	case "content":
		return words(field.Name, value, &delta.Text, delta, 0)
	case "refusal":
		return words(field.Name, value, &delta.Refusal, delta, 0)
	case "reasoning_content", "reasoning":
		if field.Name == "reasoning" && !isEmpty(r.message.Get("reasoning_content")) {
			return nil
		}
		if value[0] == '{' {
			break // not known how to read it
		}
		if !isEmpty(value) {
			delta.ThoughtName = field.Name
		}
		return words(field.Name, value, &delta.Thought, delta, 0)
	case "tool_calls":
		return c.readCalls(value, whole, delta)
	case "function_call":
		if !isEmpty(value) && isEmpty(r.message.Get("tool_calls")) && (len(c.calls.told) == 0 || c.calls.kind == Legacy) {
			return c.readLegacy(value, whole, delta)
		}
	}
	if whole || !isEmpty(value) {
		delta.Rest = append(delta.Rest, field)
		c.said = c.said || !whole && !strings.HasPrefix(field.Name, "reasoning")
	}
	return nil
}

const (
	// maxParts bounds the parts of a text, maxNested how deep they nest.
	maxParts, maxNested = 100_000, 4
)

// words reads a text, or parts of one.
func words(name string, raw []byte, into *rawjson.Text, delta *Delta, nested int) error {
	switch {
	case rawjson.IsNull(raw):
		return nil
	case raw[0] == '"':
		*into = into.And(rawjson.Text(raw))
		return nil
	case raw[0] == '{' && nested < maxNested:
		return word(name, raw, into, delta, nested+1)
	case raw[0] != '[' || nested >= maxNested:
		return misshapen(name + " is " + kindOf(raw))
	}
	parts, err := rawjson.Array(raw, maxParts)
	if err != nil {
		return misshapen(name + " has too many parts")
	}
	for _, part := range parts {
		if err := words(name+"[]", part, into, delta, nested+1); err != nil {
			return err
		}
	}
	return nil
}

// word reads a part of a text. One without words says nothing here.
func word(name string, raw []byte, into *rawjson.Text, delta *Delta, nested int) error {
	fields, err := rawjson.Object(raw)
	if err != nil {
		return misshapen(name + " is " + kindOf(raw))
	}
	names := []string{"text", "content"}
	switch kind := fields.Text("type"); kind {
	case "thinking", "reasoning", "reasoning_text", "reasoning_content", "summary_text":
		into, names = &delta.Thought, []string{kind, "text", "thinking", "reasoning", "content", "summary"}
	case "refusal":
		into, names = &delta.Refusal, []string{kind, "text"}
	}
	for _, name := range names {
		if value := fields.Get(name); value != nil && (value[0] == '"' || value[0] == '[') {
			return words(name, value, into, delta, nested)
		}
	}
	return nil
}

func (c *choice) readCalls(raw []byte, whole bool, delta *Delta) error {
	if isEmpty(raw) {
		return nil
	}
	items := [][]byte{raw}
	if raw[0] != '{' {
		var err error
		if items, err = rawjson.Array(raw, maxChoices); err != nil {
			return misshapen("tool_calls is " + kindOf(raw))
		}
	}
	c.calls.next()
	for _, item := range items {
		if rawjson.IsNull(item) {
			continue
		}
		one, err := readPiece(item)
		if err != nil {
			return err
		}
		told, err := c.calls.add(&one, whole)
		if err != nil {
			return err
		}
		c.said = true
		if told != nil {
			delta.Calls = append(delta.Calls, *told)
		}
	}
	return nil
}

// readLegacy reads a function_call, or a piece of one. Its place is that of the only call.
func (c *choice) readLegacy(raw []byte, whole bool, delta *Delta) error {
	fields, err := rawjson.Object(raw)
	if err != nil {
		return misshapen("function_call is " + kindOf(raw))
	}
	p := piece{kind: Legacy, index: 0}
	for _, field := range fields {
		p.take(field)
	}
	if p.name == "" && len(p.arguments) <= len(`""`) {
		return nil
	}
	c.calls.next()
	told, err := c.calls.add(&p, whole)
	switch {
	case err != nil:
		return err
	case len(c.calls.told) > 1:
		return misshapen("a second function_call in an answer")
	}
	c.said = true
	if told != nil {
		delta.Calls = append(delta.Calls, *told)
	}
	return nil
}

// readPiece reads an item of a list of tool calls. Name and arguments may be in it without a function around them.
func readPiece(raw []byte) (piece, error) {
	p := piece{index: -1}
	fields, err := rawjson.Object(raw)
	if err != nil {
		return p, misshapen("tool_calls[] is " + kindOf(raw))
	}
	for _, field := range fields {
		if rawjson.IsNull(field.Value) {
			continue
		}
		switch field.Name {
		case "index":
			if index := unquoted(field.Value); index != "" && index[0] >= '0' && index[0] <= '9' {
				p.index = int(min(count64(field.Value), 1<<30))
			}
		case "id":
			p.id = unquoted(field.Value)
		case "type":
		case "function", "custom":
			if field.Name == "custom" {
				p.kind = Custom
			}
			inner, err := rawjson.Object(field.Value)
			if err != nil {
				return p, misshapen("tool_calls[]." + field.Name + " is " + kindOf(field.Value))
			}
			for _, field := range inner {
				p.take(field)
			}
		default:
			if !p.take(field) {
				p.rest = append(p.rest, field)
			}
		}
	}
	return p, nil
}

// take reads what a function has, and says whether that is something.
func (p *piece) take(field rawjson.Field) bool {
	switch field.Name {
	case "name":
		if !rawjson.IsNull(field.Value) {
			p.name = unquoted(field.Value)
		}
	case "arguments", "input":
		switch {
		case rawjson.IsNull(field.Value):
		case field.Value[0] == '"':
			p.arguments = field.Value
		default:
			p.arguments = rawjson.AppendString(nil, string(field.Value))
		}
	default:
		return false
	}
	return true
}

// implied is the reason of an end without one.
func (c *choice) implied() Finish {
	switch {
	case len(c.calls.told) == 0:
		return Stop
	case c.calls.kind == Legacy:
		return FunctionCall
	}
	return ToolCalls
}

// end ends the choice.
func (c *choice) end(finish Finish, delta *Delta) {
	if !c.ended {
		c.ended, delta.Finish = true, finish
		c.nameless = c.calls.nameless() && finish != Length && finish != Filter
	}
}
