package clientapi

import (
	"slices"

	"parley/httpedge/clientapi/a2a"
	"parley/httpedge/clientapi/agents"
	"parley/httpedge/clientapi/analytics"
	"parley/httpedge/clientapi/auditlog"
	"parley/httpedge/clientapi/budgets"
	"parley/httpedge/clientapi/console"
	"parley/httpedge/clientapi/decisions"
	"parley/httpedge/clientapi/guardrails"
	"parley/httpedge/clientapi/license"
	"parley/httpedge/clientapi/members"
	"parley/httpedge/clientapi/models"
	"parley/httpedge/clientapi/responses"
	"parley/httpedge/clientapi/runs"
	"parley/httpedge/clientapi/sessions"
	"parley/httpedge/clientapi/shields"
	"parley/httpedge/clientapi/tracing"
	"parley/httpedge/clientapi/users"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/endpoint"
)

// routes is the map of this surface: its resources for API tokens, agents as other programs call them, and the description.
func (a *API) routes() []endpoint.Route {
	routes := slices.Concat(a2a.Routes(a.shared), a.resources(webhooks.Tokens{}))
	return append(routes, a.documentRoutes(routes)...)
}

// resources is a line for each resource. They are mounted twice, for API tokens and for the console, which differ in the webhook
// endpoints that are within reach.
func (a *API) resources(side webhooks.Side) []endpoint.Route {
	return slices.Concat(
		agents.Routes(a.shared),
		models.Routes(a.shared),
		analytics.Routes(a.shared),
		budgets.Routes(a.shared),
		responses.Routes(a.shared),
		sessions.Routes(a.shared),
		runs.Routes(a.shared),
		console.LiveRoutes(a.shared),
		users.Routes(a.shared),
		members.Routes(members.Parts{Accounts: a.shared.Accounts, InviteLink: a.shared.InviteLink}, members.OfTokens()),
		webhooks.Routes(webhooks.Parts{Webhooks: a.shared.Webhooks, Permissions: a.shared.Permissions, Side: side}),
		decisions.Routes(a.shared),
		shields.Routes(a.shared),
		guardrails.Routes(a.shared),
		tracing.Routes(a.shared),
		license.Routes(license.Parts{Accounts: a.shared.Accounts}),
		auditlog.Routes(auditlog.Parts{Entities: a.shared.Entities, Chain: a.shared.AuditChain}),
	)
}
