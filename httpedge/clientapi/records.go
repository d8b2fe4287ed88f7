package clientapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// maker is on whose behalf a request writes agents, models and providers.
func maker(ctx context.Context) catalog.Caller {
	caller := endpoint.CallerFrom(ctx)
	return catalog.Caller{
		TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID, Tier: caller.Grant.Tier(),
	}
}

// recordError tells in this surface's words that a record is missing, or that its key is taken.
func recordError(err error) error {
	if missing, is := errors.AsType[*collection.MissingError](err); is {
		code := failurepb.Code_NOT_FOUND
		switch missing.Noun {
		case "agent":
			code = failurepb.Code_AGENT_NOT_FOUND
		case "agent version":
			code = failurepb.Code_VERSION_NOT_FOUND
		case "model":
			code = failurepb.Code_MODEL_NOT_FOUND
		}
		return machine.Fail(code, "%s not found", strings.ToUpper(missing.Noun[:1])+missing.Noun[1:])
	}
	if exists, is := errors.AsType[*collection.ExistsError](err); is {
		return machine.Fail(failurepb.Code_ALREADY_EXISTS, "A %s with this key already exists", exists.Noun)
	}
	return err
}

// pagination says where a page of a list stands that has a total number of entries.
func pagination(limit, offset, total int) paginationSchema {
	return paginationSchema{Limit: limit, Offset: offset, HasMore: limit < total-min(offset, total)}
}

// given is a field that may be absent; null is its zero value.
type given[T any] struct {
	set   bool
	value T
}

// UnmarshalJSON notes that the field is there.
func (g *given[T]) UnmarshalJSON(raw []byte) error {
	g.set = true
	return json.Unmarshal(raw, &g.value)
}

// Described implements openapi.Described.
func (g given[T]) Described() (value any, nullable bool) { return g.value, true }

// pointer is the value, nil when the field is absent.
func (g given[T]) pointer() *T {
	if !g.set {
		return nil
	}
	return &g.value
}
