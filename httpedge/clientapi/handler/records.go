package handler

import (
	"context"
	"errors"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/failurepb"
)

// Success is the body of an answer that has nothing else to say.
type Success = resource.Success

// Deleted is the answer of a deletion.
func Deleted(err error) (*Success, error) {
	if err != nil {
		return nil, RecordError(err)
	}
	return &Success{Success: true}, nil
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

// Make is a method of the catalog that makes a record, on behalf of the caller.
func Make[I, R any](do func(context.Context, catalog.Caller, I) (R, error)) func(context.Context, I) (R, error) {
	return func(ctx context.Context, in I) (R, error) { return do(ctx, Maker(ctx), in) }
}

// Change is Make for one that changes a record.
func Change[I, R any](do func(context.Context, catalog.Caller, string, I) (R, error)) func(context.Context, string, I) (R, error) {
	return func(ctx context.Context, key string, in I) (R, error) { return do(ctx, Maker(ctx), key, in) }
}

// Remove is Make for one that deletes a record.
func Remove(do func(context.Context, catalog.Caller, string) error) func(context.Context, string) error {
	return func(ctx context.Context, key string) error { return do(ctx, Maker(ctx), key) }
}
