// Package agents has the routes of agents: drafts, publishing and versions.
package agents

import (
	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxAgentBody bounds a body that holds an agent's config, in bytes.
const maxAgentBody = 512 << 10

// api is the handlers of agents.
type api struct {
	*handler.API
	agents *resource.Object[*directorypb.Agent, catalog.AgentInput]
}

// ConsoleRoutes returns what only pages have.
func ConsoleRoutes(shared *handler.API) []endpoint.Route {
	a := &api{shared, agents()}
	return []endpoint.Route{
		a.agents.Read("GET /agents/{agentKey}/draft", "agents:read", "getDraft", a.draft, endpoint.Tag("Console"),
			endpoint.Summary("Read an agent as its editors see it, without secrets"), endpoint.Errors(failurepb.Code_AGENT_NOT_FOUND)),
	}
}

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared, agents()}
	const (
		read, write = "agents:read", "agents:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		budget      = failurepb.Code_INVALID_BUDGET
		large       = failurepb.Code_TOO_LARGE
		noSecrets   = failurepb.Code_SECRETS_UNAVAILABLE
		notFound    = failurepb.Code_AGENT_NOT_FOUND
		noVersion   = failurepb.Code_VERSION_NOT_FOUND
		forbidden   = failurepb.Code_FORBIDDEN
		conflict    = failurepb.Code_CONFLICT
		quota       = failurepb.Code_QUOTA_REACHED
	)
	tag, room := endpoint.Tag("Agents"), endpoint.MaxBody(maxAgentBody)
	return []endpoint.Route{
		endpoint.On("GET /agents", read, a.listAgents, tag, endpoint.Summary("List the project's agents, newest first")),
		a.agents.Create("POST /agents", write, handler.Make(a.Catalog.CreateAgent), tag, room,
			endpoint.Summary("Create an agent: native, or connected"),
			endpoint.Errors(invalid, budget, large, forbidden, quota, noSecrets)),
		endpoint.On("GET /agents/{agentKey}", read, a.getAgent, tag, endpoint.Summary("Read an agent"), endpoint.Errors(notFound)),
		a.agents.Change("PATCH /agents/{agentKey}", write, "updateAgent", handler.Change(a.Catalog.UpdateAgent), tag, room,
			endpoint.Summary("Change an agent's draft, status or metadata"),
			endpoint.Errors(invalid, budget, large, forbidden, notFound, conflict, quota, noSecrets)),
		a.agents.Delete("DELETE /agents/{agentKey}", write, handler.Remove(a.Catalog.DeleteAgent), tag, endpoint.Summary("Delete an agent; its sessions stay readable"),
			endpoint.Errors(forbidden, notFound, conflict)),
		endpoint.On("POST /agents/{agentKey}/publish", write, a.publishAgent, endpoint.Once(), tag, endpoint.Status(201),
			endpoint.Summary("Keep the draft as the next version, and run that"),
			endpoint.Errors(invalid, forbidden, notFound, conflict, quota)),
		endpoint.On("GET /agents/{agentKey}/versions", read, a.listAgentVersions, tag,
			endpoint.Summary("List what was published of an agent, newest first"), endpoint.Errors(notFound)),
		endpoint.On("GET /agents/{agentKey}/versions/{version}", read, a.getAgentVersion, tag,
			endpoint.Summary("Read a version of an agent"), endpoint.Errors(notFound, noVersion)),
	}
}
