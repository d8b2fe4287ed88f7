package machine

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// ServerKeyPrefix begins the names of the metadata keys that the server owns (task link, source, pins, title mark).
// Clients neither set nor drop them.
const ServerKeyPrefix = "parley."

// ClientObject checks a client's JSON object of at most limit bytes and returns the form in which it is stored: on one
// line, nil if there is none. Keys of the server are refused. The failure names the field.
func ClientObject(name string, raw []byte, limit int) ([]byte, *Failure) {
	if len(raw) == 0 {
		return nil, nil
	}
	if len(raw) > limit {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.TooLarge).In(name).With("maxBytes", limit)
	}
	var fields map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.NotAnObject).In(name)
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
	return OneLine(raw), nil
}

// OneLine puts valid JSON on one line, so that it can be sent in an event stream unchanged.
func OneLine(raw []byte) []byte {
	var line bytes.Buffer
	_ = json.Compact(&line, raw)
	return line.Bytes()
}

// maxListPart is the longest part of a list's name that is written out. Four of them stay below the 255 bytes that a name
// may have in storage.
const maxListPart = 48

// ListPart is a text as one part of a list's name in storage: what would end a part or begin a hash is escaped, and what
// is too long is hashed. No text, say a user id, can name another's list.
func ListPart(text string) string {
	escaped := text
	if strings.ContainsAny(text, "%/~") {
		escaped = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E").Replace(text)
	}
	if len(escaped) <= maxListPart {
		return escaped
	}
	hash := sha256.Sum256([]byte(text))
	return "~" + base64.RawURLEncoding.EncodeToString(hash[:])
}
