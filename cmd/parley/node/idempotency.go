package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/actors/machine"
	"parley/cluster"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
	"parley/proto/idempotencypb"
)

// keptRequests is the router as the edge's endpoint.Idempotency: a key is an entity of the shard that its name falls into.
type keptRequests struct {
	router *cluster.Router
	ids    endpoint.IDs
	keep   time.Duration
	seal   *sealer // answers may hold secrets, such as a new token
}

// Begin asks the key's owner.
func (k *keptRequests) Begin(ctx context.Context, request endpoint.KeyedRequest) (*endpoint.KeptRequest, error) {
	id := k.ids.NewIDFrom("idem", keyName(request))
	begin := &idempotencypb.Begin{Request: request.Hash[:], KeepMs: k.keep.Milliseconds()}
	if request.Once {
		begin.Holder = k.ids.NewID("holder") // the command may arrive twice
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
		return nil // this cluster has no secret to seal with: it is not kept, as if it were too large
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
	answer, _, err := k.router.Ask(ctx, command.GetId(), command) // which node keeps the key is not told the client
	reply, _ := answer.(*idempotencypb.Reply)
	return reply.GetState(), err
}

// keyName names the key of one caller on one route; no part can reach into another.
func keyName(request endpoint.KeyedRequest) string {
	parts := []string{request.Caller.TenantID, request.Caller.ProjectID, request.Caller.UserID, request.Route, request.Key}
	for i := range parts {
		parts[i] = machine.ListPart(parts[i])
	}
	return strings.Join(parts, "/")
}
