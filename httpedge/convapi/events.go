package convapi

import (
	"context"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
)

type listEventsIn struct {
	ID    string `path:"id"`
	After string `query:"after" default:"0" doc:"Only events with a greater seq"`
	Types string `query:"types" doc:"Only events of these types, separated by commas"`
	Limit int    `query:"limit"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *listEventsIn) Validate() (failure *machine.Failure) {
	in.after, failure = eventlog.Cursor("after", in.After)
	return failure
}

func (a *API) listEvents(ctx context.Context, in *listEventsIn) (*eventPage, error) {
	if _, err := a.readable(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := a.reader.Events(ctx, endpoint.EventQuery{
		ConversationID: in.ID, After: in.after, Types: eventlog.SplitTypes(in.Types), Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	return &eventPage{page}, nil
}

type streamEventsIn struct {
	ID          string `path:"id"`
	After       string `query:"after" doc:"Replay events with a greater seq; Last-Event-ID wins"`
	Types       string `query:"types" doc:"Only frames of these types, separated by commas"`
	LastEventID string `header:"Last-Event-ID" doc:"Seq of the last event seen"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *streamEventsIn) Validate() (failure *machine.Failure) {
	if in.LastEventID != "" {
		in.after, failure = eventlog.Cursor("Last-Event-ID", in.LastEventID)
		return failure
	}
	in.after, failure = eventlog.Cursor("after", in.After)
	return failure
}

// streamEvents follows a conversation's event log: what is stored after a cursor, then what happens.
func (a *API) streamEvents(ctx context.Context, in *streamEventsIn, stream endpoint.Stream) (*endpoint.Empty, error) {
	if _, err := a.readable(ctx, in.ID); err != nil {
		return nil, err
	}
	return nil, eventlog.Follow(ctx, a.hub, eventlog.Query{
		ConversationID: in.ID, After: in.after, Types: eventlog.SplitTypes(in.Types), Dialect: eventlog.Conversation,
	}, stream)
}
