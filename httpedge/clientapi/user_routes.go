package clientapi

import (
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// Pages of users and of tokens.
const (
	userPage    = 100
	maxUserPage = 500
)

func (a *API) userRows() []endpoint.Row {
	const (
		invalid   = failurepb.Code_VALIDATION
		forbidden = failurepb.Code_FORBIDDEN
		notFound  = failurepb.Code_NOT_FOUND
		taken     = failurepb.Code_ALREADY_EXISTS
		quota     = failurepb.Code_QUOTA_REACHED
	)
	tag, page := endpoint.Tag("Users"), endpoint.Page("limit", userPage, maxUserPage)
	return []endpoint.Row{
		endpoint.On("GET /users", "members:read", a.listUsers,
			tag, page, endpoint.Summary("List the tenant's users, newest first"), endpoint.Errors(forbidden)),
		endpoint.On("POST /users", "members:admin", a.createUser, endpoint.Once(),
			tag, endpoint.Summary("Create a user who cannot sign in, to own API tokens"), endpoint.Status(201),
			endpoint.Errors(invalid, forbidden, notFound, taken, quota)),
		endpoint.On("GET /users/{id}/tokens", "members:read", a.listUserTokens,
			tag, page, endpoint.Summary("List a user's API tokens, newest first"), endpoint.Errors(forbidden, notFound)),
		endpoint.On("POST /users/{id}/tokens", "members:admin", a.createUserToken, endpoint.Once(),
			tag, endpoint.Summary("Create an API token for a user; the only answer that shows it"), endpoint.Status(201),
			endpoint.Errors(invalid, forbidden, notFound, quota)),
		endpoint.On("DELETE /users/{id}/tokens/{tokenId}", "members:admin", a.deleteUserToken,
			tag, endpoint.Summary("Delete an API token: it is of no use from then on"),
			endpoint.Errors(forbidden, notFound)),
	}
}
