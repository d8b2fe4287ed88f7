package model

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
)

// chatState gathers what servers want back of an answer beside its text and calls. Each has its own field for it; other fields of theirs
// are for the reader alone, and some would be refused.
type chatState struct {
	size    int
	thought strings.Builder
	name    string // of the field with the thought
	details []*detail
	fields  map[string]json.RawMessage         // of the message
	calls   map[int]map[string]json.RawMessage // of the calls, by their numbers
}

// detail is an item of a list of thoughts. Its text may come in pieces.
type detail struct {
	list   string // the field that it is in
	fields rawjson.Fields
	name   string // of the text; "" = it has none
	text   strings.Builder
	seam   rawjson.Seam
}

// take adds what an event says. Beyond the bound there will be no state.
func (s *chatState) take(delta *chat.Delta) {
	if delta.ThoughtName != "" {
		s.name = delta.ThoughtName
		if s.grows(len(delta.Thought)) {
			s.thought.WriteString(delta.Thought.String())
		}
	}
	known := len(s.details)
	for _, field := range delta.Rest {
		switch {
		case rawjson.IsNull(field.Value) || !s.grows(len(field.Value)):
		case field.Name == "reasoning_details", field.Name == "thinking_blocks":
			items, _ := rawjson.Array(field.Value, maxItems) // none, if it is no list
			for _, item := range items {
				s.detail(field.Name, item, known)
			}
		case field.Name == "extra_content":
			if s.fields == nil {
				s.fields = map[string]json.RawMessage{}
			}
			s.fields[field.Name] = slices.Clone(field.Value)
		}
	}
	for _, call := range delta.Calls {
		for _, field := range call.Rest {
			s.call(call.Number, field)
		}
	}
}

// call takes a field of a call.
func (s *chatState) call(number int, field rawjson.Field) {
	switch field.Name {
	case "extra_content", "thought_signature", "provider_specific_fields":
		if rawjson.IsNull(field.Value) || !s.grows(len(field.Value)) {
			return
		}
		if s.calls == nil {
			s.calls = map[int]map[string]json.RawMessage{}
		}
		if s.calls[number] == nil {
			s.calls[number] = map[string]json.RawMessage{}
		}
		s.calls[number][field.Name] = slices.Clone(field.Value)
	}
}

func (s *chatState) grows(by int) bool {
	s.size += by
	return s.size <= maxState
}

// detail takes an item of a list. It may continue the last one of the events before, of which there are so many.
func (s *chatState) detail(list string, item []byte, known int) {
	fields, err := rawjson.Object(slices.Clone(item))
	if err != nil {
		return
	}
	made := &detail{list: list}
	if known > 0 && known == len(s.details) && s.details[known-1].continuedBy(list, fields) {
		made = s.details[known-1]
	} else {
		s.details = append(s.details, made)
	}
	for _, field := range fields {
		switch field.Name {
		case "text", "summary", "thinking":
			if text, ok := plainText(field.Value); ok {
				made.name = field.Name
				made.text.WriteString(made.seam.Join(text).String())
				continue
			}
		}
		at := slices.IndexFunc(made.fields, func(old rawjson.Field) bool { return old.Name == field.Name })
		switch {
		case at < 0:
			made.fields = append(made.fields, field)
		case !rawjson.IsNull(field.Value) && string(field.Value) != `""`:
			made.fields[at] = field
		}
	}
}

// continuedBy says whether an item is the next piece of this one: only texts come in pieces, and a signature ends them.
func (d *detail) continuedBy(list string, fields rawjson.Fields) bool {
	for _, name := range []string{"type", "index", "id"} {
		mine, its := d.fields.Get(name), fields.Get(name)
		if !rawjson.IsNull(mine) && !rawjson.IsNull(its) && string(mine) != string(its) {
			return false
		}
	}
	return d.list == list && d.name != "" && d.fields.Text("signature") == "" && fields.Get("data") == nil
}

// held is the answer as its server wants it back.
func (s *chatState) held(calls []*toolDraft) []held {
	message := map[string]any{}
	for name, value := range s.fields {
		message[name] = value
	}
	if s.name != "" {
		message[s.name] = s.thought.String()
	}
	for _, one := range s.details {
		item := map[string]any{}
		for _, field := range one.fields {
			item[field.Name] = json.RawMessage(field.Value)
		}
		if one.name != "" {
			item[one.name] = valid(one.text.String())
		}
		list, _ := message[one.list].([]any)
		message[one.list] = append(list, item)
	}
	var whole []held
	if len(message) > 0 {
		raw, _ := json.Marshal(message) // what it holds was read from JSON
		whole = append(whole, held{raw: raw})
	}
	for _, call := range calls {
		one := held{call: call}
		if fields := s.calls[int(call.key)]; fields != nil {
			one.raw, _ = json.Marshal(fields) // what it holds was read from JSON
		}
		whole = append(whole, one)
	}
	return whole
}

// extraFields are the fields of a kept object.
func extraFields(raw []byte) members {
	fields, _ := rawjson.Object(raw) // none, if it is no object
	extra := make(members, len(fields))
	for _, field := range fields {
		extra[field.Name] = json.RawMessage(field.Value)
	}
	return extra
}
