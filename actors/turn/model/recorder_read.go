package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// A dialect writes its request with an official client and reads the answer by itself: what the clients do not expect they drop, and what
// is dropped looks like an answer that is whole.

// read hands the events of an answer to a dialect until one ends it, or the document that came in their place.
func (q *question) read(response *http.Response, event func(data object) (ended bool, err error), document func(data object) error) error {
	defer func() { _ = response.Body.Close() }() // the verdict knows what went wrong with it
	if packed := response.Header.Get("Content-Encoding"); packed != "" && packed != "identity" {
		return &provider.Failure{Class: provider.Unreadable, Message: "it compressed its stream though it was asked not to"}
	}
	const window = 16 << 10 // which the reader of events then shares
	body := bufio.NewReaderSize(littleByLittle{response.Body}, window)
	first, err := firstByte(body)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	case first == '{':
		return q.readDocument(body, document)
	case !isEvents(response, body):
		return &provider.Failure{Class: provider.Unreadable, Message: "it answered with a document and not with a stream of events"}
	}
	events := provider.NewEvents(body)
	for {
		data, err := events.Next()
		if errors.Is(err, io.EOF) || err == nil && string(data) == "[DONE]" {
			return nil
		}
		if err != nil {
			return err
		}
		if len(data) == 0 {
			continue
		}
		if !json.Valid(data) {
			if _, more := body.Peek(1); errors.Is(more, io.EOF) {
				return nil // it is cut, and there is no more of it
			}
			return provider.ErrUnreadable // behind the end of an answer that does not matter
		}
		told := newObject(data)
		ended, err := event(told)
		if err = cmpErr(err, told.wrong()); err != nil || ended {
			return err
		}
	}
}

func (q *question) readDocument(body io.Reader, take func(document object) error) error {
	var data json.RawMessage
	if err := json.NewDecoder(body).Decode(&data); err != nil {
		if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
			return unreadable("")
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		return err
	}
	told := newObject(data)
	if complaint := q.complaint(told); complaint != nil {
		if complaint.Class == provider.Unnamed { // it says what it does, and would again
			complaint.Class, complaint.InStream = provider.Unreadable, false
		}
		return complaint
	}
	return cmpErr(take(told), told.wrong())
}

// complaint is the failure that an event or a document without a type of its own stands for, nil = none.
func (q *question) complaint(told object) *provider.Failure {
	kind := told.string("type")
	switch {
	case kind == "error", kind == "" && (told.has("error") || told.string("object") == "error"):
		return provider.Complaint(0, told.raw, q.secrets)
	case kind == "" && told.has("error_message"):
		return q.unknownEnd(told.string("error_message"))
	case kind == "" && told.string("object") == "" && told.has("message") && !told.has("role"):
		return provider.Complaint(0, told.raw, q.secrets)
	}
	return nil
}

// unknownEnd is an end of an answer of which the protocol does not say that it is complete, in the provider's words.
func (q *question) unknownEnd(words string) *provider.Failure {
	document, _ := json.Marshal(map[string]string{"message": words}) // texts always encode
	return provider.Complaint(0, document, q.secrets)
}

func unreadable(what string) error {
	return &provider.Failure{Class: provider.Unreadable, InStream: true, Message: what, Reason: provider.ErrUnreadable}
}

// littleByLittle reads no more at a time than the clients do: what breaks a limit takes down what was read with it.
type littleByLittle struct{ body io.Reader }

func (l littleByLittle) Read(p []byte) (int, error) {
	const most = 4 << 10
	return l.body.Read(p[:min(len(p), most)])
}

// firstByte looks at the first byte that is not blank.
func firstByte(body *bufio.Reader) (byte, error) {
	if mark, _ := body.Peek(len("\uFEFF")); string(mark) == "\uFEFF" {
		_, _ = body.Discard(len(mark)) // it is there
	}
	for {
		c, err := body.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, body.UnreadByte()
		}
	}
}

// isEvents says whether a response is a stream of events, be it that only its bytes say so.
func isEvents(response *http.Response, body *bufio.Reader) bool {
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		return true
	}
	head, _ := body.Peek(len("event:")) // as much as there is
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(head, []byte(field)) {
			return true
		}
	}
	return false
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
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
func (o object) text(name string) string {
	text, ok := plainText(o.fields.Get(name))
	if !ok {
		o.note(name)
	}
	return text
}

func plainText(raw []byte) (string, bool) {
	if rawjson.IsNull(raw) {
		return "", true
	}
	switch raw[0] {
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		if strings.Contains(text, "\uFFFD") {
			text = withHalves(raw)
		}
		return text, err == nil
	case '{':
		fields, err := rawjson.Object(raw)
		inner := fields.Get("text")
		if err != nil || inner == nil || inner[0] != '"' {
			return "", false
		}
		return plainText(inner)
	case '[':
		elements, err := rawjson.Array(raw, maxValues)
		var whole strings.Builder
		for _, element := range elements {
			text, ok := plainText(element)
			if !ok || element[0] == '[' {
				return "", false
			}
			whole.WriteString(text)
		}
		return whole.String(), err == nil
	}
	return "", false
}

// arguments are those of a call: JSON in a string, or the JSON itself.
func (o object) arguments(name string) string {
	raw := o.fields.Get(name)
	if len(raw) > 0 && raw[0] == '"' {
		return o.text(name)
	}
	return string(raw)
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
