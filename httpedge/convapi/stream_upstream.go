package convapi

import (
	"context"

	"parley/actors/core/follow"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// upstream adapts the runtime and the reader to the hub's interface.
type upstream struct {
	runtime endpoint.Runtime
	reader  endpoint.Reader
}

// NewUpstream returns the upstream through which a hub follows conversations.
func NewUpstream(runtime endpoint.Runtime, reader endpoint.Reader) sse.Upstream {
	return upstream{runtime, reader}
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
	page, err := u.reader.Events(ctx, endpoint.EventQuery{ConversationID: id, After: after, Limit: limit})
	if err != nil {
		return nil, 0, err
	}
	return page.Events, page.LastSeq, nil
}
