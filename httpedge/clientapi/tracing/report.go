package tracing

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/tracing"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
	"parley/proto/tracepb"
)

// maxAppend is about how many bytes of events are stored at once.
const maxAppend = 1 << 20

type sessionInput struct {
	tracing.HeadInput

	SessionID tracing.Text      `json:"sessionId" doc:"Required; what is reported under the same id adds to the session"`
	Events    tracing.EventList `json:"events"`
}

type sessionOut struct {
	Success      bool   `json:"success"`
	SessionID    string `json:"sessionId"`
	EventsStored int64  `json:"eventsStored" doc:"Those that were known included"`
}

func (a *api) reportSession(ctx context.Context, in *sessionInput) (*sessionOut, error) {
	caller, done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	id, refused := sessionID(string(in.SessionID))
	if refused != nil {
		return nil, refused
	}
	if in.Events.Full {
		return nil, failure.New(failurepb.Code_QUOTA_REACHED, failure.TraceFull).Param("most", tracing.MaxEvents)
	}
	put := &tracepb.Put{SessionId: id, Record: in.Whole(), Said: in.Summary.Value.Numbers()}
	for i := range in.Events.Events {
		put.Events = append(put.Events, in.Events.Events[i].Event(a.eventID))
	}
	reply, err := a.storeOne(ctx, caller, put)
	if err != nil {
		return nil, err
	}
	return &sessionOut{Success: true, SessionID: id, EventsStored: reply.GetStored()}, nil
}

// eventID makes the id of an event that has none.
func (a *api) eventID() string { return a.IDs.NewID("event") }

func sessionID(id string) (string, *failure.Failure) {
	switch {
	case id == "":
		return "", failure.New(failurepb.Code_INVALID_REQUEST, failure.TraceNoSession)
	case len(id) > tracing.MaxID:
		return "", failure.New(failurepb.Code_INVALID_REQUEST, failure.TraceLongID).Param("name", "sessionId").Param("most", tracing.MaxID)
	}
	if strings.IndexFunc(id, unicode.IsControl) >= 0 { // no path can name it
		return "", failure.New(failurepb.Code_INVALID_REQUEST, failure.ControlCharacters).In("sessionId")
	}
	return id, nil
}

type startInput struct {
	tracing.HeadInput

	SessionID string `path:"sessionId"`
}

type startOut struct {
	Success   bool   `json:"success"`
	SessionID string `json:"sessionId"`
	Status    string `json:"status" enum:"in_progress"`
}

func (a *api) startTraceSession(ctx context.Context, in *startInput) (*startOut, error) {
	caller, done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	id, refused := sessionID(in.SessionID)
	if refused != nil {
		return nil, refused
	}
	record := in.Record()
	record.Status = tracing.InProgress
	if _, err = a.storeOne(ctx, caller, &tracepb.Put{SessionId: id, Starts: true, Record: record, Said: in.Summary.Value.Numbers()}); err != nil {
		return nil, err
	}
	return &startOut{Success: true, SessionID: id, Status: tracing.InProgress}, nil
}

type eventInput struct {
	SessionID string              `path:"sessionId"`
	Event     *tracing.EventInput `json:"event" doc:"Required"`
}

type eventOut struct {
	Success     bool   `json:"success"`
	SessionID   string `json:"sessionId"`
	EventID     string `json:"eventId"`
	TotalEvents int64  `json:"totalEvents"`
}

func (a *api) reportEvent(ctx context.Context, in *eventInput) (*eventOut, error) {
	caller, done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	id, refused := sessionID(in.SessionID)
	if refused != nil {
		return nil, refused
	}
	if in.Event == nil {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.TraceNoEvent)
	}
	event := in.Event.Event(a.eventID)
	reply, err := a.storeOne(ctx, caller, &tracepb.Put{SessionId: id, Known: true, Events: []*tracepb.Happening{event}})
	if err != nil {
		return nil, err
	}
	return &eventOut{Success: true, SessionID: id, EventID: event.GetId(), TotalEvents: reply.GetEvents()}, nil
}

type endInput struct {
	tracing.EndInput

	SessionID string `path:"sessionId"`
}

type endOut struct {
	Success     bool   `json:"success"`
	SessionID   string `json:"sessionId"`
	Status      string `json:"status"`
	DurationMs  int64  `json:"durationMs"`
	TotalEvents int64  `json:"totalEvents"`
}

func (a *api) endTraceSession(ctx context.Context, in *endInput) (*endOut, error) {
	caller, done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	id, refused := sessionID(in.SessionID)
	if refused != nil {
		return nil, refused
	}
	put := &tracepb.Put{SessionId: id, Known: true, Record: in.Record(time.Now().UnixMilli()), Said: in.Summary.Value.Numbers()}
	reply, err := a.storeOne(ctx, caller, put)
	if err != nil {
		return nil, err
	}
	return &endOut{Success: true, SessionID: id, Status: reply.GetStatus(), DurationMs: reply.GetDurationMs(), TotalEvents: reply.GetEvents()}, nil
}

// write adds to a session that is let in, in one append unless its events are large. It joins its thread first, so that it can be found.
func (a *api) write(ctx context.Context, caller endpoint.Caller, put *tracepb.Put) (*tracepb.Reply, error) {
	put.TenantId, put.ProjectId, put.UserId, put.KeepMs = caller.TenantID, caller.ProjectID, caller.UserID, a.Config.TraceRetention.Milliseconds()
	a.bound(caller, put)
	id := a.ReportedID(tracing.Prefix, caller, put.GetSessionId())
	named := put.GetRecord().GetThreadId()
	if named == put.GetSessionId() {
		named, put.Record.ThreadId = "", ""
	}
	if named != "" {
		put.Thread = a.ReportedID(tracing.ThreadPrefix, caller, named)
		known, err := a.session(ctx, id)
		if err != nil {
			return nil, err
		}
		fresh := known.GetThread() == ""
		if !fresh {
			put.Thread, put.Record.ThreadId = known.GetThread(), known.GetRecord().GetThreadId()
		}
		if err := a.join(ctx, put, put.GetThread(), put.GetRecord().GetThreadId(), fresh); err != nil {
			return nil, err
		}
	}
	reply := &tracepb.Reply{}
	for left := put.GetEvents(); ; {
		var part *tracepb.Put
		part, left = cut(put, left)
		got, err := entity.Ask[*tracepb.Reply](ctx, a.Entities, id, &tracepb.Command{Id: id, Body: &tracepb.Command_Put{Put: part}})
		if err != nil {
			return nil, err
		}
		got.Stored, got.LeftOut = got.GetStored()+reply.GetStored(), got.GetLeftOut()+reply.GetLeftOut()
		if reply = got; len(left) == 0 {
			break
		}
	}
	if named == "" && reply.GetThread() != "" { // the thread lives as long as its sessions do
		return reply, a.join(ctx, put, reply.GetThread(), reply.GetThreadId(), false)
	}
	return reply, nil
}

// cut takes as many of the events that are left of a put as are stored at once.
func cut(put *tracepb.Put, left []*tracepb.Happening) (part *tracepb.Put, after []*tracepb.Happening) {
	part = &tracepb.Put{
		TenantId: put.GetTenantId(), ProjectId: put.GetProjectId(), UserId: put.GetUserId(), SessionId: put.GetSessionId(), Thread: put.GetThread(), Known: put.GetKnown(),
		Starts: put.GetStarts(), Partly: put.GetPartly(), KeepMs: put.GetKeepMs(), Record: put.GetRecord(), Said: put.GetSaid(),
		MaxEvents: put.MaxEvents, MaxDurationMs: put.MaxDurationMs,
	}
	size := 0
	for len(left) > 0 && size < maxAppend {
		size += proto.Size(left[0])
		part.Events, left = append(part.Events, left[0]), left[1:]
	}
	return part, left
}

// session reads a session; nil where there is none.
func (a *api) session(ctx context.Context, id string) (*tracepb.Session, error) {
	reply, err := entity.Read[*tracepb.SessionReply](ctx, a.Entities, &tracepb.SessionQuery{Id: id})
	if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_SESSION_NOT_FOUND {
		return nil, nil //nolint:nilnil // said above
	}
	return reply.GetSession(), err
}

func (a *api) join(ctx context.Context, put *tracepb.Put, thread, name string, fresh bool) error {
	_, err := entity.Ask[*tracepb.ThreadReply](ctx, a.Entities, thread, &tracepb.ThreadCommand{Id: thread, Body: &tracepb.ThreadCommand_Join{Join: &tracepb.Join{
		TenantId: put.GetTenantId(), ProjectId: put.GetProjectId(), ThreadId: name, Fresh: fresh, KeepMs: put.GetKeepMs(),
	}}})
	return err
}
