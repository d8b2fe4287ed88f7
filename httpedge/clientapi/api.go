package clientapi

import (
	"slices"

	"parley/actors/core/identity"
	"parley/httpedge/clientapi/a2a"
	"parley/httpedge/clientapi/agents"
	"parley/httpedge/clientapi/analytics"
	"parley/httpedge/clientapi/budgets"
	"parley/httpedge/clientapi/console"
	"parley/httpedge/clientapi/guardrails"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/shields"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
)

// Config is the settings of the Client API.
type Config = handler.Config

// DefaultConfig returns the settings in force unless configured otherwise.
func DefaultConfig() Config { return handler.DefaultConfig() }

// Parts is what the API needs of the rest of the node.
type Parts = handler.Parts

// API puts the routes of all resources together. It holds no state of its own.
type API struct{ shared *handler.API }

// New returns the API. The configuration must be valid.
func New(config Config, parts Parts) *API { return &API{handler.New(config, parts)} }

// Surface returns the routes of the Client API with its way of wording errors.
func (a *API) Surface() endpoint.Surface {
	return endpoint.Surface{
		Name: "client", Routes: a.routes(), Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
		Headers: endpoint.SecurityHeaders(),
	}
}

// Dashboard returns the overview of signed-in users (login.Sessions.ProtectProject makes it theirs).
func (a *API) Dashboard() endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-overview", Routes: analytics.DashboardRoutes(a.shared),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}

// Console returns the same resources for signed-in users, and the routes that only pages have (login.Sessions.ProtectProject makes them theirs): the same handlers, answers
// and errors. Of A2A it has the cards only: programs call the rest.
func (a *API) Console() endpoint.Surface {
	surface := a.Surface()
	surface.Name = "console"
	side := webhooks.Sessions{Projects: func(tenantID string) ([]*directorypb.Project, error) {
		return a.shared.Accounts.ListProjects(identity.Operator(), tenantID)
	}}
	surface.Routes = slices.Concat(a.resources(side), console.Routes(a.shared, side.Reach), agents.ConsoleRoutes(a.shared), guardrails.ConsoleRoutes(a.shared), a2a.ConsoleRoutes(a.shared), shields.ManageRoutes(a.shared))
	return surface
}

// Quotas returns the routes of quota policies for signed-in users, below /api.
func (a *API) Quotas() endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-quotas", Routes: budgets.PolicyRoutes(a.shared),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}

// Aegis returns the routes of shields for signed-in users, below /api.
func (a *API) Aegis() endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-aegis", Routes: append(shields.Routes(a.shared), shields.ManageRoutes(a.shared)...),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}
