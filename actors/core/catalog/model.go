package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/actors/core/routing"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// ModelInput is what to create or change of a model. What is nil or empty stays as it is; a new one needs all but Key,
// Description, Metadata, Multimodal, Cache and ToolCalls, which is true by default.
type ModelInput struct {
	Key                                               string // of a new one; made of the name when empty
	Name, Description, ProviderKey, Category, ModelID *string
	Settings, Pricing, Metadata                       json.RawMessage // each replaces what is stored
	Multimodal, ToolCalls                             *bool
	InputGuardrail, OutputGuardrail                   *string // keys; "" = none
	Cache                                             *CacheInput
}

// CreateModel creates a model of a provider that exists.
func (c *Catalog) CreateModel(ctx context.Context, caller Caller, in ModelInput) (*directorypb.Model, error) {
	if err := in.complete(); err != nil {
		return nil, err
	}
	model, err := c.newModel(caller, in)
	if err != nil {
		return nil, err
	}
	return model, c.storeModel(ctx, caller, in, model)
}

// newModel makes a model that the input is still to be put into.
func (c *Catalog) newModel(caller Caller, in ModelInput) (*directorypb.Model, error) {
	now := c.env.Now().UnixMilli()
	model := &directorypb.Model{
		Id: c.env.NewID("mdl"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: in.Key, SupportsTools: true,
		CreatedBy: caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	if model.Key == "" {
		model.Key = c.newKey(*in.Name, "model")
	}
	if !isKey(model.Key) || model.Key == "providers" || model.Key == "dynamic" { // which are paths
		return nil, invalid(failure.BadKey).In("key")
	}
	return model, nil
}

// complete refuses a new model that lacks something.
func (in *ModelInput) complete() error {
	absent := func(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"name", strings.TrimSpace(value(in.Name)) == ""},
		{"providerKey", value(in.ProviderKey) == ""},
		{"category", value(in.Category) == ""},
		{"modelId", strings.TrimSpace(value(in.ModelID)) == ""},
		{"pricing", absent(in.Pricing)},
		{"settings", absent(in.Settings)},
	} {
		if field.missing {
			return invalid(failure.Required).In(field.name)
		}
	}
	return nil
}

// ListModels returns the models of a project by key; the built-in ones are among them while no others have their keys.
func (c *Catalog) ListModels(projectID string) ([]*directorypb.Model, error) {
	models, err := c.models.ByKey(Key(projectID, ""))
	if err != nil {
		return nil, err
	}
	recorded := len(models)
	for _, key := range definition.BuiltinModels(projectID) {
		if builtin, _, ok := definition.BuiltinModel(projectID, key); ok &&
			!slices.ContainsFunc(models[:recorded], func(m *directorypb.Model) bool { return m.GetKey() == key }) {
			models = append(models, builtin)
		}
	}
	slices.SortFunc(models, func(a, b *directorypb.Model) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	return models, nil
}

// Model finds a model of a project by key or id.
func (c *Catalog) Model(ctx context.Context, projectID, id string) (*directorypb.Model, error) {
	if !isKey(id) {
		return nil, missing("model", id)
	}
	model, err := c.models.Get(ctx, Key(projectID, id))
	if _, none := errors.AsType[*collection.MissingError](err); !none {
		return model, err
	}
	if model, err = c.models.Lookup(idTerm(projectID, id)); model != nil || err != nil {
		return model, err
	}
	for _, key := range definition.BuiltinModels(projectID) {
		builtin, _, ok := definition.BuiltinModel(projectID, key)
		if ok && (key == id || builtin.GetId() == id && c.models.Known(Key(projectID, key)) == nil) {
			return builtin, nil
		}
	}
	return nil, missing("model", id)
}

// Driver is how the provider of a project's model is called, "" when that is gone.
func (c *Catalog) Driver(model *directorypb.Model, projectID string) string {
	if provider := c.providers.Known(Key(projectID, model.GetProviderKey())); provider != nil {
		return provider.GetDriver()
	}
	if Dynamic(model) != nil {
		return routing.Key
	}
	provider, _ := definition.BuiltinProvider(projectID, model.GetProviderKey())
	return provider.GetDriver()
}

// UpdateModel changes what the input names of a model, which is found by key or id.
func (c *Catalog) UpdateModel(ctx context.Context, caller Caller, id string, in ModelInput) (*directorypb.Model, error) {
	model, err := c.writableModel(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return c.models.Change(ctx, Key(caller.ProjectID, model.GetKey()), func(model *directorypb.Model) error {
		model.UpdatedAt = c.env.Now().UnixMilli()
		return c.applyModel(ctx, in, model)
	})
}

// DeleteModel deletes a model that no dynamic model names; it is found by key or id. Agents that use it fail their turns.
func (c *Catalog) DeleteModel(ctx context.Context, caller Caller, id string) error {
	model, err := c.writableModel(ctx, caller, id)
	if err != nil {
		return err
	}
	return c.models.Delete(ctx, Key(caller.ProjectID, model.GetKey()), c.unrouted)
}

// writableModel finds a model and refuses the built-in one.
func (c *Catalog) writableModel(ctx context.Context, caller Caller, id string) (*directorypb.Model, error) {
	model, err := c.Model(ctx, caller.ProjectID, id)
	if err == nil && model.GetCreatedAt() == 0 {
		err = failure.New(failurepb.Code_FORBIDDEN, failure.BuiltinFixed).Param("noun", "model")
	}
	return model, err
}

// applyModel puts an input into a model.
func (c *Catalog) applyModel(ctx context.Context, in ModelInput, model *directorypb.Model) error {
	dynamic := model.GetProviderKey() == routing.Key && (model.Settings == nil || Dynamic(model) != nil)
	if dynamic && in.ProviderKey != nil && *in.ProviderKey != routing.Key {
		return invalid(failure.RoutingProvider).In("providerKey")
	}
	if err := in.applyTexts(model); err != nil {
		return err
	}
	if in.ProviderKey != nil && !dynamic {
		if _, err := c.Provider(ctx, model.GetProjectId(), model.GetProviderKey()); err != nil {
			if _, none := errors.AsType[*collection.MissingError](err); none {
				return invalid(failure.ProviderNotFound).Param("provider", model.GetProviderKey())
			}
			return err
		}
	}
	if in.Multimodal != nil {
		model.Multimodal = *in.Multimodal
	}
	if in.ToolCalls != nil {
		model.SupportsTools = *in.ToolCalls
	}
	for _, key := range []struct {
		name  string
		value *string
		into  *string
	}{{"inputGuardrailKey", in.InputGuardrail, &model.InputGuardrail}, {"outputGuardrailKey", in.OutputGuardrail, &model.OutputGuardrail}} {
		if key.value == nil {
			continue
		}
		if *key.value != "" && !isKey(*key.value) {
			return invalid(failure.BadKey).In(key.name)
		}
		*key.into = *key.value
	}
	if err := in.applyObjects(model); err != nil {
		return err
	}
	if err := in.applyCache(model); err != nil || !dynamic {
		return err
	}
	return c.applyDynamic(model)
}

func (in *ModelInput) applyTexts(model *directorypb.Model) error {
	for _, text := range []struct {
		name  string
		value *string
		into  *string
	}{
		{"name", in.Name, &model.Name},
		{"providerKey", in.ProviderKey, &model.ProviderKey},
		{"category", in.Category, &model.Category},
		{"modelId", in.ModelID, &model.ModelId},
	} {
		if text.value == nil {
			continue
		}
		value := strings.TrimSpace(naming.Plain(*text.value))
		if value == "" || utf8.RuneCountInString(value) > definition.MaxName {
			return invalid(failure.OneToCharacters).In(text.name).Param("most", definition.MaxName)
		}
		if text.into != &model.Name && strings.ContainsFunc(value, unicode.IsControl) {
			return invalid(failure.ControlCharacters).In(text.name)
		}
		*text.into = value
	}
	if !slices.Contains(definition.Categories(), model.GetCategory()) {
		return invalid(failure.NotOneOf).Param("name", "category").Param("choices", strings.Join(definition.Categories(), ", "))
	}
	if in.Description != nil {
		model.Description = *in.Description
	}
	return checkDescription(model.GetDescription())
}

func (in *ModelInput) applyObjects(model *directorypb.Model) error {
	for _, object := range []struct {
		raw  json.RawMessage
		read func([]byte) ([]byte, *failure.Failure)
		into *[]byte
	}{
		{in.Settings, definition.ReadSettings, &model.Settings},
		{in.Pricing, definition.ReadPricing, &model.Pricing},
		{in.Metadata, func(raw []byte) ([]byte, *failure.Failure) { return definition.ReadObject("metadata", raw) }, &model.Metadata},
	} {
		if len(object.raw) == 0 {
			continue
		}
		value, refused := object.read(object.raw)
		if refused != nil {
			return refused
		}
		*object.into = value
	}
	return nil
}
