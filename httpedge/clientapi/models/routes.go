// Package models has the routes of models and of the providers that serve them.
package models

import (
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// api is the handlers of models and providers.
type api struct{ *handler.API }

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		read, write = "models:read", "models:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		large       = failurepb.Code_TOO_LARGE
		forbidden   = failurepb.Code_FORBIDDEN
		noSecrets   = failurepb.Code_SECRETS_UNAVAILABLE
		noModel     = failurepb.Code_MODEL_NOT_FOUND
		noProvider  = failurepb.Code_NOT_FOUND
		taken       = failurepb.Code_ALREADY_EXISTS
		conflict    = failurepb.Code_CONFLICT
		quota       = failurepb.Code_QUOTA_REACHED
	)
	tag := endpoint.Tag("Models")
	changes := endpoint.Errors(invalid, large, forbidden, noModel, conflict, quota)
	return []endpoint.Route{
		endpoint.On("GET /models", read, a.listModels, tag, endpoint.Summary("List the project's models")),
		endpoint.On("POST /models", write, a.createModel, endpoint.Once(), tag, endpoint.Status(201), endpoint.Summary("Record a model"),
			endpoint.Errors(invalid, large, taken, quota)),
		endpoint.On("GET /models/providers", read, a.listProviders, tag, endpoint.Summary("List the project's providers")),
		endpoint.On("POST /models/providers", write, a.createProvider, endpoint.Once(), tag, endpoint.Status(201),
			endpoint.Summary("Record a provider and its credentials"), endpoint.Errors(invalid, large, taken, quota, noSecrets)),
		endpoint.On("PATCH /models/providers/{key}", write, a.updateProvider, tag, endpoint.Summary("Change a provider"),
			endpoint.Errors(invalid, large, forbidden, noProvider, conflict, quota, noSecrets)),
		endpoint.On("DELETE /models/providers/{key}", write, a.deleteProvider, tag,
			endpoint.Summary("Delete a provider that no model uses"), endpoint.Errors(forbidden, noProvider, conflict)),
		endpoint.On("GET /models/{id}", read, a.getModel, tag, endpoint.Summary("Read a model"), endpoint.Errors(noModel)),
		endpoint.On("PUT /models/{id}", write, a.updateModel, tag, endpoint.Summary("Change a model"), changes),
		endpoint.On("PATCH /models/{id}", write, a.patchModel, tag, endpoint.Summary("Change a model"), changes),
		endpoint.On("DELETE /models/{id}", write, a.deleteModel, tag, endpoint.Summary("Delete a model; agents that use it fail their turns"),
			endpoint.Errors(forbidden, noModel, conflict)),
	}
}
