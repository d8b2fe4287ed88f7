package handler

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Success is the body of an answer that has nothing else to say.
type Success struct {
	Success bool `json:"success"`
}

// Deleted is the answer of a deletion.
func Deleted(err error) (*Success, error) {
	if err != nil {
		return nil, RecordError(err)
	}
	return &Success{true}, nil
}

// Maker is the caller on whose behalf a request writes agents, models and providers.
func Maker(ctx context.Context) catalog.Caller {
	caller := endpoint.CallerFrom(ctx)
	return catalog.Caller{
		TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID, Tier: caller.Grant.Tier(),
	}
}

// RecordError gives the absence of a record this surface's code for it.
func RecordError(err error) error {
	missing, is := errors.AsType[*collection.MissingError](err)
	refused, refuses := errors.AsType[*failure.Failure](err)
	if !is || !refuses {
		return err
	}
	switch missing.Noun {
	case "agent":
		return refused.WithCode(failurepb.Code_AGENT_NOT_FOUND)
	case "agent version":
		return refused.WithCode(failurepb.Code_VERSION_NOT_FOUND)
	case "model":
		return refused.WithCode(failurepb.Code_MODEL_NOT_FOUND)
	}
	return refused
}

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
