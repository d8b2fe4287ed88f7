package conversation

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// ServerKeyPrefix begins the names of the metadata keys that the server owns (task link, source, pins, title mark).
// Clients neither set nor drop them: they are kept in State.ServerMetadata and shown over the client's object.
const ServerKeyPrefix = "parley."

// object checks a client's JSON object and returns what is stored of it: nil for none, on one line, and never a key of
// the server's.
func object(name string, raw []byte, limit int) ([]byte, *machine.Failure) {
	if len(raw) == 0 {
		return nil, nil
	}
	if len(raw) > limit {
		return nil, machine.Fail(failurepb.Code_VALIDATION, "%s is larger than %d bytes", name, limit).With("maxBytes", limit)
	}
	var fields map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, machine.Fail(failurepb.Code_VALIDATION, "%s is not a JSON object", name)
	}
	owned := false
	for key := range fields {
		if strings.HasPrefix(key, ServerKeyPrefix) {
			delete(fields, key)
			owned = true
		}
	}
	if len(fields) == 0 {
		return nil, nil
	}
	if owned {
		// What came out of a decoder goes into an encoder.
		raw, _ = json.Marshal(fields)
	}
	return oneLine(raw), nil
}

// serverObject is object for the server's own metadata: every key is one of its own.
func serverObject(raw []byte, limit int) ([]byte, *machine.Failure) {
	if len(raw) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	bad := len(raw) > limit || !utf8.Valid(raw) || json.Unmarshal(raw, &fields) != nil || len(fields) == 0
	for key := range fields {
		bad = bad || !strings.HasPrefix(key, ServerKeyPrefix)
	}
	if bad {
		return nil, machine.Fail(failurepb.Code_VALIDATION, "server metadata is a JSON object of at most %d bytes and keys that begin with %s",
			limit, ServerKeyPrefix)
	}
	return oneLine(raw), nil
}

// oneLine is JSON that has just been decoded, so that it can stand in an event stream as it is.
func oneLine(raw []byte) []byte {
	var line bytes.Buffer
	_ = json.Compact(&line, raw)
	return line.Bytes()
}

// title trims a title and checks its length in characters (document 2, "Limits").
func (m *Machine) title(text string) (string, *machine.Failure) {
	text = strings.TrimSpace(text)
	if !utf8.ValidString(text) {
		return "", machine.Fail(failurepb.Code_VALIDATION, "title is not valid UTF-8")
	}
	if len(text) > m.limits.TitleRunes && utf8.RuneCountInString(text) > m.limits.TitleRunes {
		return "", machine.Fail(failurepb.Code_VALIDATION, "title is longer than %d characters", m.limits.TitleRunes)
	}
	return text, nil
}

// checkContent checks the text of a message. It is stored as it came.
func (m *Machine) checkContent(text string) *machine.Failure {
	if len(text) > m.limits.MessageBytes {
		return machine.Fail(failurepb.Code_VALIDATION, "message is longer than %d bytes", m.limits.MessageBytes).
			With("maxBytes", m.limits.MessageBytes)
	}
	if !utf8.ValidString(text) {
		return machine.Fail(failurepb.Code_VALIDATION, "message is not valid UTF-8")
	}
	if strings.TrimSpace(text) == "" {
		return machine.Fail(failurepb.Code_VALIDATION, "message is required")
	}
	return nil
}

// clean makes text of a model storable: an event with bad UTF-8 could not be written, and its turn could not end.
func clean(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}
