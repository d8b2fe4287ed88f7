package node

import (
	"context"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cmd/parley/node/reads"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// runtime implements endpoint.Runtime.
type runtime struct {
	entity.Client

	router *cluster.Router
}

// Ask sends a command to its conversation's owner.
func (r *runtime) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	return entity.Ask[*conversationpb.Reply](ctx, r.Client, command.GetConversationId(), command)
}

// Follow subscribes to a conversation at its owner.
func (r *runtime) Follow(ctx context.Context, id string, sink follow.Sink) (*endpoint.Subscription, error) {
	if reads.OtherKind(id) {
		return nil, reads.NotFound()
	}
	followed, err := r.router.Follow(ctx, id, sink)
	if err != nil {
		return nil, err
	}
	endpoint.ServedBy(ctx, followed.Node)
	return &endpoint.Subscription{Snapshot: followed.Snapshot, Cancel: followed.Cancel}, nil
}

// refuse turns the router's failures into those that the edge knows.
func refuse(code failurepb.Code, reason failure.Reason) error {
	if code == failurepb.Code_NOT_FOUND {
		return reads.NotFound()
	}
	return failure.New(code, reason)
}
