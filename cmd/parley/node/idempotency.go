package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/actors/machine"
	"parley/cluster"
	"parley/cmd/parley/node/seal"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
)

// keptRequests implements endpoint.Idempotency: each key is an entity in the shard that its name hashes to.
type keptRequests struct {
	router *cluster.Router
	ids    endpoint.IDs
	keep   time.Duration
	seal   *seal.Sealer // answers may hold secrets, such as a new token
}

// Begin registers a request at the key's owner, or returns the answer kept there.
func (k *keptRequests) Begin(ctx context.Context, request endpoint.KeyedRequest) (*endpoint.KeptRequest, error) {
	id := k.ids.NewIDFrom("idem", keyName(request))
	begin := &idempotencypb.Begin{Request: request.Hash[:], KeepMs: k.keep.Milliseconds()}
	if request.Once {
		begin.Holder = k.ids.NewID("holder") // tells a repeated command from a second request
	}
	state, err := k.ask(ctx, &idempotencypb.Command{Id: id, Body: &idempotencypb.Command_Begin{Begin: begin}})
	if err != nil {
		return nil, err
	}
	kept := &endpoint.KeptRequest{ID: id, Seed: state.GetSeed(), Hash: request.Hash}
	if answer := state.GetAnswer(); answer != nil {
		body := answer.GetBody()
		if answer.GetSealed() {
			if body, err = k.seal.Open(body, id); err != nil {
				return nil, fmt.Errorf("open a kept answer: %w", err)
			}
		}
		kept.Answer = &endpoint.KeptAnswer{Status: int(answer.GetStatus()), ContentType: answer.GetContentType(), Body: body}
	}
	return kept, nil
}

// Keep stores the first answer at the key's owner.
func (k *keptRequests) Keep(ctx context.Context, kept *endpoint.KeptRequest, answer endpoint.KeptAnswer) error {
	sealed, err := k.seal.Seal(answer.Body, kept.ID)
	if failure, is := errors.AsType[*machine.Failure](err); is && failure.Code == failurepb.Code_SECRETS_UNAVAILABLE {
		return nil // the cluster has no encryption secret: the answer is not kept, like one that is too large
	}
	if err != nil {
		return err
	}
	_, err = k.ask(ctx, &idempotencypb.Command{Id: kept.ID, Body: &idempotencypb.Command_Keep{Keep: &idempotencypb.Keep{
		Request: kept.Hash[:],
		Answer: &idempotencypb.Answer{
			Status: uint32(answer.Status), ContentType: answer.ContentType, Body: sealed, Sealed: true,
		},
	}}})
	return err
}

// Release forgets a request that was refused.
func (k *keptRequests) Release(ctx context.Context, kept *endpoint.KeptRequest) error {
	_, err := k.ask(ctx, &idempotencypb.Command{Id: kept.ID, Body: &idempotencypb.Command_Release{
		Release: &idempotencypb.Release{Request: kept.Hash[:]},
	}})
	return err
}

func (k *keptRequests) ask(ctx context.Context, command *idempotencypb.Command) (*idempotencypb.State, error) {
	answer, _, err := k.router.Ask(ctx, command.GetId(), command) // the client is not told which node keeps the key
	reply, _ := answer.(*idempotencypb.Reply)
	return reply.GetState(), err
}

// keyName is the name of a caller's key on a route; its parts are escaped, so that no two keys share a name.
func keyName(request endpoint.KeyedRequest) string {
	parts := []string{request.Caller.TenantID, request.Caller.ProjectID, request.Caller.UserID, request.Route, request.Key}
	for i := range parts {
		parts[i] = machine.ListPart(parts[i])
	}
	return strings.Join(parts, "/")
}
