// Package tracing has the routes by which programs report their agents' sessions, and by which these are read (document 3, section 12).
// What is taken of a report and what it adds up to says package actors/core/tracing, how it is kept package actors/trace.
package tracing

import (
	"context"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
	"parley/proto/tracepb"
)

const (
	page    = 50
	maxPage = 100
	// noAudit is why reports are not in the audit trail.
	noAudit = "what programs report of themselves changes nothing but their trace, which says when and by itself what"
)

// api is the handlers.
type api struct{ *handler.API }

// Routes returns the routes of traces, relative to the Client API.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		read, write = "tracing:read", "tracing:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		noSession   = failurepb.Code_SESSION_NOT_FOUND
		notFound    = failurepb.Code_NOT_FOUND
		large       = failurepb.Code_TOO_LARGE
		rate        = failurepb.Code_RATE_LIMITED
		full        = failurepb.Code_QUOTA_REACHED
		unavailable = failurepb.Code_UNAVAILABLE
	)
	tag, room := endpoint.Tag("Tracing"), endpoint.MaxBody(shared.Config.TraceBody)
	report := func(pattern string, more ...endpoint.Option) (string, string, []endpoint.Option) {
		return pattern, write, append(more, tag, room, endpoint.Unaudited(noAudit), endpoint.Errors(invalid, large, rate, unavailable))
	}
	session, needs, whole := report("POST /tracing/sessions", endpoint.Errors(full), endpoint.Summary("Report a session with its events; what is known of it stays"))
	start, _, starts := report("POST /tracing/sessions/stream/{sessionId}/start", endpoint.Errors(full), endpoint.Summary("A session starts, or goes on, with the totals that it has"))
	events, _, happens := report("POST /tracing/sessions/stream/{sessionId}/events", endpoint.Errors(noSession, full),
		endpoint.Summary("Something happened in a session; the same event again changes nothing"))
	end, _, ends := report("POST /tracing/sessions/stream/{sessionId}/end", endpoint.Errors(noSession), endpoint.Summary("A session is over; its summary raises totals, and never lowers them"))
	spans, _, exported := report("POST /traces", endpoint.Errors(full), endpoint.Media(protobufType), endpoint.Summary("Report spans of OpenTelemetry: those of a conversation, or of a trace, are a session"))
	return []endpoint.Route{
		endpoint.OnUpload(spans, needs, a.reportSpans, exported...),
		endpoint.On(session, needs, a.reportSession, whole...),
		endpoint.On(start, needs, a.startTraceSession, starts...),
		endpoint.On(events, needs, a.reportEvent, happens...),
		endpoint.On(end, needs, a.endTraceSession, ends...),
		endpoint.On("GET /tracing/threads", read, a.listThreads, tag, endpoint.Page("limit", page, maxPage),
			endpoint.Errors(unavailable), endpoint.Summary("Threads of the project, that with the newest session first")),
		endpoint.On("GET /tracing/threads/{threadId}", read, a.getThread, tag, endpoint.Errors(notFound, unavailable),
			endpoint.Summary("A thread with its sessions")),
		endpoint.On("GET /tracing/sessions/{sessionId}", read, a.readTraceSession, tag, endpoint.Page("limit", eventsPage, maxEventsPage),
			endpoint.Errors(noSession, unavailable), endpoint.Summary("A session that was reported, and a page of its events")),
	}
}

// ready is the caller, once this cluster keeps traces.
func (a *api) ready(ctx context.Context) (endpoint.Caller, error) {
	caller := endpoint.CallerFrom(ctx)
	switch {
	case caller.ProjectID == "":
		return caller, failure.New(failurepb.Code_INVALID_REQUEST, failure.APITokenOfNoProject)
	case a.CanTrace != nil && !a.CanTrace():
		return caller, failure.New(failurepb.Code_UNAVAILABLE, failure.TracesNotReady)
	}
	return caller, nil
}

// enter is ready for who reports something: quota policies of the domain tracing count it, until it is done.
func (a *api) enter(ctx context.Context) (caller endpoint.Caller, done func(), err error) {
	done = func() {}
	caller, err = a.ready(ctx)
	if err != nil || a.Door == nil || !a.Door.Guards(caller.TenantID) {
		return caller, done, err
	}
	pass, err := a.Door.Enter(ctx, callOf(caller))
	if err == nil && pass != nil {
		done = func() { pass.Settle(0, 0) }
	}
	return caller, done, handler.QuotaFailure(err)
}

// callOf is a report as quota policies see it.
func callOf(caller endpoint.Caller) *quota.Call {
	return &quota.Call{TenantID: caller.TenantID, ProjectID: caller.ProjectID, UserID: caller.UserID, TokenID: caller.TokenID(), Domain: quota.Tracing}
}

// bound puts into what is reported what the quota policies of its tenant say: how many events its session may have, and for how long, which
// the session itself decides, and for how long it is kept.
func (a *api) bound(caller endpoint.Caller, put *tracepb.Put) {
	if a.Policies == nil {
		return
	}
	policies := a.Policies(caller.TenantID)
	if force := quota.InForce(policies, callOf(caller)); force != nil {
		if most, said := force.PerRequest[quota.MaxEvents]; said && most >= 0 {
			put.MaxEvents = &most
		}
		if most, said := force.PerRequest[quota.MaxDuration]; said && most >= 0 {
			put.MaxDurationMs = &most
		}
	}
	days, policy := quota.MostOf(policies, quota.MaxRetention, quota.Thing{ProjectID: caller.ProjectID, Domain: quota.Tracing, UserID: caller.UserID})
	const day = int64(24 * time.Hour / time.Millisecond)
	if policy != nil && days < put.GetKeepMs()/day {
		put.KeepMs = max(days*day, 1) // of none it is gone with the next sweep
	}
}
