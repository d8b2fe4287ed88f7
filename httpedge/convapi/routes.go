package convapi

import (
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Surface returns the conversation server's routes with its error rendering.
func (a *API) Surface() endpoint.Surface {
	surface := endpoint.Surface{
		Name: "conversation", Routes: a.routes(), Refusals: body.Problems(), Wording: body.Wording(), AppendProblem: body.AppendProblem,
	}
	if a.config.Docs {
		a.docs = newDocuments(a.config, surface.Routes)
	}
	return surface
}

// BasePath is the path under which the surface is mounted.
func (a *API) BasePath() string { return a.config.basePath() }

// routes declares the routes of this surface, in the order of document 2.
func (a *API) routes() []endpoint.Route {
	const (
		notFound     = failurepb.Code_NOT_FOUND
		forbidden    = failurepb.Code_FORBIDDEN
		invalid      = failurepb.Code_VALIDATION
		disabled     = failurepb.Code_ACTION_DISABLED
		busy         = failurepb.Code_CONVERSATION_BUSY
		pending      = failurepb.Code_ACTION_PENDING
		identity     = failurepb.Code_IDENTITY_REQUIRED
		badBudget    = failurepb.Code_INVALID_BUDGET
		noBudget     = failurepb.Code_BUDGET_UNAVAILABLE
		spent        = failurepb.Code_BUDGET_REACHED
		noFiles      = failurepb.Code_ATTACHMENTS_DISABLED
		tooMany      = failurepb.Code_TOO_MANY_FILES
		badType      = failurepb.Code_UNSUPPORTED_FILE_TYPE
		tooLarge     = failurepb.Code_TOO_LARGE
		badTarget    = failurepb.Code_INVALID_MESSAGE_TARGET
		mayNotRaise  = failurepb.Code_BUDGET_FORBIDDEN
		storageFull  = failurepb.Code_STORAGE_FULL
		storageFails = failurepb.Code_STORAGE_FAILED
	)
	c := a.config
	unsaid := endpoint.Errors(failurepb.Code_GUARDRAIL_BLOCKED, failurepb.Code_GUARDRAIL_MISSING)
	writes, stale := endpoint.Errors(storageFull, storageFails), endpoint.StaleReads()
	agents, conversations := endpoint.Tag("Agents"), endpoint.Tag("Conversations")
	messages, events, docs := endpoint.Tag("Messages"), endpoint.Tag("Events"), endpoint.Tag("Docs")
	actions := endpoint.Tag("Actions")
	routes := []endpoint.Route{
		endpoint.On("GET /agents", "agent:read", a.listAgents,
			agents, endpoint.Summary("List the agents")),
		endpoint.On("GET /agents/{agentId}", "agent:read", a.getAgent,
			agents, endpoint.Summary("Read an agent"), endpoint.Errors(invalid, notFound)),

		endpoint.On("GET /conversations", "conversation:read", a.listConversations,
			conversations, stale, endpoint.Summary("List one user's conversations, pinned first"),
			endpoint.Page("limit", c.ListPage, c.MaxListPage), endpoint.Errors(invalid, identity)),
		endpoint.On("POST /conversations", "conversation:write", a.createConversation, endpoint.Idempotent(),
			conversations, endpoint.Summary("Create a conversation with an agent"), endpoint.Status(201),
			endpoint.Errors(invalid, badBudget, noBudget, mayNotRaise, notFound, failurepb.Code_GUARDRAIL_MISSING), writes),
		endpoint.On("GET /conversations/{id}", "conversation:read", a.getConversation,
			conversations, stale, endpoint.Summary("Read a conversation with its newest messages"),
			endpoint.Page("limit", c.MessagePage, c.MaxMessagePage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("PATCH /conversations/{id}", "conversation:write", a.updateConversation,
			conversations, endpoint.Summary("Change title, pin, metadata or budget"),
			endpoint.Errors(invalid, badBudget, noBudget, forbidden, disabled, mayNotRaise, notFound), writes),
		endpoint.On("DELETE /conversations/{id}", "conversation:write", a.deleteConversation,
			conversations, endpoint.Summary("Delete a conversation; a running turn is cancelled first"), endpoint.Status(204),
			endpoint.Errors(invalid, forbidden, notFound), writes),
		endpoint.On("POST /conversations/bulk-delete", "conversation:write", a.bulkDeleteConversations,
			conversations, endpoint.Summary("Delete several conversations"), endpoint.Errors(invalid), writes),

		endpoint.On("GET /conversations/{id}/messages", "conversation:read", a.listMessages,
			messages, stale, endpoint.Summary("List messages"),
			endpoint.Page("limit", c.MessagePage, c.MaxMessagePage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnStream("POST /conversations/{id}/messages", "conversation:write", a.sendMessage, endpoint.Once(),
			messages, endpoint.Summary("Send a message; the answer is JSON, or an event stream when stream is true"),
			endpoint.AlsoAs[body.QueuedMessage](202, "The message waits for its turn (onBusy queue)"),
			endpoint.Timeout(c.TurnTimeout), endpoint.MaxBody(c.MaxFileBody),
			endpoint.Errors(invalid, spent, noBudget, forbidden, noFiles, notFound, pending, busy, tooMany, tooLarge, badType), writes, unsaid),
		endpoint.OnStream("POST /conversations/{id}/messages/{messageId}/regenerate", "conversation:write", a.regenerateAnswer, endpoint.Once(),
			messages, endpoint.Summary("Answer again; the new answer replaces the newest one"),
			endpoint.Timeout(c.TurnTimeout),
			endpoint.Errors(invalid, spent, noBudget, forbidden, disabled, notFound, pending, busy, badTarget), writes, unsaid),
		endpoint.OnStream("POST /conversations/{id}/messages/{messageId}/edit", "conversation:write", a.editMessage, endpoint.Once(),
			messages, endpoint.Summary("Replace a user message, drop everything after it, and answer it"),
			endpoint.Timeout(c.TurnTimeout), endpoint.MaxBody(c.MaxFileBody),
			endpoint.Errors(invalid, spent, noBudget, forbidden, disabled, noFiles, notFound, pending, busy, badTarget,
				tooMany, tooLarge, badType), writes, unsaid),
		endpoint.On("POST /conversations/{id}/messages/{messageId}/feedback", "conversation:write", a.rateMessage,
			messages, endpoint.Summary("Rate an answer; a new rating replaces the one before, null takes it back"),
			endpoint.Errors(invalid, failurepb.Code_INVALID_FEEDBACK, forbidden, failurepb.Code_FEEDBACK_DISABLED,
				notFound, badTarget), writes),

		endpoint.OnStream("POST /conversations/{id}/actions/{actionId}", "conversation:write", a.resolveAction, endpoint.Once(),
			actions, endpoint.Summary("Resolve a pending action; the turn goes on once none is pending any more"),
			endpoint.Timeout(c.TurnTimeout), endpoint.Also(202, "The turn goes on and takes longer than the server lets callers wait"),
			endpoint.Errors(invalid, failurepb.Code_INVALID_APPROVED_ARGS, failurepb.Code_INVALID_CLIENT_TOOL_RESULT,
				forbidden, failurepb.Code_ACTION_FORBIDDEN, notFound, failurepb.Code_ACTION_NOT_PENDING,
				failurepb.Code_ACTION_EXPIRED), writes, unsaid),
		endpoint.On("GET /conversations/{id}/remembered-tools", "conversation:read", a.listRememberedTools,
			actions, stale, endpoint.Summary("List the tools that need no approval any more in this conversation"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("DELETE /conversations/{id}/remembered-tools/{tool:*}", "conversation:write", a.forgetTool,
			actions, endpoint.Summary("Have a tool ask for approval again"), endpoint.Errors(invalid, forbidden, notFound), writes),

		endpoint.On("POST /conversations/{id}/cancel", "conversation:write", a.cancelTurn,
			conversations, endpoint.Summary("Cancel the running turn"), endpoint.Also(202, "The turn is still winding down, or its node cannot confirm in time"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnStream("POST /conversations/{id}/continue", "conversation:write", a.continueTurn, endpoint.Once(),
			conversations, endpoint.Summary("Go on with a turn that the budget cut short"),
			endpoint.Timeout(c.TurnTimeout), endpoint.Also(202, "The turn goes on and takes longer than the server lets callers wait"),
			endpoint.Errors(invalid, spent, noBudget, forbidden, notFound, pending, busy, failurepb.Code_NOTHING_TO_CONTINUE), writes),
		endpoint.On("GET /conversations/{id}/events", "conversation:read", a.listEvents,
			events, stale, endpoint.Summary("Read the event log"),
			endpoint.Page("limit", c.EventPage, c.MaxEventPage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnStream("GET /conversations/{id}/events/stream", "conversation:read", a.streamEvents,
			events, endpoint.Summary("Follow the event log: what is stored after a cursor, then what happens"),
			endpoint.Errors(invalid, forbidden, notFound)),
	}
	routes = append(routes, a.exportRoutes()...)
	routes = append(routes, a.fileRoutes()...)
	routes = append(routes, a.taskRoutes()...)
	if c.Docs {
		routes = append(
			routes,
			endpoint.OnBytes("GET /docs", "docs:read", a.getDocs,
				docs, endpoint.Summary("This API as a page"), endpoint.Hidden()),
			endpoint.OnBytes("GET /docs/openapi.json", "docs:read", a.getOpenAPI,
				docs, endpoint.Summary("This API as an OpenAPI document")),
			endpoint.OnBytes("GET /docs/{file}", "docs:read", a.getDocsFile,
				docs, endpoint.Summary("Scripts and styles of the page"), endpoint.Hidden(), endpoint.Errors(notFound)),
		)
	}
	if c.AuthEnabled { // limits per caller need authenticated callers
		for i := range routes {
			endpoint.Errors(failurepb.Code_RATE_LIMITED)(&routes[i])
		}
	}
	return routes
}
