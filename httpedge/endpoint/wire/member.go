package wire

import (
	"bytes"
	"encoding/json"
)

// AppendMember appends a member of an object. label is `,"name":`.
func AppendMember(dst []byte, label, value string) []byte {
	return AppendString(append(dst, label...), value)
}

// AppendOptional is AppendMember, unless the value is empty.
func AppendOptional(dst []byte, label, value string) []byte {
	if value == "" {
		return dst
	}
	return AppendMember(dst, label, value)
}

// AppendNullable is AppendMember, with null for an empty value.
func AppendNullable(dst []byte, label, value string) []byte {
	if value == "" {
		return append(append(dst, label...), "null"...)
	}
	return AppendMember(dst, label, value)
}

// AppendStrings appends an array of texts.
func AppendStrings(dst []byte, values []string) []byte { return AppendList(dst, values, AppendString) }

// AppendList appends an array of what one appends of each item.
func AppendList[T any](dst []byte, items []T, one func(dst []byte, item T) []byte) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, item)
	}
	return append(dst, ']')
}

// AppendObjectLine is AppendObject, on one line.
func AppendObjectLine(dst, raw []byte) []byte {
	if bytes.ContainsAny(raw, "\r\n") {
		raw = Line(raw)
	}
	return AppendObject(dst, raw)
}

// Close makes members that begin at start, each with its comma in front, an object.
func Close(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, '{', '}')
	}
	dst[start] = '{'
	return append(dst, '}')
}

// Compact is Line, of nothing and of null nil.
func Compact(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return Line(raw)
}

// Line puts a JSON value on one line. What is no JSON is returned as it is.
func Line(raw []byte) []byte {
	var buffer bytes.Buffer
	if json.Compact(&buffer, raw) != nil {
		return raw
	}
	return buffer.Bytes()
}
