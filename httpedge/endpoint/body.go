package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// bodyPlan is how a body fills an input. encoding/json fills every exported field, one without a tag by its name in Go, in any case: a
// member of the body could stand for a field of the path, or be refused because it has another type than that one.
type bodyPlan struct {
	like   reflect.Type // a struct of the fields that have a json tag, and no others; nil = the input reads JSON by itself
	fields [][]int      // where each of them is in the input
}

func planBody(in reflect.Type) *bodyPlan {
	plan := &bodyPlan{}
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(in) {
		if _, tagged := field.Tag.Lookup("json"); tagged && !field.Anonymous && field.IsExported() {
			fields = append(fields, reflect.StructField{Name: field.Name, Type: field.Type, Tag: field.Tag})
			plan.fields = append(plan.fields, field.Index)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	if !reflect.PointerTo(in).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		plan.like = reflect.StructOf(fields)
	}
	return plan
}

// decode fills an input, and only those of its fields that are declared as the body's.
func (p *bodyPlan) decode(body []byte, value reflect.Value, maxDepth int) *machine.Failure {
	if p.like == nil {
		return decodeBody(body, value.Addr().Interface(), maxDepth)
	}
	read := reflect.New(p.like)
	if refused := decodeBody(body, read.Interface(), maxDepth); refused != nil {
		return refused
	}
	for i, index := range p.fields {
		value.FieldByIndex(index).Set(read.Elem().Field(i))
	}
	return nil
}

// decodeBody reads a JSON object. An empty body is an empty object; members that the struct has no field for are ignored.
func decodeBody(body []byte, in any, maxDepth int) *machine.Failure {
	if len(body) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotUTF8)
	}
	if tooDeep(body, maxDepth) {
		return failure.New(failurepb.Code_VALIDATION, failure.BodyTooDeep).Param("most", maxDepth)
	}
	if err := json.Unmarshal(body, in); err != nil {
		return bodyFailure(err)
	}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) { // which decodes into anything
		return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
	}
	return nil
}

// tooDeep says whether JSON nests deeper than max. The result is undefined for invalid JSON.
func tooDeep(body []byte, maxDepth int) bool {
	if len(body) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// vastNumber returns a number that most JSON parsers cannot represent, "" when there is none: one too large for a double becomes
// infinite in them, and what is stored as it was sent is shown to them later. The result is undefined for invalid JSON.
func vastNumber(body []byte) string {
	quoted := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '-' || c >= '0' && c <= '9':
			number := numberAt(body[i:])
			if isVast(number) {
				return string(number[:min(len(number), maxShown)])
			}
			i += len(number) - 1
		}
	}
	return ""
}

// maxShown bounds the part of a number that a failure quotes.
const maxShown = 40

// numberAt returns the number at the beginning of a text.
func numberAt(text []byte) []byte {
	for i, c := range text {
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			return text[:i]
		}
	}
	return text
}

// isVast says whether a number is larger than any double.
func isVast(number []byte) bool {
	const safe = 300 // digits that surely fit
	if len(number) < safe && !bytes.ContainsAny(number, "eE") {
		return false
	}
	value, _ := strconv.ParseFloat(string(number), 64) // malformed numbers were refused before
	return math.IsInf(value, 0)
}

func bodyFailure(err error) *machine.Failure {
	var refused *machine.Failure
	if errors.As(err, &refused) {
		return refused
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return failure.New(failurepb.Code_VALIDATION, failure.BodyNotAnObject)
		}
		return failure.New(failurepb.Code_VALIDATION, failure.WrongType).Param("name", wrong.Field).Param("type", describe(wrong.Type))
	}
	return failure.New(failurepb.Code_VALIDATION, failure.BodyNotJSON).Param("problem", err.Error())
}

// describe names a Go type as a JSON client knows it.
func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return describe(t.Elem())
	default:
		return "a number"
	}
}
