package sessions

import (
	"context"
	"strconv"

	"parley/actors/core/entity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/eventlog"
	"parley/proto/nodepb"
)

func (a *api) listSessionEvents(ctx context.Context, in *eventlog.PageInput) (*sessionEvents, error) {
	if _, err := a.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	page, err := entity.Read[*nodepb.EventsReply](ctx, a.Entities, in.Query())
	if err != nil {
		return nil, handler.SessionFailure(err)
	}
	return &sessionEvents{page}, nil
}

// streamSessionEvents follows a session's event log: what is stored after a cursor, then what happens.
func (a *api) streamSessionEvents(
	ctx context.Context, in *eventlog.StreamInput, stream endpoint.Stream,
) (*endpoint.Empty, error) {
	if _, err := a.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	return nil, handler.SessionFailure(eventlog.Follow(ctx, a.Hub, in, eventlog.Client, stream))
}

// sessionEvents is a page of the event log.
type sessionEvents struct{ page *nodepb.EventsReply }

// AppendJSON implements endpoint.Appender.
func (e *sessionEvents) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"object":"list","data":`...)
	dst = eventlog.AppendAll(dst, e.page.Events, eventlog.Client)
	dst = append(dst, `,"has_more":`...)
	dst = strconv.AppendBool(dst, e.page.HasMore)
	dst = append(dst, `,"last_seq":`...)
	return append(strconv.AppendUint(dst, e.page.LastSeq, 10), '}')
}

// Described implements openapi.Described.
func (e *sessionEvents) Described() (value any, nullable bool) { return sessionEventsSchema{}, false }
