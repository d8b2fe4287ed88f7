package node

import (
	"context"
	"strings"
	"time"

	"parley/actors/machine"
	"parley/cluster"
	"parley/httpedge/endpoint"
	"parley/proto/idempotencypb"
)

// keptRequests is the router as the edge's endpoint.Idempotency: a key is an entity of the shard that its name falls into.
type keptRequests struct {
	router *cluster.Router
	ids    endpoint.IDs
	keep   time.Duration
}

// Begin asks the key's owner.
func (k *keptRequests) Begin(ctx context.Context, request endpoint.KeyedRequest) (*endpoint.KeptRequest, error) {
	id := k.ids.NewIDFrom("idem", keyName(request))
	state, err := k.ask(ctx, &idempotencypb.Command{Id: id, Body: &idempotencypb.Command_Begin{Begin: &idempotencypb.Begin{
		Request: request.Hash[:], KeepMs: k.keep.Milliseconds(),
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
func (k *keptRequests) Keep(ctx context.Context, kept *endpoint.KeptRequest, answer endpoint.KeptAnswer) error {
	_, err := k.ask(ctx, &idempotencypb.Command{Id: kept.ID, Body: &idempotencypb.Command_Keep{Keep: &idempotencypb.Keep{
		Request: kept.Hash[:],
		Answer:  &idempotencypb.Answer{Status: uint32(answer.Status), ContentType: answer.ContentType, Body: answer.Body},
	}}})
	return err
}

func (k *keptRequests) ask(ctx context.Context, command *idempotencypb.Command) (*idempotencypb.State, error) {
	reply, _, err := askEntity[*idempotencypb.Reply](ctx, k.router, command.GetId(), command)
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
