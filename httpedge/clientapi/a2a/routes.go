package a2a

import (
	"time"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers of A2A.
type api struct{ *handler.API }

// A request has toAnswer besides the wait for a turn. What of it has no more than room left begins nothing any more: a turn that it began
// could not be told of.
const (
	toAnswer = 20 * time.Second
	room     = toAnswer / 2
)

// ConsoleRoutes returns the cards, as pages show them.
func ConsoleRoutes(shared *handler.API) []endpoint.Route {
	return []endpoint.Route{cardRoute(&api{shared})}
}

func cardRoute(a *api) endpoint.Route {
	return endpoint.On("GET /a2a/{agentKey}/.well-known/agent-card.json", "agents:read", a.getAgentCard, endpoint.Tag("A2A"),
		endpoint.Errors(failurepb.Code_AGENT_NOT_FOUND, failurepb.Code_AGENT_NOT_ACTIVE),
		endpoint.Summary("Read the agent's card, which clients of A2A 0.3 and 1.0 take"))
}

// Routes returns the routes of A2A.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	tag := endpoint.Tag("A2A")
	refused := endpoint.Errors(failurepb.Code_AGENT_NOT_FOUND, failurepb.Code_AGENT_NOT_ACTIVE)
	return []endpoint.Route{
		endpoint.OnStream("POST /a2a/{agentKey}", "agents:write", a.callAgent, tag, refused, endpoint.Unaudited("the log of its session is its record, written with what it changes"), endpoint.Timeout(a.Config.TurnTimeout+toAnswer),
			endpoint.Summary("Call an agent by JSON-RPC 2.0, over A2A 0.3 or 1.0; what goes wrong behind the envelope is an error in it")),
		cardRoute(a),
	}
}
