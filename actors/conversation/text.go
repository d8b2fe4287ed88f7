package conversation

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/core/naming"
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
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BadServerMetadata).Param("most", limit).Param("prefix", machine.ServerKeyPrefix)
	}
	return machine.OneLine(raw), nil
}

// title trims a title and checks its length in characters (document 2, "Limits").
func (m *rules) title(text string) (string, *machine.Failure) {
	text = strings.TrimSpace(naming.Plain(text))
	if !utf8.ValidString(text) {
		return "", failure.New(failurepb.Code_VALIDATION, failure.NotUTF8).In("title")
	}
	if len(text) > m.limits.TitleRunes && utf8.RuneCountInString(text) > m.limits.TitleRunes {
		return "", failure.New(failurepb.Code_VALIDATION, failure.TooManyCharacters).In("title").Param("most", m.limits.TitleRunes)
	}
	return text, nil
}

// checkContent checks the text of a message with so many files, which need no words. It is stored as it came.
func (m *rules) checkContent(text string, files int) *machine.Failure {
	if len(text) > m.limits.MessageBytes {
		return failure.New(failurepb.Code_VALIDATION, failure.TooLong).In("message").
			With("maxBytes", m.limits.MessageBytes)
	}
	if !utf8.ValidString(text) {
		return failure.New(failurepb.Code_VALIDATION, failure.NotUTF8).In("message")
	}
	if files == 0 && strings.TrimSpace(text) == "" {
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("message")
	}
	return nil
}

// clean makes text of a model storable: an event with bad UTF-8 could not be written, and its turn could not end.
func clean(text string) string {
	return strings.ToValidUTF8(text, "\uFFFD")
}
