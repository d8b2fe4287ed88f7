package catalog

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/routing"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Dynamic is what a model chooses by, nil of one that is called at a provider.
func Dynamic(model *directorypb.Model) *routing.Settings {
	return routing.Of(model.GetProviderKey(), model.GetSettings())
}

// dynamicCategories are what dynamic models can be for: other calls are not routed.
func dynamicCategories() []string { return []string{"llm", "embedding"} }

// CreateDynamicModel creates a model that chooses among others (document 3, 10.6). It needs a name and settings; its category is llm
// unless the input has another. Provider, model id and pricing of the input say nothing.
func (c *Catalog) CreateDynamicModel(ctx context.Context, caller Caller, in ModelInput) (*directorypb.Model, error) {
	none := routing.Key
	in.ProviderKey, in.ModelID, in.Pricing = nil, &none, []byte(`{}`)
	if value(in.Category) == "" {
		category := "llm"
		in.Category = &category
	}
	if strings.TrimSpace(value(in.Name)) == "" {
		return nil, invalid(failure.Required).In("name")
	}
	if _, refused := routing.Read(cmp.Or(string(in.Settings), "{}")); refused != nil {
		return nil, refused
	}
	model, err := c.newModel(caller, in)
	if err != nil {
		return nil, err
	}
	model.ProviderKey = routing.Key
	return model, c.storeModel(ctx, caller, in, model)
}

// storeModel puts the input into a new model and stores it, where there is room for it.
func (c *Catalog) storeModel(ctx context.Context, caller Caller, in ModelInput, model *directorypb.Model) error {
	return c.models.Create(ctx, model, func() error {
		if err := c.applyModel(ctx, in, model); err != nil {
			return err
		}
		return c.modelRoom(model)
	}, modelLimits(caller)...)
}

// modelLimits are how many models a project and a tenant may record.
func modelLimits(caller Caller) []collection.Limit {
	limits := []collection.Limit{limit("models", projectTerm(caller.ProjectID), maxRecords)}
	if most := caller.Tier.Limits().MaxModels; most != access.Unlimited {
		limits = append(limits, limit("models", tenantTerm(caller.TenantID), most))
	}
	return limits
}

// applyDynamic checks a dynamic model that has changed. Models that it is nested in are looked at, too. It is called in the scope of
// the tenant's models: none of them changes meanwhile.
func (c *Catalog) applyDynamic(model *directorypb.Model) error {
	if !slices.Contains(dynamicCategories(), model.GetCategory()) {
		return invalid(failure.RoutingCategory).In("category").Param("choices", strings.Join(dynamicCategories(), ", "))
	}
	settings, refused := routing.Read(string(model.GetSettings()))
	if refused != nil {
		return refused
	}
	checker := routing.NewChecker(func(key string) (routing.Found, bool) {
		if key == model.GetKey() {
			return routing.Found{Category: model.GetCategory(), Dynamic: settings}, true
		}
		return c.routed(model.GetProjectId(), key)
	})
	if refused = checker.Check(model.GetKey(), model.GetCategory(), settings); refused != nil {
		return refused
	}
	others, err := c.models.All(providerTerm(model.GetProjectId(), routing.Key))
	if err != nil {
		return err
	}
	for _, other := range others {
		if refused = checker.CheckNesting(other.GetKey()); refused != nil {
			return refused
		}
	}
	return nil
}

// routed is a model as a dynamic one sees it.
func (c *Catalog) routed(projectID, key string) (routing.Found, bool) {
	model := c.models.Known(Key(projectID, key))
	if model == nil {
		builtin, _, ok := definition.BuiltinModel(projectID, key)
		return routing.Found{Category: builtin.GetCategory()}, ok
	}
	return routing.Found{Category: model.GetCategory(), Dynamic: Dynamic(model)}, true
}

// unrouted refuses to delete a model that a dynamic one names: whoever asks that one would be answered by another than its author
// chose. What decides is read in the scope of the models, as DeleteProvider does.
func (c *Catalog) unrouted(model *directorypb.Model) error {
	all, err := c.models.All(providerTerm(model.GetProjectId(), routing.Key))
	if err != nil {
		return err
	}
	for _, other := range all {
		if settings := Dynamic(other); settings != nil && other.GetKey() != model.GetKey() && settings.Names(model.GetKey()) {
			return failure.New(failurepb.Code_CONFLICT, failure.ModelRouted).Param("model", other.GetKey())
		}
	}
	return nil
}

// callable refuses the model of an agent that is dynamic: turns call models by themselves, one model for all of a turn.
func (c *Catalog) callable(projectID, key string) error {
	if Dynamic(c.models.Known(Key(projectID, key))) != nil {
		return invalid(failure.AgentModelDynamic).In("config.modelKey").Param("model", key)
	}
	return nil
}
