package clientapi

import (
	"context"
	"strconv"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
)

type listSessionEventsIn struct {
	ID    string `path:"id"`
	After string `query:"after" default:"0" doc:"Only events with a greater seq"`
	Types string `query:"types" doc:"Only events of these types, separated by commas"`
	Limit int    `query:"limit"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *listSessionEventsIn) Validate() (failure *machine.Failure) {
	in.after, failure = eventlog.Cursor("after", in.After)
	return failure
}

func (a *API) listSessionEvents(ctx context.Context, in *listSessionEventsIn) (*sessionEvents, error) {
	if _, err := a.session(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := a.Reader.Events(ctx, endpoint.EventQuery{
		ConversationID: in.ID, After: in.after, Types: eventlog.SplitTypes(in.Types), Limit: in.Limit,
	})
	if err != nil {
		return nil, sessionFailure(err)
	}
	return &sessionEvents{page}, nil
}

type streamSessionEventsIn struct {
	ID          string `path:"id"`
	After       string `query:"after" doc:"Replay events with a greater seq; Last-Event-ID wins"`
	Types       string `query:"types" doc:"Only frames of these types, separated by commas"`
	LastEventID string `header:"Last-Event-ID" doc:"Seq of the last event seen"`

	after uint64
}

// Validate implements endpoint.Validator.
func (in *streamSessionEventsIn) Validate() (failure *machine.Failure) {
	if in.LastEventID != "" {
		in.after, failure = eventlog.Cursor("Last-Event-ID", in.LastEventID)
		return failure
	}
	in.after, failure = eventlog.Cursor("after", in.After)
	return failure
}

// streamSessionEvents follows a session's event log: what is stored after a cursor, then what happens.
func (a *API) streamSessionEvents(
	ctx context.Context, in *streamSessionEventsIn, stream endpoint.Stream,
) (*endpoint.Empty, error) {
	if _, err := a.session(ctx, in.ID); err != nil {
		return nil, err
	}
	err := eventlog.Follow(ctx, a.Hub, eventlog.Query{
		ConversationID: in.ID, After: in.after, Types: eventlog.SplitTypes(in.Types), Dialect: eventlog.Client,
	}, stream)
	return nil, sessionFailure(err)
}

// sessionEvents is a page of the event log.
type sessionEvents struct{ page *endpoint.EventPage }

// AppendJSON implements endpoint.Appender.
func (e *sessionEvents) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, event := range e.page.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = eventlog.Append(dst, event, eventlog.Client)
	}
	dst = append(dst, `],"has_more":`...)
	dst = strconv.AppendBool(dst, e.page.HasMore)
	dst = append(dst, `,"last_seq":`...)
	return append(strconv.AppendUint(dst, e.page.LastSeq, 10), '}')
}

// Described implements openapi.Described.
func (e *sessionEvents) Described() (value any, nullable bool) { return sessionEventsSchema{}, false }
