package convapi

import (
	"context"

	"parley/actors/core/entity"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/proto/nodepb"
)

func (a *API) listEvents(ctx context.Context, in *eventlog.PageInput) (*body.EventPage, error) {
	if _, err := a.readable(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := entity.Read[*nodepb.EventsReply](ctx, a.entities, in.Query())
	if err != nil {
		return nil, err
	}
	return &body.EventPage{Page: page}, nil
}

// streamEvents follows a conversation's event log: the stored events after a cursor, then new events as they happen.
func (a *API) streamEvents(ctx context.Context, in *eventlog.StreamInput, stream endpoint.Stream) (*endpoint.Empty, error) {
	if _, err := a.readable(ctx, in.ID); err != nil {
		return nil, err
	}
	return nil, eventlog.Follow(ctx, a.hub, in, eventlog.Conversation, stream)
}
