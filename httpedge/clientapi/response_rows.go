package clientapi

import (
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// responseRows is the routes in the Responses format.
func (a *API) responseRows() []endpoint.Row {
	responses := endpoint.Tag("Responses")
	answers := func(row *endpoint.Row) {
		for _, option := range []endpoint.Option{
			responses, endpoint.Idempotent(), endpoint.Timeout(a.config.TurnTimeout),
			endpoint.MaxBody(a.config.MaxFileBody), // histories come in it, of which the last message counts
			endpoint.AlsoAs[runRecord](202, "The request is carried out in the background, as this run"),
			endpoint.Errors(
				failurepb.Code_INVALID_REQUEST, failurepb.Code_AGENT_NOT_ACTIVE, failurepb.Code_INVALID_BUDGET,
				failurepb.Code_BUDGET_UNAVAILABLE, failurepb.Code_AGENT_BACKGROUND_DISABLED, failurepb.Code_SESSION_CONFLICT,
				failurepb.Code_BUDGET_REACHED, failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, failurepb.Code_BUDGET_FORBIDDEN, failurepb.Code_AGENT_NOT_FOUND,
				failurepb.Code_VERSION_NOT_FOUND, failurepb.Code_SESSION_NOT_FOUND, failurepb.Code_NOT_FOUND,
				failurepb.Code_CONVERSATION_BUSY, failurepb.Code_ACTION_PENDING, failurepb.Code_QUOTA_REACHED,
				failurepb.Code_ATTACHMENTS_DISABLED, failurepb.Code_TOO_MANY_FILES, failurepb.Code_UNSUPPORTED_FILE_TYPE,
				failurepb.Code_SECRETS_UNAVAILABLE, failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED,
			),
		} {
			option(row)
		}
	}
	return []endpoint.Row{
		endpoint.On("POST /agents/responses", "agents:write", a.createAgentResponse,
			answers, endpoint.Summary("Have an agent answer, in its published version")),
		endpoint.OnStream("POST /responses", "models:write", a.createResponse, endpoint.Once(),
			answers, endpoint.Summary("Have an agent answer, as it was last saved, by the official Responses API"),
			endpoint.Errors(failurepb.Code_ACTION_NOT_PENDING, failurepb.Code_ACTION_EXPIRED, failurepb.Code_ACTION_FORBIDDEN,
				failurepb.Code_INVALID_CLIENT_TOOL_RESULT, failurepb.Code_AGENT_RUN_CONFLICT, failurepb.Code_RATE_LIMITED)),
	}
}
