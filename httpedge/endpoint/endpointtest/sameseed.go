package endpointtest

import (
	"context"

	"parley/httpedge/endpoint"
)

// SameSeed is an endpoint.Idempotency that forgets every answer: a request that is repeated under a key is carried out again, as after a crash.
type SameSeed struct{}

// Begin implements endpoint.Idempotency.
func (SameSeed) Begin(_ context.Context, request endpoint.KeyedRequest) (*endpoint.KeptRequest, error) {
	return &endpoint.KeptRequest{ID: "idem_1", Seed: "seed of " + request.Key, Hash: request.Hash}, nil
}

// Release implements endpoint.Idempotency.
func (SameSeed) Release(context.Context, *endpoint.KeptRequest) error { return nil }

// Keep implements endpoint.Idempotency.
func (SameSeed) Keep(context.Context, *endpoint.KeptRequest, endpoint.KeptAnswer) error { return nil }
