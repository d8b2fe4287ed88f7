package models

import (
	"context"
	"encoding/json"
	"reflect"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
)

// models declares the models that are recorded.
func models(recorded *catalog.Catalog) *resource.Object[*directorypb.Model, input] {
	type record = *directorypb.Model
	o := resource.New[record, input]("model", "ModelFull").Failures(handler.RecordError).KeyDoc("Id or key")
	o.Text("_id", record.GetId)
	o.Text("tenantId", record.GetTenantId)
	o.Text("projectId", record.GetProjectId)
	o.Text("key", record.GetKey).Create(func(in *input) *string { return &in.Key }).CreateDoc("Unique in the project; made of the name when empty")
	o.Text("name", record.GetName).Write(func(in *input) **string { return &in.Name }).Required()
	o.NullableText("description", record.GetDescription).Write(func(in *input) **string { return &in.Description }).Clearable()
	o.Text("providerKey", record.GetProviderKey).Write(func(in *input) **string { return &in.ProviderKey }).Required()
	o.Text("providerDriver", func(model record) string { return recorded.Driver(model, model.GetProjectId()) })
	o.Text("category", record.GetCategory).Write(func(in *input) **string { return &in.Category }).Required().
		Accepts("llm", "embedding", "rerank", "stt", "tts", "ocr", "moderation")
	o.Text("modelId", record.GetModelId).Write(func(in *input) **string { return &in.ModelID }).Required().
		Doc("As the provider knows it").CreateDoc("As the provider knows it")
	o.Flag("isMultimodal", record.GetMultimodal).Write(func(in *input) **bool { return &in.Multimodal })
	o.Flag("supportsToolCalls", record.GetSupportsTools).Write(func(in *input) **bool { return &in.ToolCalls }).Optional().CreateDoc("true when absent")
	o.Document("settings", record.GetSettings).Take(func(in *input) *json.RawMessage { return &in.Settings }).Required().
		CreateDoc("temperature, topP, maxOutputTokens, contextTokens, firstTokenTimeoutMs, idleTimeoutMs, totalTimeoutMs, maxRetries, unsupportedParams, " +
			"requestDefaults, extraBody, allowUnknownPassthrough, disableStreamingWithTools, script, dynamic; nothing else").
		ChangeDoc("Replaces the stored ones")
	o.Document("pricing", record.GetPricing).Take(func(in *input) *json.RawMessage { return &in.Pricing }).Required().
		Doc("US dollars for one million tokens").CreateDoc("inputTokenPer1M, outputTokenPer1M, cachedTokenPer1M: US dollars").
		ChangeDoc("Replaces the stored one")
	o.OptionalText("inputGuardrailKey", record.GetInputGuardrail).Write(func(in *input) **string { return &in.InputGuardrail }).Optional().Clearable().
		CreateDoc("Guardrail of what goes to the model; one that does not exist lets nothing through")
	o.OptionalText("outputGuardrailKey", record.GetOutputGuardrail).Write(func(in *input) **string { return &in.OutputGuardrail }).Optional().Clearable().
		CreateDoc("Guardrail of what the model says")
	resource.Value[catalog.CacheInput](o, "cache", cacheShown).Write(func(in *input) **catalog.CacheInput { return &in.Cache }).Optional().Clearable().
		Doc("Answers that are given again to the same request, null = none").
		CreateDoc("Of category llm: an answer that is not streamed is given again to the same request").
		ChangeDoc("Replaces the stored one; null = no answers are kept")
	o.Document("metadata", record.GetMetadata).Take(func(in *input) *json.RawMessage { return &in.Metadata }).ChangeDoc("Replaces the stored one")
	o.NullableText("createdBy", record.GetCreatedBy)
	o.NullableTime("createdAt", record.GetCreatedAt)
	o.NullableTime("updatedAt", record.GetUpdatedAt)
	return o
}

type input = catalog.ModelInput

// cacheRecord says which answers of a model are kept.
type cacheRecord struct {
	Enabled      bool  `json:"enabled"`
	TTLSeconds   int64 `json:"ttlSeconds" doc:"How long an answer is given again"`
	MaxCacheSize int64 `json:"maxCacheSize" doc:"How many answers are kept on a node"`
}

func cacheShown(model *directorypb.Model) *cacheRecord {
	cache := model.GetCache()
	if cache == nil {
		return nil
	}
	return &cacheRecord{cache.GetEnabled(), cache.GetTtlSeconds(), cache.GetMost()}
}

// modelJSON is a model in an answer that is written by hand.
type modelJSON struct{ json.RawMessage }

// Described implements openapi.Described.
func (modelJSON) Described() (value any, nullable bool) {
	return reflect.Zero(models(nil).Type()).Interface(), false
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
	Models    []modelJSON         `json:"models"`
	Providers []providerJSON      `json:"providers,omitempty"`
}

func (a *api) listModels(ctx context.Context, in *listModelsInput) (*modelListOut, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	models, err := a.Catalog.ListModels(project)
	if err != nil {
		return nil, err
	}
	out := &modelListOut{Object: "list", Data: []*modelEntryRecord{}, Models: []modelJSON{}}
	for _, model := range models {
		driver := a.Catalog.Driver(model, project)
		if in.Category != "" && model.GetCategory() != in.Category || in.ProviderKey != "" && model.GetProviderKey() != in.ProviderKey ||
			in.ProviderDriver != "" && driver != in.ProviderDriver {
			continue
		}
		if model.GetCategory() == categoryLLM {
			out.Data = append(out.Data, modelEntry(model, driver))
		}
		out.Models = append(out.Models, modelJSON{a.models.JSON(model)})
	}
	if in.IncludeProviders == "true" {
		providers, err := a.Catalog.ListProviders(project)
		if err != nil {
			return nil, err
		}
		for _, provider := range providers {
			out.Providers = append(out.Providers, providerJSON{a.providers.JSON(provider)})
		}
	}
	return out, nil
}

const categoryLLM = "llm"

type modelInput struct {
	ID string `path:"id" doc:"Id or key"`
}

// modelReadOut is the record, and beside it what OpenAI clients read of a model.
type modelReadOut struct {
	ID      string     `json:"id" doc:"The key, which requests name the model by"`
	Object  string     `json:"object" enum:"model"`
	Created int64      `json:"created" doc:"Seconds since 1970; 0 of a built-in one"`
	OwnedBy string     `json:"owned_by" doc:"Driver of the provider"`
	Model   *modelJSON `json:"model"`
}

func (a *api) getModel(ctx context.Context, in *modelInput) (*modelReadOut, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	model, err := a.Catalog.Model(ctx, project, in.ID)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	driver := a.Catalog.Driver(model, project)
	entry := modelEntry(model, driver)
	return &modelReadOut{entry.ID, entry.Object, entry.Created, entry.OwnedBy, &modelJSON{a.models.JSON(model)}}, nil
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
