package guardrails

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// maxUses bounds the models, and the agents, that an answer lists.
const maxUses = 100

// ConsoleRoutes returns the routes that only pages have.
func ConsoleRoutes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	return []endpoint.Route{
		endpoint.On("GET /guardrails/{key}/uses", "guardrails:read", a.listUses, endpoint.Tag("Console"),
			endpoint.Summary("List the models and agents that name a guardrail"), endpoint.Errors(failurepb.Code_FORBIDDEN, failurepb.Code_NOT_FOUND)),
	}
}

type usesInput struct {
	Key string `path:"key"`
}

type useSchema struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Input  bool   `json:"input" doc:"For what goes in"`
	Output bool   `json:"output" doc:"For what comes out"`
}

type usesSchema struct {
	Count int         `json:"count"`
	First []useSchema `json:"first" doc:"By key, at most 100"`
}

type usesOut struct {
	Models *usesSchema `json:"models" doc:"null for who may not read models"`
	Agents *usesSchema `json:"agents" doc:"As they are saved or as they are published; null for who may not read agents"`
}

func (a *api) listUses(ctx context.Context, in *usesInput) (*usesOut, error) {
	record, err := a.get(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	out, caller := new(usesOut), endpoint.CallerFrom(ctx)
	for _, one := range []struct {
		service access.Service
		list    func(projectID, key string) ([]catalog.GuardrailUse, error)
		to      **usesSchema
	}{{access.Models, a.Catalog.ModelsOfGuardrail, &out.Models}, {access.Agents, a.Catalog.AgentsOfGuardrail, &out.Agents}} {
		allowed, err := a.Permissions.Allows(ctx, caller, one.service, access.Read)
		if err != nil {
			return nil, err
		}
		if !allowed {
			continue
		}
		uses, err := one.list(caller.ProjectID, record.GetKey())
		if err != nil {
			return nil, err
		}
		listed := &usesSchema{Count: len(uses), First: []useSchema{}}
		for _, use := range uses[:min(len(uses), maxUses)] {
			listed.First = append(listed.First, useSchema(use))
		}
		*one.to = listed
	}
	return out, nil
}
