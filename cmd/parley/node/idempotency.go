package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"parley/actors/machine"
	"parley/cluster"
	"parley/httpedge/endpoint"
	"parley/proto/idempotencypb"
)

// idempotency is the router as the edge's endpoint.Idempotency: a key is an entity of the shard that its name falls into.
type idempotency struct {
	router *cluster.Router
	ids    endpoint.IDs
	keep   time.Duration
}

// Begin asks the key's owner.
func (i *idempotency) Begin(ctx context.Context, request endpoint.KeyedRequest) (*endpoint.KeptRequest, error) {
	id := i.ids.NewIDFrom("idem", keyName(request))
	state, err := i.ask(ctx, &idempotencypb.Command{Id: id, Body: &idempotencypb.Command_Begin{Begin: &idempotencypb.Begin{
		Request: request.Hash[:], KeepMs: i.keep.Milliseconds(),
	}}})
	if err != nil {
		return nil, err
	}
	kept := &endpoint.KeptRequest{ID: id, Seed: state.GetSeed(), Hash: request.Hash}
	if answer := state.GetAnswer(); answer != nil {
		kept.Answer = &endpoint.KeptAnswer{
			Status: int(answer.GetStatus()), ContentType: answer.GetContentType(), Body: answer.GetBody(),
		}
	}
	return kept, nil
}

// Keep stores the first answer at the key's owner.
func (i *idempotency) Keep(ctx context.Context, kept *endpoint.KeptRequest, answer endpoint.KeptAnswer) error {
	_, err := i.ask(ctx, &idempotencypb.Command{Id: kept.ID, Body: &idempotencypb.Command_Keep{Keep: &idempotencypb.Keep{
		Request: kept.Hash[:],
		Answer:  &idempotencypb.Answer{Status: uint32(answer.Status), ContentType: answer.ContentType, Body: answer.Body},
	}}})
	return err
}

func (i *idempotency) ask(ctx context.Context, command *idempotencypb.Command) (*idempotencypb.State, error) {
	answer, _, err := i.router.Ask(ctx, command.GetId(), command)
	if err != nil {
		return nil, err
	}
	reply, ok := answer.(*idempotencypb.Reply)
	if !ok {
		return nil, fmt.Errorf("idempotency key answered with a %T", answer)
	}
	return reply.GetState(), nil
}

// keyName names the key of one caller on one route; no part can reach into another.
func keyName(request endpoint.KeyedRequest) string {
	parts := []string{request.Caller.TenantID, request.Caller.ProjectID, request.Caller.UserID, request.Route, request.Key}
	for i := range parts {
		parts[i] = machine.ListPart(parts[i])
	}
	return strings.Join(parts, "/")
}
