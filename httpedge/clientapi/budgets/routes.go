// Package budgets has the routes of spend caps and of quota policies, of which they are a part (document 3, sections 4 and 13.3).
// Which of them are in force for a call says package actors/core/quota, what was used package actors/allowance.
package budgets

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/failurepb"
)

// maxBody bounds a policy, in bytes.
const maxBody = 64 << 10

// api is the handlers.
type api struct{ *handler.API }

// Routes returns the routes of budgets, relative to the Client API.
func Routes(shared *handler.API) []endpoint.Route {
	a, o := &api{shared}, budgets()
	const (
		read, write = "models:read", "models:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		notFound    = failurepb.Code_NOT_FOUND
		conflict    = failurepb.Code_CONFLICT
		quota       = failurepb.Code_QUOTA_REACHED
		unavailable = failurepb.Code_UNAVAILABLE
	)
	tag, room := endpoint.Tag("Budgets"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		resource.List(o, "GET /budgets", read, a.listBudgets, tag, endpoint.Errors(forbidden), endpoint.Summary("List the budgets that bound the project")),
		o.Create("POST /budgets", write, a.createBudget, tag, room,
			endpoint.Errors(invalid, forbidden, conflict, quota, unavailable),
			endpoint.Summary("Make a budget; it holds at once, on every node")),
		endpoint.On("GET /budgets/status", read, a.budgetStatus, tag, endpoint.Errors(invalid, forbidden, unavailable),
			endpoint.Summary("What is left of the budgets in force for a call")),
		o.Change("PATCH /budgets/{id}", write, "updateBudget", a.updateBudget, tag, room, endpoint.Errors(invalid, forbidden, notFound, conflict, unavailable),
			endpoint.Summary("Change a budget; null removes a limit")),
		o.Delete("DELETE /budgets/{id}", write, a.deleteBudget, tag, endpoint.Errors(forbidden, notFound, conflict),
			endpoint.Summary("Delete a budget")),
	}
}

// manages refuses who is neither owner nor admin.
func manages(ctx context.Context, reason failure.Reason) error {
	if caller := endpoint.CallerFrom(ctx); caller.Grant == nil || !caller.Grant.Administrates() {
		return failure.New(failurepb.Code_FORBIDDEN, reason)
	}
	return nil
}
