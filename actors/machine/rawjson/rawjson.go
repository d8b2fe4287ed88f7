// Package rawjson takes JSON apart one level deep without decoding what is inside: bodies of model calls are large, and most
// of a body only passes through. It is pure.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// MaxFields is how many fields an object may have.
const MaxFields = 256

// ErrShape says that a text is not what it should be.
var ErrShape = errors.New("not a JSON value of the expected kind, or too many fields")

// Field is one field of an object. Value is a part of the text that was split: do not change it.
type Field struct {
	Name  string
	Value []byte
}

// Fields are the fields of an object in their order, each name once.
type Fields []Field

// Get returns a field's value, nil when there is none or it is null.
func (f Fields) Get(name string) []byte {
	for i := range f {
		if f[i].Name == name {
			if IsNull(f[i].Value) {
				return nil
			}
			return f[i].Value
		}
	}
	return nil
}

// Text returns a field that is a string, "" otherwise.
func (f Fields) Text(name string) string {
	var text string
	if raw := f.Get(name); raw != nil && raw[0] == '"' {
		_ = json.Unmarshal(raw, &text) // what is no text is the empty one
	}
	return text
}

// True says whether a field is true.
func (f Fields) True(name string) bool { return string(f.Get(name)) == "true" }

// IsNull says whether a value is null or nothing.
func IsNull(raw []byte) bool { return len(raw) == 0 || string(raw) == "null" }

// Object splits an object into its fields; of two with one name the later counts. The text must be valid JSON: of one that is
// not, the fields may be anything, yet nothing outside of the text is touched.
func Object(raw []byte) (Fields, error) {
	const usual = 4
	return make(Fields, 0, usual).Object(raw)
}

// Object is as the function of that name, in the memory of the fields: they are lost.
func (f Fields) Object(raw []byte) (Fields, error) {
	fields := f[:0]
	at := skipSpace(raw, 0)
	if at >= len(raw) || raw[at] != '{' {
		return nil, ErrShape
	}
	at = skipSpace(raw, at+1)
	for at < len(raw) && raw[at] != '}' {
		if raw[at] != '"' || len(fields) == MaxFields {
			return nil, ErrShape
		}
		end := skipValue(raw, at)
		name, err := unquote(raw[at:end])
		if err != nil {
			return nil, ErrShape
		}
		at = skipSpace(raw, end)
		if at >= len(raw) || raw[at] != ':' {
			return nil, ErrShape
		}
		at = skipSpace(raw, at+1)
		end = skipValue(raw, at)
		if end == at {
			return nil, ErrShape
		}
		fields = fields.with(name, raw[at:end])
		at = skipSpace(raw, end)
		if at < len(raw) && raw[at] == ',' {
			at = skipSpace(raw, at+1)
		}
	}
	if at >= len(raw) {
		return nil, ErrShape
	}
	return fields, nil
}

// Array splits an array of at most limit values, as Object does.
func Array(raw []byte, limit int) ([][]byte, error) { return AppendArray(nil, raw, limit) }

// AppendArray appends the values of an array, as Array.
func AppendArray(values [][]byte, raw []byte, limit int) ([][]byte, error) {
	at := skipSpace(raw, 0)
	if at >= len(raw) || raw[at] != '[' {
		return nil, ErrShape
	}
	limit += len(values)
	at = skipSpace(raw, at+1)
	for at < len(raw) && raw[at] != ']' {
		end := skipValue(raw, at)
		if end == at || len(values) == limit {
			return nil, ErrShape
		}
		values = append(values, raw[at:end])
		at = skipSpace(raw, end)
		if at < len(raw) && raw[at] == ',' {
			at = skipSpace(raw, at+1)
		}
	}
	if at >= len(raw) {
		return nil, ErrShape
	}
	return values, nil
}

func (f Fields) with(name string, value []byte) Fields {
	for i := range f {
		if f[i].Name == name {
			f[i].Value = value
			return f
		}
	}
	return append(f, Field{Name: name, Value: value})
}

func unquote(raw []byte) (string, error) {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return name(raw[1 : len(raw)-1]), nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err
}

// name is raw as a string. The usual names of model calls cost no allocation.
func name(raw []byte) string {
	switch string(raw) {
	case "annotations":
		return "annotations"
	case "arguments":
		return "arguments"
	case "cached_tokens":
		return "cached_tokens"
	case "choices":
		return "choices"
	case "code":
		return "code"
	case "content":
		return "content"
	case "created":
		return "created"
	case "delta":
		return "delta"
	case "error":
		return "error"
	case "finish_reason":
		return "finish_reason"
	case "function":
		return "function"
	case "id":
		return "id"
	case "index":
		return "index"
	case "logprobs":
		return "logprobs"
	case "message":
		return "message"
	case "messages":
		return "messages"
	case "model":
		return "model"
	case "name":
		return "name"
	case "object":
		return "object"
	case "prompt_tokens":
		return "prompt_tokens"
	case "completion_tokens":
		return "completion_tokens"
	case "total_tokens":
		return "total_tokens"
	case "tool_calls":
		return "tool_calls"
	case "reasoning_content":
		return "reasoning_content"
	case "refusal":
		return "refusal"
	case "role":
		return "role"
	case "stream":
		return "stream"
	case "system_fingerprint":
		return "system_fingerprint"
	case "type":
		return "type"
	case "usage":
		return "usage"
	}
	return string(raw)
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && isSpace(raw[at]) {
		at++
	}
	return at
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skipValue returns where the value that begins at a place ends.
func skipValue(raw []byte, at int) int {
	if at >= len(raw) {
		return at
	}
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{', '[':
		return skipNested(raw, at)
	}
	for at < len(raw) {
		switch raw[at] {
		case ',', '}', ']', ':', ' ', '\n', '\r', '\t', '"':
			return at
		}
		at++
	}
	return at
}

func skipNested(raw []byte, at int) int {
	depth := 0
	for at < len(raw) {
		switch raw[at] {
		case '"':
			at = skipString(raw, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return at + 1
			}
		}
		at++
	}
	return at
}

// skipString jumps from quote to quote: pictures are strings of megabytes.
func skipString(raw []byte, at int) int {
	at++
	for {
		next := bytes.IndexByte(raw[at:], '"')
		if next < 0 {
			return len(raw)
		}
		at += next + 1
		escapes := 0
		for i := at - 2; i >= 0 && raw[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// WriteCompact writes valid JSON without the space between its parts: texts as they came, members in their order.
func WriteCompact(to io.Writer, raw []byte) error {
	for at := skipSpace(raw, 0); at < len(raw); {
		end := at
		for end < len(raw) && !isSpace(raw[end]) {
			if raw[end] == '"' {
				end = skipString(raw, end)
				continue
			}
			end++
		}
		if _, err := to.Write(raw[at:end]); err != nil {
			return err
		}
		at = skipSpace(raw, end)
	}
	return nil
}

// AppendString appends a text as JSON.
func AppendString(dst []byte, text string) []byte {
	plain := true
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		dst = append(dst, '"')
		dst = append(dst, text...)
		return append(dst, '"')
	}
	dst, _ = AppendValue(dst, text) // a string always encodes
	return dst
}

// AppendValue appends a value as encoding/json has it, on one line and without escapes for HTML. With an error nothing is appended.
func AppendValue(dst []byte, value any) ([]byte, error) {
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return dst, err
	}
	encoded := buffer.Bytes()
	return encoded[:len(encoded)-1], nil // without the encoder's newline
}
