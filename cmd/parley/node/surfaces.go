package node

import (
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/clientapi/auditlog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/license"
	"parley/httpedge/clientapi/members"
	"parley/httpedge/clientapi/users"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/convapi"
	"parley/httpedge/dashboard"
	"parley/httpedge/endpoint"
	"parley/httpedge/gateway"
	"parley/httpedge/gateway/audio"
)

// Surfaces returns all surfaces with their default base paths for callers that only read the route tables: their handlers have
// no dependencies and must not be called.
func Surfaces() []httpedge.Mounted {
	conversations, client, models := convapi.DefaultConfig(), clientapi.DefaultConfig(), gateway.DefaultConfig()
	mounted := []httpedge.Mounted{
		{Prefix: conversations.BasePath, Surface: convapi.New(conversations, convapi.Parts{}).Surface()},
		{Prefix: client.BasePath, Surface: clientapi.New(client, clientapi.Parts{}).Surface()},
		{Prefix: models.BasePath, Surface: inferring(gateway.New(models, nil, nil), audio.New(audio.DefaultConfig(), nil, nil))},
	}
	return append(mounted, dashboardSurfaces(
		true, dashboard.New(dashboard.Config{}, dashboard.Parts{}).Surface(), clientapi.New(client, clientapi.Parts{}).Console(),
		dashboardWebhooks(webhooks.Parts{}), dashboardMembers(handler.Parts{}), dashboardAudit(auditlog.Parts{}), dashboardLicense(license.Parts{}),
		clientapi.New(client, clientapi.Parts{}).Dashboard(), clientapi.New(client, clientapi.Parts{}).Aegis(),
		clientapi.New(client, clientapi.Parts{}).Quotas(),
	)...)
}

// inferring is the gateway's surface with its routes of sound.
func inferring(models *gateway.API, sound *audio.API) endpoint.Surface {
	surface := models.Surface()
	surface.Routes = append(surface.Routes, sound.Routes()...)
	return surface
}

// dashboardSurfaces puts the surfaces of signed-in users in their places, and adds their description.
func dashboardSurfaces(page bool, own, console endpoint.Surface, others ...endpoint.Surface) []httpedge.Mounted {
	mounted := []httpedge.Mounted{
		{Prefix: dashboardPath, Surface: own},
		{Prefix: dashboardPath, Surface: dashboard.Described(dashboardPath, page, own, describedOthers(console, others...)...)},
		{Prefix: consolePath, Surface: console},
	}
	for _, surface := range others {
		mounted = append(mounted, httpedge.Mounted{Prefix: dashboardPath, Surface: surface})
	}
	return mounted
}

// describedOthers are the surfaces that the description of the dashboard has beside its own. Operations of the console begin with that
// word: some have the names of others below /api.
func describedOthers(console endpoint.Surface, others ...endpoint.Surface) []dashboard.Other {
	described := []dashboard.Other{{Surface: console, Below: consoleBelow, Names: "console"}}
	for _, surface := range others {
		described = append(described, dashboard.Other{Surface: surface})
	}
	return described
}

// dashboardWebhooks are the webhook routes of the Client API for signed-in users, who get the same answers.
func dashboardWebhooks(parts webhooks.Parts) endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-webhooks", Routes: webhooks.Routes(parts),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}

// dashboardMembers are the routes of members, groups, projects and API tokens of the Client API for signed-in users, who get the same
// answers.
func dashboardMembers(parts handler.Parts) endpoint.Surface {
	routes := members.Routes(members.Parts{Accounts: parts.Accounts, InviteLink: parts.InviteLink}, members.OfSessions())
	return endpoint.Surface{
		Name: "dashboard-members", Routes: append(routes, users.OwnedTokens(handler.New(handler.DefaultConfig(), parts))...),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}

// dashboardAudit are the routes of the audit trail for signed-in users.
func dashboardAudit(parts auditlog.Parts) endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-audit", Routes: auditlog.Routes(parts),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}

// dashboardLicense are the routes of the tenant's licence for signed-in users.
func dashboardLicense(parts license.Parts) endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-license", Routes: license.Routes(parts),
		Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
	}
}
