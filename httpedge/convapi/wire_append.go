package convapi

import (
	"bytes"
	"encoding/json"

	"parley/httpedge/endpoint/wire"
)

// appendOptional writes a member unless its value is empty. label is `,"name":`.
func appendOptional(dst []byte, label, value string) []byte {
	if value == "" {
		return dst
	}
	return wire.AppendString(append(dst, label...), value)
}

func appendStrings(dst []byte, values []string) []byte {
	dst = append(dst, '[')
	for i, value := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(dst, value)
	}
	return append(dst, ']')
}

// appendMember writes a member whatever its value. label is `,"name":`.
func appendMember(dst []byte, label, value string) []byte {
	return wire.AppendString(append(dst, label...), value)
}

// appendObject writes raw JSON of an object on one line, or {} when there is none.
func appendObject(dst, raw []byte) []byte {
	if bytes.ContainsAny(raw, "\r\n") {
		raw = line(raw)
	}
	return wire.AppendObject(dst, raw)
}

// closeData makes members, each with its comma in front, an object.
func closeData(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, '{', '}')
	}
	dst[start] = '{'
	return append(dst, '}')
}

// without drops members of an object, where it has any of those names. A name may be spelled with escapes.
func without(object []byte, names [9]string) []byte {
	mentioned := bytes.Contains(object, []byte(`\u`))
	for _, name := range names {
		mentioned = mentioned || bytes.Contains(object, []byte(name))
	}
	var members map[string]json.RawMessage
	if !mentioned || json.Unmarshal(object, &members) != nil {
		return object
	}
	before := len(members)
	for _, name := range names {
		delete(members, name)
	}
	if len(members) == before {
		return object
	}
	kept, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return kept
}
