package tracing

import (
	"context"
	"errors"
	"slices"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/tracing"
	"parley/actors/machine"
	"parley/httpedge/clientapi/render"
	"parley/proto/failurepb"
	"parley/proto/tracepb"
)

type threadsInput struct {
	Limit int `query:"limit"`
	Skip  int `query:"skip" default:"0" max:"10000"`
}

// threadRow is a thread.
type threadRow struct {
	ThreadID          string   `json:"threadId" doc:"As sessions name it; of a session that names none its own id; of a session of this server the id of that, and its runs are the sessions"`
	SessionsCount     int64    `json:"sessionsCount"`
	Agents            []string `json:"agents"`
	Statuses          []string `json:"statuses"`
	LatestStatus      string   `json:"latestStatus" doc:"Of the session that started last"`
	StartedAt         string   `json:"startedAt" format:"date-time"`
	EndedAt           *string  `json:"endedAt" format:"date-time" doc:"null while a session runs"`
	TotalEvents       int64    `json:"totalEvents"`
	TotalInputTokens  int64    `json:"totalInputTokens" doc:"Totals are of at most the 1000 newest sessions"`
	TotalOutputTokens int64    `json:"totalOutputTokens"`
	TotalDurationMs   int64    `json:"totalDurationMs"`
	ModelsUsed        []string `json:"modelsUsed"`
}

type threadsOut struct {
	Threads []threadRow `json:"threads"`
	Total   int64       `json:"total" doc:"Conversations in which nothing ran yet included, which are not shown"`
}

func (a *api) listThreads(ctx context.Context, in *threadsInput) (*threadsOut, error) {
	caller, err := a.ready(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := entity.Read[*tracepb.ThreadsReply](ctx, a.Entities, &tracepb.ThreadsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Limit: uint32(in.Limit), Skip: uint32(in.Skip),
		Anybody: caller.Trusted, UserId: caller.UserID,
	})
	if err != nil {
		return nil, err
	}
	out := &threadsOut{Threads: []threadRow{}, Total: reply.GetTotal()}
	for _, group := range reply.GetThreads() {
		if group.GetConversation() {
			if group, err = a.ofConversation(ctx, group.GetThreadId()); err != nil {
				return nil, err
			}
			if group == nil {
				continue // deleted since the list was read, or nothing ran in it yet
			}
		}
		out.Threads = append(out.Threads, rowOf(group, tracing.RollUp(group.GetSessions())))
	}
	return out, nil
}

func rowOf(group *tracepb.Group, t *tracing.Thread) threadRow {
	return threadRow{
		ThreadID: group.GetThreadId(), SessionsCount: group.GetCount(), Agents: filled(t.Agents), Statuses: filled(t.Statuses), LatestStatus: t.Latest,
		StartedAt: render.Time(t.StartedAt), EndedAt: render.NullableTime(t.EndedAt), TotalEvents: t.Events,
		TotalInputTokens: t.Numbers.GetInputTokens(), TotalOutputTokens: t.Numbers.GetOutputTokens(), TotalDurationMs: t.DurationMs, ModelsUsed: filled(t.Models),
	}
}

// filled is a list that is shown as one also when it is empty.
func filled(list []string) []string { return append([]string{}, list...) }

type threadInput struct {
	ThreadID string `path:"threadId"`
}

type agentRow struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model"`
}

type numbersRow struct {
	TotalInputTokens       int64            `json:"totalInputTokens"`
	TotalOutputTokens      int64            `json:"totalOutputTokens"`
	TotalCachedInputTokens int64            `json:"totalCachedInputTokens"`
	TotalBytesIn           int64            `json:"totalBytesIn"`
	TotalBytesOut          int64            `json:"totalBytesOut"`
	TotalDurationMs        int64            `json:"totalDurationMs" doc:"The more of what a summary said and durationMs"`
	EventCounts            map[string]int64 `json:"eventCounts"`
}

// traceRow is a session of a thread.
type traceRow struct {
	SessionID   string            `json:"sessionId"`
	ThreadID    string            `json:"threadId"`
	TraceID     *string           `json:"traceId"`
	Agent       agentRow          `json:"agent"`
	Status      string            `json:"status"`
	StartedAt   string            `json:"startedAt" format:"date-time"`
	EndedAt     *string           `json:"endedAt" format:"date-time"`
	DurationMs  int64             `json:"durationMs"`
	TotalEvents int64             `json:"totalEvents"`
	Summary     numbersRow        `json:"summary"`
	ModelsUsed  []string          `json:"modelsUsed"`
	ToolsUsed   []string          `json:"toolsUsed"`
	Metadata    map[string]string `json:"metadata"`
	Own         bool              `json:"own" doc:"A run of the session of this server that the thread is; its events are read there"`
}

type threadOut struct {
	threadRow

	Status                 string     `json:"status" doc:"That of the session that started last"`
	TotalCachedInputTokens int64      `json:"totalCachedInputTokens"`
	ToolsUsed              []string   `json:"toolsUsed"`
	Sessions               []traceRow `json:"sessions" doc:"The newest first, at most 1000"`
}

func (a *api) getThread(ctx context.Context, in *threadInput) (*threadOut, error) {
	caller, err := a.ready(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := entity.Read[*tracepb.ThreadFound](ctx, a.Entities, &tracepb.ThreadQuery{
		Thread: a.ReportedID(tracing.ThreadPrefix, caller, in.ThreadID), ThreadId: in.ThreadID,
	})
	if refused, is := errors.AsType[*machine.Failure](err); err != nil && (!is || refused.Code != failurepb.Code_NOT_FOUND) {
		return nil, err
	}
	group := reply.GetThread()
	alone, err := a.session(ctx, a.ReportedID(tracing.Prefix, caller, in.ThreadID))
	if err != nil {
		return nil, err
	}
	if alone != nil && alone.GetThread() == "" {
		group = joined(group, &tracepb.Group{ThreadId: in.ThreadID, Count: 1, Sessions: []*tracepb.Session{alone}})
	}
	own, err := a.ofConversation(ctx, in.ThreadID)
	if err != nil {
		return nil, err
	}
	if group = joined(own, group); group == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ThreadMissing)
	}
	t := tracing.RollUp(group.GetSessions())
	out := &threadOut{
		threadRow: rowOf(group, t), Status: t.Latest, TotalCachedInputTokens: t.Numbers.GetCachedInputTokens(), ToolsUsed: filled(t.Tools), Sessions: []traceRow{},
	}
	for _, s := range group.GetSessions() {
		out.Sessions = append(out.Sessions, traceOf(s, in.ThreadID))
	}
	return out, nil
}

// joined is two groups of one thread as one; either may be nil.
func joined(a, b *tracepb.Group) *tracepb.Group {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &tracepb.Group{ThreadId: a.GetThreadId(), Count: a.GetCount() + b.GetCount(), Sessions: slices.Concat(a.GetSessions(), b.GetSessions())}
}

func traceOf(s *tracepb.Session, thread string) traceRow {
	r, n, took := s.GetRecord(), tracing.Totals(s), tracing.Duration(s)
	row := traceRow{
		SessionID: s.GetSessionId(), ThreadID: thread, TraceID: render.Nullable(r.GetTraceId()),
		Agent: agentRow{Name: r.GetAgentName(), Version: r.GetAgentVersion(), Model: r.GetAgentModel()}, Status: r.GetStatus(),
		StartedAt: render.Time(r.GetStartedAt()), EndedAt: render.NullableTime(r.GetEndedAt()), DurationMs: took, TotalEvents: tracing.Events(s),
		Summary: numbersRow{
			TotalInputTokens: n.GetInputTokens(), TotalOutputTokens: n.GetOutputTokens(), TotalCachedInputTokens: n.GetCachedInputTokens(),
			TotalBytesIn: n.GetBytesIn(), TotalBytesOut: n.GetBytesOut(),
			TotalDurationMs: max(s.GetSaid().GetDurationMs(), took), EventCounts: n.GetEventCounts(),
		},
		ModelsUsed: filled(s.GetModels()), ToolsUsed: filled(s.GetTools()), Metadata: r.GetMetadata(),
		Own: s.GetId() == "", // what was reported is an entity
	}
	if row.Metadata == nil {
		row.Metadata = map[string]string{}
	}
	return row
}
