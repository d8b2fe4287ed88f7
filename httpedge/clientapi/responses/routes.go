// Package responses has the routes in the Responses format: /agents/responses and the official /responses.
package responses

import (
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers of the Responses format.
type api struct{ *handler.API }

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	responses := endpoint.Tag("Responses")
	answers := func(route *endpoint.Route) {
		for _, option := range []endpoint.Option{
			responses, endpoint.Idempotent(), endpoint.Timeout(a.Config.TurnTimeout),
			endpoint.MaxBody(a.Config.MaxFileBody), // histories come in it, of which the last message counts
			endpoint.AlsoAs[render.Run](202, "The request is carried out in the background, as this run; or, with on_busy queue, a response of status queued with session_id, run_id, message_id and position"),
			endpoint.Errors(
				failurepb.Code_INVALID_REQUEST, failurepb.Code_AGENT_NOT_ACTIVE, failurepb.Code_INVALID_BUDGET,
				failurepb.Code_BUDGET_UNAVAILABLE, failurepb.Code_AGENT_BACKGROUND_DISABLED, failurepb.Code_SESSION_CONFLICT,
				failurepb.Code_BUDGET_REACHED, failurepb.Code_BUDGET_OVERRIDE_FORBIDDEN, failurepb.Code_BUDGET_FORBIDDEN, failurepb.Code_AGENT_NOT_FOUND,
				failurepb.Code_VERSION_NOT_FOUND, failurepb.Code_SESSION_NOT_FOUND, failurepb.Code_NOT_FOUND,
				failurepb.Code_CONVERSATION_BUSY, failurepb.Code_ACTION_PENDING, failurepb.Code_QUOTA_REACHED, failurepb.Code_RATE_LIMITED,
				failurepb.Code_ATTACHMENTS_DISABLED, failurepb.Code_TOO_MANY_FILES, failurepb.Code_UNSUPPORTED_FILE_TYPE,
				failurepb.Code_SECRETS_UNAVAILABLE, failurepb.Code_STORAGE_FULL, failurepb.Code_STORAGE_FAILED,
				failurepb.Code_GUARDRAIL_BLOCKED, failurepb.Code_GUARDRAIL_MISSING,
			),
		} {
			option(route)
		}
	}
	return []endpoint.Route{
		endpoint.On("POST /agents/responses", "agents:write", a.createAgentResponse, endpoint.Unaudited("the log of its session is its record, written with what it changes"),
			answers, endpoint.Summary("Have an agent answer, in its published version")),
		endpoint.OnStream("POST /responses", "models:write", a.createResponse, endpoint.Once(), endpoint.Unaudited("the log of its session is its record, written with what it changes"),
			answers, endpoint.Summary("Have an agent answer, as it was last saved, by the official Responses API"),
			endpoint.Errors(failurepb.Code_ACTION_NOT_PENDING, failurepb.Code_ACTION_EXPIRED, failurepb.Code_ACTION_FORBIDDEN,
				failurepb.Code_INVALID_CLIENT_TOOL_RESULT, failurepb.Code_AGENT_RUN_CONFLICT)),
	}
}
