package tracing

import (
	"context"
	"encoding/json"

	"parley/actors/core/entity"
	"parley/actors/core/tracing"
	"parley/httpedge/clientapi/render"
	"parley/proto/tracepb"
)

const (
	eventsPage    = 100
	maxEventsPage = 1000
)

type traceSessionInput struct {
	SessionID string `path:"sessionId"`
	After     int    `query:"after" default:"0" max:"10000" doc:"Number of an event: those behind it"`
	Limit     int    `query:"limit"`
}

// eventPlace is where an event is in a trace.
type eventPlace struct {
	TraceID      *string `json:"traceId"`
	SpanID       *string `json:"spanId"`
	ParentSpanID *string `json:"parentSpanId"`
}

// eventNumbers are what an event took.
type eventNumbers struct {
	InputTokens       int64 `json:"inputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	TotalTokens       int64 `json:"totalTokens" doc:"As it was reported, else the sum of input and output"`
	DurationMs        int64 `json:"durationMs"`
	BytesIn           int64 `json:"bytesIn"`
	BytesOut          int64 `json:"bytesOut"`
}

type traceActor struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Scope string `json:"scope"`
}

// traceEvent is an event of a session.
type traceEvent struct {
	eventPlace
	eventNumbers

	Number          int64             `json:"number" doc:"Of the events of the session, from 1, in the order in which they came"`
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	Label           string            `json:"label"`
	Sequence        int64             `json:"sequence"`
	Timestamp       *string           `json:"timestamp" format:"date-time" doc:"null = not said"`
	Status          string            `json:"status"`
	Error           string            `json:"error"`
	ModelNames      []string          `json:"modelNames"`
	ToolName        string            `json:"toolName"`
	ToolExecutionID string            `json:"toolExecutionId"`
	Actor           traceActor        `json:"actor"`
	Sections        json.RawMessage   `json:"sections,omitempty" any:"true" doc:"As they were reported"`
	ToolDetails     json.RawMessage   `json:"toolDetails,omitempty" any:"true" doc:"As they were reported"`
	Metadata        map[string]string `json:"metadata"`
}

type traceSessionOut struct {
	traceRow

	RootSpanID *string         `json:"rootSpanId"`
	Config     json.RawMessage `json:"config,omitempty" any:"true" doc:"As it was reported"`
	Errors     json.RawMessage `json:"errors,omitempty" any:"true" doc:"As they were reported"`
	Events     []traceEvent    `json:"events" doc:"Of at most 1 MiB, or one"`
	HasMore    bool            `json:"hasMore"`
}

func (a *api) readTraceSession(ctx context.Context, in *traceSessionInput) (*traceSessionOut, error) {
	caller, err := a.ready(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := entity.Read[*tracepb.EventsReply](ctx, a.Entities, &tracepb.EventsQuery{
		Id: a.ReportedID(tracing.Prefix, caller, in.SessionID), After: int64(in.After), Limit: uint32(in.Limit),
	})
	if err != nil {
		return nil, err
	}
	s := reply.GetSession()
	thread := s.GetRecord().GetThreadId()
	if s.GetThread() == "" { // it is a thread of its own
		thread = s.GetSessionId()
	}
	out := &traceSessionOut{
		traceRow: traceOf(s, thread), RootSpanID: render.Nullable(s.GetRecord().GetRootSpanId()), Config: json.RawMessage(s.GetRecord().GetConfig()),
		Errors: json.RawMessage(s.GetRecord().GetErrors()), Events: []traceEvent{}, HasMore: reply.GetMore(),
	}
	for i, e := range reply.GetEvents() {
		out.Events = append(out.Events, eventOf(int64(in.After+i)+1, e))
	}
	return out, nil
}

func eventOf(number int64, e *tracepb.Happening) traceEvent {
	n := e.GetNumbers()
	row := traceEvent{
		eventPlace: eventPlace{TraceID: render.Nullable(e.GetTraceId()), SpanID: render.Nullable(e.GetSpanId()), ParentSpanID: render.Nullable(e.GetParentSpanId())},
		eventNumbers: eventNumbers{
			InputTokens: n.GetInputTokens(), OutputTokens: n.GetOutputTokens(), CachedInputTokens: n.GetCachedInputTokens(), TotalTokens: n.GetTotalTokens(),
			DurationMs: n.GetDurationMs(), BytesIn: n.GetBytesIn(), BytesOut: n.GetBytesOut(),
		},
		Number: number, ID: e.GetId(), Type: e.GetType(), Label: e.GetLabel(), Sequence: e.GetSequence(), Timestamp: render.NullableTime(e.GetTimestamp()),
		Status: e.GetStatus(), Error: e.GetError(), ModelNames: filled(e.GetModels()), ToolName: e.GetToolName(), ToolExecutionID: e.GetToolExecutionId(),
		Actor:    traceActor{Name: e.GetActorName(), Role: e.GetActorRole(), Scope: e.GetActorScope()},
		Sections: json.RawMessage(e.GetSections()), ToolDetails: json.RawMessage(e.GetToolDetails()), Metadata: e.GetMetadata(),
	}
	if row.Metadata == nil {
		row.Metadata = map[string]string{}
	}
	return row
}
