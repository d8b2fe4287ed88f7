package node

import (
	"context"
	"errors"
	"fmt"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/cluster"
	"parley/httpedge/endpoint"
	"parley/persistence"
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
	if otherKind(id) {
		return nil, notFound()
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
		return notFound()
	}
	return failure.New(code, reason)
}

// readFault turns a failed read into what the caller should see: a failure for temporary errors and damaged data.
func readFault(what string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_UNAVAILABLE, failure.ReadTooSlow), err)
	case errors.Is(err, persistence.ErrNotLeader), errors.Is(err, persistence.ErrStopped), errors.Is(err, persistence.ErrBusy):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_UNAVAILABLE, failure.OwnerNotAvailable), err)
	case errors.Is(err, persistence.ErrCorrupt):
		return fmt.Errorf("%s: %w: %w", what, failure.New(failurepb.Code_STORAGE_FAILED, failure.DataDamaged), err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
