package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// A dialect reads its answer by hand: what the services' own clients do not expect they drop, and what is dropped looks like an answer that is
// whole.

// read hands the events of an answer to a dialect until one ends it, or the document that came in their place.
func (q *question) read(body io.Reader, event func(told object) (ended bool, err error), document func(told object) error) error {
	events := provider.NewEvents(body)
	for {
		data, err := events.Next()
		if errors.Is(err, io.EOF) {
			return q.end(events, document)
		}
		if err != nil {
			return err
		}
		told := newObject(data)
		ended, err := event(told)
		if err = cmp.Or(err, told.wrong()); err != nil || ended {
			return err
		}
	}
}

// end takes what came outside of events.
func (q *question) end(events *provider.Events, document func(told object) error) error {
	data, err := events.Rest(q.secrets)
	if err != nil || data == nil {
		return err
	}
	told := newObject(data)
	if complaint := q.complaint(told); complaint != nil {
		complaint.InStream = events.Heard
		complaint.Final = complaint.Final || !events.Heard && complaint.Class == provider.Unnamed // it says what it does, and would again
		return complaint
	}
	if events.Heard {
		return nil
	}
	return cmp.Or(document(told), told.wrong())
}

// complaint is the failure that an event or a document without a type of its own stands for, nil = none.
func (q *question) complaint(told object) *provider.Failure {
	fields := told.fields
	if items, err := rawjson.Array(told.raw, maxValues); err == nil && len(items) > 0 { // a list of them
		fields, _ = rawjson.Object(items[0]) // nothing, if it is none
	}
	kind := fields.Text("type")
	own := slices.ContainsFunc([]string{"type", "object", "role", "output", "output_text"}, func(name string) bool { return fields.Get(name) != nil })
	response := fields.Text("object") == "response" || fields.Get("status") != nil && fields.Get("usage") != nil // which says how it ended
	if response || kind != "" && kind != "error" || !provider.Complains(fields, own) {
		return nil
	}
	return provider.Complaint(0, told.raw, q.secrets)
}

// unknownEnd is an end of an answer of which the protocol does not say that it is complete, in the provider's words.
func (q *question) unknownEnd(words string) *provider.Failure {
	document, _ := json.Marshal(map[string]string{"message": words}) // texts always encode
	return provider.Complaint(0, document, q.secrets)
}

func unreadable(what string) error {
	return &provider.Failure{Class: provider.Unreadable, InStream: true, Message: what, Reason: provider.ErrUnreadable}
}

// object is a JSON object of an answer. What has another type than it should is taken for what it plainly means; otherwise it is as if it
// was not there, and wrong tells of it.
type object struct {
	raw    []byte
	fields rawjson.Fields
	flaw   *string // of the whole event
}

// newObject splits valid JSON.
func newObject(raw []byte) object {
	fields, err := rawjson.Object(raw)
	made := object{raw: raw, fields: fields, flaw: new(string)}
	if err != nil {
		*made.flaw = "what it sent is not a JSON object"
	}
	return made
}

// wrong is the error about the first field that nothing could be made of.
func (o object) wrong() error {
	if *o.flaw == "" {
		return nil
	}
	return unreadable(*o.flaw)
}

func (o object) note(name string) {
	if *o.flaw == "" {
		*o.flaw = "its field `" + name + "` is not of the type that it should be"
	}
}

func (o object) has(name string) bool { return o.fields.Get(name) != nil }

// string is a field that is a string, "" otherwise.
func (o object) string(name string) string { return o.fields.Text(name) }

// text is a field with a text: a string, an object with a text, or several of them.
func (o object) text(name string) rawjson.Text {
	text, ok := plainText(o.fields.Get(name))
	if !ok {
		o.note(name)
	}
	return text
}

func plainText(raw []byte) (rawjson.Text, bool) {
	if rawjson.IsNull(raw) {
		return nil, true
	}
	switch raw[0] {
	case '"':
		return raw, true
	case '{':
		fields, err := rawjson.Object(raw)
		inner := fields.Get("text")
		return inner, err == nil && inner != nil && inner[0] == '"'
	case '[':
		elements, err := rawjson.Array(raw, maxValues)
		var whole rawjson.Text
		for _, element := range elements {
			text, ok := plainText(element)
			if !ok || element[0] == '[' {
				return nil, false
			}
			whole = whole.And(text)
		}
		return whole, err == nil
	}
	return nil, false
}

// arguments are those of a call: JSON in a string, or the JSON itself.
func (o object) arguments(name string) rawjson.Text {
	raw := o.fields.Get(name)
	if raw == nil || raw[0] == '"' {
		return raw
	}
	return rawjson.AppendString(nil, string(raw))
}

// number is a place in a list, -1 = it is not told.
func (o object) number(name string) int64 {
	raw := o.fields.Get(name)
	if raw == nil {
		return -1
	}
	var number int64
	if json.Unmarshal(bytes.Trim(raw, `"`), &number) != nil || number < 0 {
		o.note(name)
		return -1
	}
	return number
}

// object is a field that is an object; an empty one in place of none.
func (o object) object(name string) object {
	raw := o.fields.Get(name)
	inner := object{raw: raw, flaw: o.flaw}
	if raw == nil {
		return inner
	}
	var err error
	if inner.fields, err = rawjson.Object(raw); err != nil {
		o.note(name)
	}
	return inner
}

// list is a field that is an array of objects. A text stands for an object with that text, one object for an array of it.
func (o object) list(name string) []object {
	raw := o.fields.Get(name)
	if raw == nil {
		return nil
	}
	elements := [][]byte{raw}
	if raw[0] == '[' {
		var err error
		if elements, err = rawjson.Array(raw, maxValues); err != nil {
			o.note(name)
		}
	}
	list := make([]object, 0, len(elements))
	for _, element := range elements {
		inner := object{raw: element, flaw: o.flaw}
		switch element[0] {
		case '{':
			inner.fields, _ = rawjson.Object(element) // it is valid, or has more fields than anything known
		case '"':
			inner.fields = rawjson.Fields{{Name: "text", Value: element}}
		default:
			o.note(name)
		}
		list = append(list, inner)
	}
	return list
}

// tell reads a number of tokens. What is not told, or null, does not change what was.
func (o object) tell(count *int64, names ...string) bool {
	for _, name := range names {
		if raw := o.fields.Get(name); raw != nil {
			*count = provider.Tokens(string(raw))
			return true
		}
	}
	return false
}
