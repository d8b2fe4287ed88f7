// Package models has the routes of models and of the providers that serve them.
package models

import (
	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// api is the handlers of models and providers.
type api struct {
	*handler.API
	models    *resource.Object[*directorypb.Model, catalog.ModelInput]
	providers *resource.Object[*directorypb.Provider, catalog.ProviderInput]
}

// Routes returns them.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared, models(shared.Catalog), providers()}
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
		a.models.Create("POST /models", write, handler.Make(a.Catalog.CreateModel), tag, endpoint.Summary("Record a model"),
			endpoint.Errors(invalid, large, taken, quota)),
		endpoint.On("POST /models/dynamic", write, a.createDynamic, endpoint.Once(), endpoint.Status(201), tag,
			endpoint.Summary("Record a model that chooses among others for each request"), endpoint.Errors(invalid, large, taken, quota)),
		resource.List(a.providers, "GET /models/providers", read, a.listProviders, tag, endpoint.Summary("List the project's providers")),
		a.providers.Create("POST /models/providers", write, handler.Make(a.Catalog.CreateProvider), tag,
			endpoint.Summary("Record a provider and its credentials"), endpoint.Errors(invalid, large, taken, quota, noSecrets)),
		a.providers.Change("PATCH /models/providers/{key}", write, "updateProvider", handler.Change(a.Catalog.UpdateProvider), tag, endpoint.Summary("Change a provider"),
			endpoint.Errors(invalid, large, forbidden, noProvider, conflict, quota, noSecrets)),
		a.providers.Delete("DELETE /models/providers/{key}", write, handler.Remove(a.Catalog.DeleteProvider), tag,
			endpoint.Summary("Delete a provider that no model uses"), endpoint.Errors(forbidden, noProvider, conflict)),
		endpoint.On("GET /models/{id}", read, a.getModel, tag, endpoint.Summary("Read a model"), endpoint.Errors(noModel)),
		a.models.Change("PUT /models/{id}", write, "updateModel", handler.Change(a.Catalog.UpdateModel), tag, endpoint.Summary("Change a model"), changes),
		a.models.Change("PATCH /models/{id}", write, "patchModel", handler.Change(a.Catalog.UpdateModel), tag, endpoint.Summary("Change a model"), changes),
		a.models.Delete("DELETE /models/{id}", write, handler.Remove(a.Catalog.DeleteModel), tag, endpoint.Summary("Delete a model that no dynamic model names; agents that use it fail their turns"),
			endpoint.Errors(forbidden, noModel, conflict)),
	}
}
