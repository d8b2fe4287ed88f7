package models

import (
	"context"
	"encoding/json"

	"parley/actors/core/definition"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
)

// modelFullRecord is a model as it is recorded.
type modelFullRecord struct {
	InternalID     string          `json:"_id"`
	TenantID       string          `json:"tenantId"`
	ProjectID      string          `json:"projectId"`
	Key            string          `json:"key"`
	Name           string          `json:"name"`
	Description    *string         `json:"description"`
	ProviderKey    string          `json:"providerKey"`
	ProviderDriver string          `json:"providerDriver"`
	Category       string          `json:"category"`
	ModelID        string          `json:"modelId" doc:"As the provider knows it"`
	Multimodal     bool            `json:"isMultimodal"`
	ToolCalls      bool            `json:"supportsToolCalls"`
	Settings       json.RawMessage `json:"settings"`
	Pricing        json.RawMessage `json:"pricing" doc:"US dollars for one million tokens"`
	Metadata       json.RawMessage `json:"metadata"`
	CreatedBy      *string         `json:"createdBy"`
	CreatedAt      *string         `json:"createdAt" format:"date-time"`
	UpdatedAt      *string         `json:"updatedAt" format:"date-time"`
}

// modelEntryRecord is a model as OpenAI clients list it.
type modelEntryRecord struct {
	ID              string             `json:"id"`
	Object          string             `json:"object" enum:"model"`
	Created         int64              `json:"created"`
	OwnedBy         string             `json:"owned_by"`
	Name            string             `json:"name"`
	Category        string             `json:"category"`
	ContextLength   int                `json:"context_length,omitempty"`
	MaxOutputTokens int                `json:"max_output_tokens,omitempty"`
	SupportsTools   bool               `json:"supports_tools"`
	SupportsVision  bool               `json:"supports_vision"`
	SupportsStreams bool               `json:"supports_streaming"`
	Architecture    modelArchitecture  `json:"architecture"`
	Service         modelServiceRecord `json:"service"`
}

type modelArchitecture struct {
	InputModalities  []string `json:"input_modalities"`
	OutputModalities []string `json:"output_modalities"`
}

type modelServiceRecord struct {
	SchemaVersion    string            `json:"schema_version"`
	CanonicalModelID string            `json:"canonical_model_id"`
	Capabilities     modelCapabilities `json:"capabilities"`
}

type modelCapabilities struct {
	Streaming bool `json:"streaming"`
	Tools     bool `json:"tools"`
	Vision    bool `json:"vision"`
}

type listModelsInput struct {
	Category         string `query:"category"`
	ProviderKey      string `query:"providerKey"`
	ProviderDriver   string `query:"providerDriver"`
	IncludeProviders string `query:"includeProviders" doc:"true: the providers, too"`
}

type modelListOut struct {
	Object    string              `json:"object" enum:"list"`
	Data      []*modelEntryRecord `json:"data" doc:"Models of category llm, as OpenAI clients know them"`
	Models    []*modelFullRecord  `json:"models"`
	Providers []*providerRecord   `json:"providers,omitempty"`
}

func (a *api) listModels(ctx context.Context, in *listModelsInput) (*modelListOut, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	models, err := a.Catalog.ListModels(project)
	if err != nil {
		return nil, err
	}
	out := &modelListOut{Object: "list", Data: []*modelEntryRecord{}, Models: []*modelFullRecord{}}
	for _, model := range models {
		driver := a.Catalog.Driver(model, project)
		if in.Category != "" && model.GetCategory() != in.Category || in.ProviderKey != "" && model.GetProviderKey() != in.ProviderKey ||
			in.ProviderDriver != "" && driver != in.ProviderDriver {
			continue
		}
		if model.GetCategory() == categoryLLM {
			out.Data = append(out.Data, modelEntry(model, driver))
		}
		out.Models = append(out.Models, modelJSON(model, driver))
	}
	if in.IncludeProviders == "true" {
		if out.Providers, err = a.providersJSON(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const categoryLLM = "llm"

type modelInput struct {
	ID string `path:"id" doc:"Id or key"`
}

type modelOut struct {
	Model *modelFullRecord `json:"model"`
}

// modelReadOut is the record, and beside it what OpenAI clients read of a model.
type modelReadOut struct {
	ID      string           `json:"id" doc:"The key, which requests name the model by"`
	Object  string           `json:"object" enum:"model"`
	Created int64            `json:"created" doc:"Seconds since 1970; 0 of a built-in one"`
	OwnedBy string           `json:"owned_by" doc:"Driver of the provider"`
	Model   *modelFullRecord `json:"model"`
}

func (a *api) getModel(ctx context.Context, in *modelInput) (*modelReadOut, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	model, err := a.Catalog.Model(ctx, project, in.ID)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	driver := a.Catalog.Driver(model, project)
	entry := modelEntry(model, driver)
	return &modelReadOut{entry.ID, entry.Object, entry.Created, entry.OwnedBy, modelJSON(model, driver)}, nil
}

func modelJSON(model *directorypb.Model, driver string) *modelFullRecord {
	return &modelFullRecord{
		InternalID: model.GetId(), TenantID: model.GetTenantId(), ProjectID: model.GetProjectId(), Key: model.GetKey(),
		Name: model.GetName(), Description: render.Nullable(model.GetDescription()), ProviderKey: model.GetProviderKey(),
		ProviderDriver: driver, Category: model.GetCategory(), ModelID: model.GetModelId(),
		Multimodal: model.GetMultimodal(), ToolCalls: model.GetSupportsTools(),
		Settings: render.Object(model.GetSettings()), Pricing: render.Object(model.GetPricing()), Metadata: render.Object(model.GetMetadata()),
		CreatedBy: render.Nullable(model.GetCreatedBy()),
		CreatedAt: render.NullableTime(model.GetCreatedAt()), UpdatedAt: render.NullableTime(model.GetUpdatedAt()),
	}
}

func modelEntry(model *directorypb.Model, driver string) *modelEntryRecord {
	can := modelCapabilities{Streaming: true, Tools: model.GetSupportsTools(), Vision: model.GetMultimodal()}
	entry := &modelEntryRecord{
		ID: model.GetKey(), Object: "model", Created: model.GetCreatedAt() / 1000, OwnedBy: driver, Name: model.GetName(),
		Category: model.GetCategory(), SupportsTools: can.Tools, SupportsVision: can.Vision, SupportsStreams: can.Streaming,
		Architecture: modelArchitecture{InputModalities: []string{"text"}, OutputModalities: []string{"text"}},
		Service:      modelServiceRecord{SchemaVersion: "1.0", CanonicalModelID: model.GetModelId(), Capabilities: can},
	}
	if can.Vision {
		entry.Architecture.InputModalities = append(entry.Architecture.InputModalities, "image")
	}
	if settings, err := definition.ParseSettings(model.GetSettings()); err == nil {
		entry.ContextLength, entry.MaxOutputTokens = settings.ContextTokens, settings.MaxOutputTokens
	}
	return entry
}
