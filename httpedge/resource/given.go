package resource

import (
	"encoding/json"
	"reflect"
)

// Given is a field that may be absent; null is its zero value.
type Given[T any] struct {
	set   bool
	value T
}

// UnmarshalJSON notes that the field is there.
func (g *Given[T]) UnmarshalJSON(raw []byte) error {
	g.set = true
	return json.Unmarshal(raw, &g.value)
}

// Described implements openapi.Described.
func (g Given[T]) Described() (value any, nullable bool) { return g.value, true }

// Pointer is the value, nil when the field is absent.
func (g Given[T]) Pointer() *T {
	if !g.set {
		return nil
	}
	return &g.value
}

// Set is a field of a change that can be left out, and cannot be taken away: null is no value of it.
type Set[T any] struct{ value *T }

// UnmarshalJSON refuses null.
func (s *Set[T]) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeFor[T]()}
	}
	s.value = new(T)
	return json.Unmarshal(raw, s.value)
}

// Described implements openapi.Described.
func (s Set[T]) Described() (value any, nullable bool) {
	var like T
	return like, false
}

// Pointer is the value, nil when the field is absent.
func (s Set[T]) Pointer() *T { return s.value }

// Value is the value, the empty one when the field is absent.
func (s Set[T]) Value() (value T) {
	if s.value != nil {
		value = *s.value
	}
	return value
}
