package conversation

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// serverObject is object for the server's own metadata: every key is one of its own.
func serverObject(raw []byte, limit int) ([]byte, *machine.Failure) {
	if len(raw) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	bad := len(raw) > limit || !utf8.Valid(raw) || json.Unmarshal(raw, &fields) != nil || len(fields) == 0
	for key := range fields {
		bad = bad || !strings.HasPrefix(key, machine.ServerKeyPrefix)
	}
	if bad {
		return nil, machine.Fail(failurepb.Code_VALIDATION, "server metadata is a JSON object of at most %d bytes and keys that begin with %s",
			limit, machine.ServerKeyPrefix)
	}
	return machine.OneLine(raw), nil
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
