package convapi

import (
	"context"

	"parley/actors/core/entity"
	"parley/actors/core/follow"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// upstream adapts the runtime and the reads of conversations to the hub's interface.
type upstream struct {
	runtime  endpoint.Runtime
	entities entity.Client
}

// NewUpstream returns the upstream through which a hub follows conversations.
func NewUpstream(runtime endpoint.Runtime, entities entity.Client) sse.Upstream {
	return upstream{runtime, entities}
}

// Follow implements sse.Upstream.
func (u upstream) Follow(ctx context.Context, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	subscription, err := u.runtime.Follow(ctx, id, sink)
	if err != nil {
		return nil, nil, err
	}
	return subscription.Snapshot, subscription.Cancel, nil
}

// Events implements sse.Upstream.
func (u upstream) Events(ctx context.Context, id string, after uint64, limit int) ([]*conversationpb.Event, uint64, error) {
	page, err := entity.Read[*nodepb.EventsReply](ctx, u.entities, &nodepb.EventsQuery{Id: id, After: after, Limit: uint32(limit)})
	if err != nil {
		return nil, 0, err
	}
	return page.Events, page.LastSeq, nil
}
