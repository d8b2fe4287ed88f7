package convapi

import (
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Surface returns the conversation server's routes with its way of wording errors.
func (a *API) Surface() endpoint.Surface {
	surface := endpoint.Surface{
		Name: "conversation", Rows: a.rows(), Refusals: refusals(), AppendProblem: appendProblem,
	}
	if a.config.Docs {
		a.docs = newDocuments(a.config, surface.Rows)
	}
	return surface
}

// BasePath is where the surface belongs.
func (a *API) BasePath() string { return a.config.basePath() }

// rows is the map of this surface, in the order of document 2.
func (a *API) rows() []endpoint.Row {
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
		storageFull  = failurepb.Code_STORAGE_FULL
		storageFails = failurepb.Code_STORAGE_FAILED
	)
	c := a.config
	writes, stale := endpoint.Errors(storageFull, storageFails), endpoint.StaleReads()
	agents, conversations := endpoint.Tag("Agents"), endpoint.Tag("Conversations")
	messages, events, docs := endpoint.Tag("Messages"), endpoint.Tag("Events"), endpoint.Tag("Docs")
	rows := []endpoint.Row{
		endpoint.On("GET /agents", "agent:read", a.listAgents,
			agents, endpoint.Summary("List the agents")),
		endpoint.On("GET /agents/{agentId}", "agent:read", a.getAgent,
			agents, endpoint.Summary("Read an agent"), endpoint.Errors(invalid, notFound)),

		endpoint.On("GET /conversations", "conversation:read", a.listConversations,
			conversations, stale, endpoint.Summary("List one user's conversations, pinned first"),
			endpoint.Page("limit", c.ListPage, c.MaxListPage), endpoint.Errors(invalid, identity)),
		endpoint.On("POST /conversations", "conversation:write", a.createConversation,
			conversations, endpoint.Summary("Create a conversation with an agent"), endpoint.Status(201),
			endpoint.Errors(invalid, badBudget, noBudget, notFound), writes),
		endpoint.On("GET /conversations/{id}", "conversation:read", a.getConversation,
			conversations, stale, endpoint.Summary("Read a conversation with its newest messages"),
			endpoint.Page("limit", c.MessagePage, c.MaxMessagePage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("PATCH /conversations/{id}", "conversation:write", a.updateConversation,
			conversations, endpoint.Summary("Change title, pin, metadata or budget"),
			endpoint.Errors(invalid, badBudget, noBudget, forbidden, disabled, notFound), writes),
		endpoint.On("DELETE /conversations/{id}", "conversation:write", a.deleteConversation,
			conversations, endpoint.Summary("Delete a conversation; a running turn is cancelled first"), endpoint.Status(204),
			endpoint.Errors(invalid, forbidden, notFound), writes),
		endpoint.On("POST /conversations/bulk-delete", "conversation:write", a.bulkDeleteConversations,
			conversations, endpoint.Summary("Delete several conversations"), endpoint.Errors(invalid), writes),

		endpoint.On("GET /conversations/{id}/messages", "conversation:read", a.listMessages,
			messages, stale, endpoint.Summary("List messages"),
			endpoint.Page("limit", c.MessagePage, c.MaxMessagePage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnStream("POST /conversations/{id}/messages", "conversation:write", a.sendMessage,
			messages, endpoint.Summary("Send a message; the answer is JSON, or an event stream when stream is true"),
			endpoint.Timeout(c.TurnTimeout),
			endpoint.Errors(invalid, spent, noBudget, forbidden, noFiles, notFound, pending, busy), writes),

		endpoint.On("POST /conversations/{id}/cancel", "conversation:write", a.cancelTurn,
			conversations, endpoint.Summary("Cancel the running turn"), endpoint.Also(202, "The turn is still winding down, or its node cannot confirm in time"),
			endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.On("GET /conversations/{id}/events", "conversation:read", a.listEvents,
			events, stale, endpoint.Summary("Read the event log"),
			endpoint.Page("limit", c.EventPage, c.MaxEventPage), endpoint.Errors(invalid, forbidden, notFound)),
		endpoint.OnStream("GET /conversations/{id}/events/stream", "conversation:read", a.streamEvents,
			events, endpoint.Summary("Follow the event log: what is stored after a cursor, then what happens"),
			endpoint.Errors(invalid, forbidden, notFound)),
	}
	if c.Docs {
		rows = append(
			rows,
			endpoint.OnBytes("GET /docs", "docs:read", a.getDocs,
				docs, endpoint.Summary("This API as a page"), endpoint.Hidden()),
			endpoint.OnBytes("GET /docs/openapi.json", "docs:read", a.getOpenAPI,
				docs, endpoint.Summary("This API as an OpenAPI document")),
			endpoint.OnBytes("GET /docs/{file}", "docs:read", a.getDocsFile,
				docs, endpoint.Summary("Scripts and styles of the page"), endpoint.Hidden(), endpoint.Errors(notFound)),
		)
	}
	if c.AuthEnabled { // limits per caller need callers
		for i := range rows {
			endpoint.Errors(failurepb.Code_RATE_LIMITED)(&rows[i])
		}
	}
	return rows
}
