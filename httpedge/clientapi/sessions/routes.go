// Package sessions is the routes of sessions: conversations as this surface shows them, with their messages, events, actions and files.
package sessions

import (
	"time"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers of sessions.
type api struct{ *handler.API }

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		invalid   = failurepb.Code_INVALID_REQUEST
		missing   = failurepb.Code_SESSION_NOT_FOUND
		noAgent   = failurepb.Code_AGENT_NOT_FOUND
		inactive  = failurepb.Code_AGENT_NOT_ACTIVE
		badBudget = failurepb.Code_INVALID_BUDGET
		noBudget  = failurepb.Code_BUDGET_UNAVAILABLE
		bound     = failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN
		mayNot    = failurepb.Code_BUDGET_FORBIDDEN
		conflict  = failurepb.Code_AGENT_RUN_CONFLICT
		sealing   = failurepb.Code_SECRETS_UNAVAILABLE
		toResume  = 10 * time.Second
	)
	tag := endpoint.Tag("Sessions")
	writes := endpoint.Errors(failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED)
	unsaid := endpoint.Errors(failurepb.Code_GUARDRAIL_BLOCKED, failurepb.Code_GUARDRAIL_MISSING)
	routes := []endpoint.Route{
		endpoint.On("POST /agents/sessions", "agents:write", a.createSession, endpoint.Unaudited("the log of its session is its record, written with what it changes"),
			tag, endpoint.Summary("Create a session with an agent; nothing runs"), endpoint.Status(201), endpoint.Idempotent(),
			endpoint.Errors(invalid, noAgent, inactive, failurepb.Code_INVALID_METADATA, badBudget, noBudget, bound, mayNot, sealing, failurepb.Code_GUARDRAIL_MISSING), writes),
		endpoint.On("GET /agents/sessions", "agents:read", a.listSessions,
			tag, endpoint.Summary("List the sessions that the caller may see, newest created first"),
			endpoint.Errors(invalid, failurepb.Code_INVALID_LIMIT, failurepb.Code_INVALID_STATUS, failurepb.Code_INVALID_CURSOR)),
		sessions().Read("GET /agents/sessions/{id}", "agents:read", "getSession", a.Session,
			tag, endpoint.StaleReads(), endpoint.Summary("Read a session"), endpoint.Errors(invalid, missing)),
		endpoint.On("PATCH /agents/sessions/{id}", "agents:write", a.updateSession,
			tag, endpoint.Summary("Change a session's budget; one that its budget paused goes on in the background"),
			endpoint.Timeout(toResume+toResume), endpoint.AlsoAs[render.Run](202, "The session goes on, as this run"),
			endpoint.Errors(invalid, badBudget, noBudget, bound, mayNot, missing, noAgent, inactive, conflict, sealing,
				failurepb.Code_AGENT_BACKGROUND_DISABLED, failurepb.Code_QUOTA_REACHED), writes),
		endpoint.On("DELETE /agents/sessions/{id}", "agents:write", a.deleteSession,
			tag, endpoint.Summary("Delete a session with its files, its event log and what waits in it for a person"),
			endpoint.Errors(invalid, missing, conflict), writes),
		endpoint.On("GET /agents/sessions/{id}/messages", "agents:read", a.listSessionMessages,
			tag, endpoint.StaleReads(), endpoint.Summary("List the messages of a session: the newest, or those around one"),
			endpoint.Errors(invalid, missing)),
		endpoint.On("GET /agents/sessions/{id}/events", "agents:read", a.listSessionEvents,
			tag, endpoint.StaleReads(), endpoint.Summary("Read the event log of a session"),
			endpoint.Page("limit", a.Config.EventPage, a.Config.MaxEventPage), endpoint.Errors(invalid, missing)),
		endpoint.OnStream("GET /agents/sessions/{id}/events/stream", "agents:read", a.streamSessionEvents,
			tag, endpoint.Summary("Follow the event log of a session: what is stored after a cursor, then what happens"),
			endpoint.Errors(invalid, missing, failurepb.Code_RATE_LIMITED)),
		endpoint.On("POST /agents/sessions/{id}/actions/{actionId}", "agents:write", a.resolveSessionAction, endpoint.Once(),
			tag, endpoint.Summary("Resolve a pending action; the turn goes on once none is pending any more"),
			endpoint.Timeout(a.Config.TurnTimeout), endpoint.AlsoAs[resumedSchema](202, "The turn goes on: in the background, as a run, or because it takes longer than callers may wait"),
			endpoint.Errors(invalid, failurepb.Code_INVALID_APPROVED_ARGS, failurepb.Code_INVALID_CLIENT_TOOL_RESULT, missing,
				conflict, failurepb.Code_ACTION_FORBIDDEN, failurepb.Code_ACTION_NOT_PENDING, failurepb.Code_ACTION_EXPIRED, sealing), writes, unsaid),
		endpoint.On("POST /agents/sessions/{id}/cancel", "agents:write", a.cancelSession,
			tag, endpoint.Summary("Cancel the session's turn, and the background run that holds it"),
			endpoint.Also(202, "The turn is still winding down, or its node cannot confirm in time"),
			endpoint.Errors(invalid, missing), writes),
	}
	return append(routes, a.fileRoutes()...)
}

func (a *api) fileRoutes() []endpoint.Route {
	const (
		invalid  = failurepb.Code_INVALID_REQUEST
		missing  = failurepb.Code_SESSION_NOT_FOUND
		notFound = failurepb.Code_NOT_FOUND
	)
	tag, slow := endpoint.Tag("Session files"), endpoint.Timeout(a.Config.TransferTimeout)
	writes := endpoint.Errors(failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED)
	return []endpoint.Route{
		endpoint.On("GET /agents/sessions/{id}/files", "agents:read", a.listSessionFiles,
			tag, endpoint.StaleReads(), endpoint.Summary("List the files of a session"), endpoint.Errors(invalid, missing)),
		endpoint.OnUpload("POST /agents/sessions/{id}/files", "agents:write", a.uploadSessionFile,
			tag, slow, endpoint.Summary("Store a file in a session: its bytes as the body, a form with it, or JSON with base64"),
			endpoint.Status(201), endpoint.MaxBody(a.Config.MaxFileBody),
			endpoint.Errors(invalid, failurepb.Code_INVALID_METADATA, missing, failurepb.Code_AGENT_NOT_FOUND,
				failurepb.Code_AGENT_NOT_ACTIVE, failurepb.Code_ATTACHMENTS_DISABLED, failurepb.Code_TOO_MANY_FILES,
				failurepb.Code_UNSUPPORTED_FILE_TYPE, failurepb.Code_TOO_LARGE, failurepb.Code_RATE_LIMITED, failurepb.Code_QUOTA_REACHED), writes),
		endpoint.OnBytes("GET /agents/sessions/{id}/files/{fileId}/content", "agents:read", a.downloadSessionFile,
			tag, slow, endpoint.Summary("Read a file's bytes, or a range of them"), endpoint.Media("*/*"), endpoint.Ranged(),
			endpoint.Errors(invalid, missing, notFound)),
		endpoint.On("DELETE /agents/sessions/{id}/files/{fileId}", "agents:write", a.deleteSessionFile,
			tag, endpoint.Summary("Remove a file from a session"), endpoint.Errors(invalid, missing, notFound), writes),
	}
}
