// Package users is the routes of a tenant's users and of their API tokens.
package users

import (
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/failurepb"
)

// Pages of users and of tokens.
const (
	userPage    = 100
	maxUserPage = 500
)

// api is the handlers of users and their tokens.
type api struct{ *handler.API }

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	return append([]endpoint.Route{
		endpoint.On("GET /users", "members:read", a.listUsers, endpoint.Tag("Users"), endpoint.Page("limit", userPage, maxUserPage),
			endpoint.Summary("List the tenant's users, newest first"), endpoint.Errors(failurepb.Code_FORBIDDEN)),
	}, OwnedTokens(shared)...)
}

// OwnedTokens returns the routes of users who only own API tokens, and of the tokens of all users.
func OwnedTokens(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		invalid   = failurepb.Code_VALIDATION
		forbidden = failurepb.Code_FORBIDDEN
		notFound  = failurepb.Code_NOT_FOUND
		taken     = failurepb.Code_ALREADY_EXISTS
		quota     = failurepb.Code_QUOTA_REACHED
	)
	tag, page := endpoint.Tag("Users"), endpoint.Page("limit", userPage, maxUserPage)
	return []endpoint.Route{
		endpoint.On("POST /users", "members:admin", a.createUser, endpoint.Once(),
			tag, endpoint.Summary("Create a user who cannot sign in, to own API tokens"), endpoint.Status(201),
			endpoint.Errors(invalid, forbidden, notFound, taken, quota)),
		resource.Pages(tokens(a.Accounts.LastUse), "GET /users/{id}/tokens", "members:read", a.pageTokens,
			tag, page, endpoint.Summary("List a user's API tokens, newest first"), endpoint.Errors(forbidden, notFound)),
		madeTokens().Create("POST /users/{id}/tokens", "members:admin", a.makeToken,
			tag, endpoint.Summary("Create an API token for a user; the only answer that shows it"),
			endpoint.Errors(invalid, forbidden, notFound, quota)),
		endpoint.On("DELETE /users/{id}/tokens/{tokenId}", "members:admin", a.deleteUserToken,
			tag, endpoint.Summary("Delete an API token: it is of no use from then on"),
			endpoint.Errors(forbidden, notFound)),
	}
}
