// Package analytics has the routes that say what a project has used, and an overview of it (document 1, "Analytics"; document 3,
// section 13).
package analytics

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers.
type api struct{ *handler.API }

const read = "models:read" // document 1, Authentication, 6

// Routes returns the routes, relative to the Client API.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	tag := endpoint.Tag("Analytics")
	refused := endpoint.Errors(failurepb.Code_INVALID_REQUEST, failurepb.Code_UNAVAILABLE)
	return []endpoint.Route{
		endpoint.On("GET /analytics/overview", read, a.analyticsOverview, tag, refused, endpoint.Summary("Counts, recent sessions and the last days of the project")),
		endpoint.On("GET /analytics/usage", read, a.analyticsUsage, tag, refused,
			endpoint.Summary("What the project has used, by model, user, token, service or agent")),
		endpoint.On("GET /spend/report", read, a.spendReport, tag, refused,
			endpoint.Summary("What the project has spent, by model and time, or by user, token or agent")),
	}
}

// DashboardRoutes returns the overview of signed-in users (document 3, 16.2).
func DashboardRoutes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	return []endpoint.Route{
		endpoint.On("GET /dashboard", read, a.dashboardOverview, endpoint.Tag("Analytics"),
			endpoint.Errors(failurepb.Code_INVALID_REQUEST, failurepb.Code_NOT_FOUND, failurepb.Code_UNAVAILABLE),
			endpoint.Summary("The overview of the active project, and who is signed in")),
	}
}

// project is the caller's, once this cluster can add up what it has used.
func (a *api) project(ctx context.Context) (endpoint.Caller, error) {
	caller := endpoint.CallerFrom(ctx)
	if caller.ProjectID == "" {
		return caller, failure.New(failurepb.Code_INVALID_REQUEST, failure.APITokenOfNoProject)
	}
	if a.Current != nil && !a.Current() {
		return caller, failure.New(failurepb.Code_UNAVAILABLE, failure.TemporarilyUnavailable)
	}
	return caller, nil
}
