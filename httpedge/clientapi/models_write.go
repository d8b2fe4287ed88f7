package clientapi

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/catalog"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/definition"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// maxModels bounds the models, and the providers, of a project beside what its plan says: every node has all of them in memory.
const maxModels = 10_000

type createModelInput struct {
	Name        string          `json:"name" required:"true"`
	Key         string          `json:"key" doc:"Unique in the project; made of the name when empty"`
	Description string          `json:"description"`
	ProviderKey string          `json:"providerKey" required:"true"`
	Category    string          `json:"category" required:"true" enum:"llm,embedding,rerank,stt,tts,ocr,moderation"`
	ModelID     string          `json:"modelId" required:"true" doc:"As the provider knows it"`
	Settings    json.RawMessage `json:"settings" required:"true" doc:"temperature, topP, maxOutputTokens, contextTokens, firstTokenTimeoutMs, idleTimeoutMs, totalTimeoutMs, maxRetries, script"`
	Pricing     json.RawMessage `json:"pricing" required:"true" doc:"inputTokenPer1M, outputTokenPer1M, cachedTokenPer1M: US dollars"`
	Metadata    json.RawMessage `json:"metadata"`
	Multimodal  bool            `json:"isMultimodal"`
	ToolCalls   *bool           `json:"supportsToolCalls" doc:"true when absent"`
}

func (a *API) createModel(ctx context.Context, in *createModelInput) (*modelOut, error) {
	caller := endpoint.CallerFrom(ctx)
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"name", strings.TrimSpace(in.Name) == ""},
		{"providerKey", in.ProviderKey == ""},
		{"category", in.Category == ""},
		{"modelId", strings.TrimSpace(in.ModelID) == ""},
		{"pricing", missing(in.Pricing)},
		{"settings", missing(in.Settings)},
	} {
		if field.missing {
			return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, "%s is required", field.name)
		}
	}
	now := time.Now().UnixMilli()
	model := &directorypb.Model{
		Id: a.IDs.NewID("mdl"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: in.Key,
		SupportsTools: in.ToolCalls == nil || *in.ToolCalls,
		CreatedBy:     caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	update := &updateModelInput{
		Name: &in.Name, Description: given[string]{set: true, value: in.Description}, ProviderKey: &in.ProviderKey,
		Category: &in.Category, ModelID: &in.ModelID, Settings: in.Settings, Pricing: in.Pricing, Metadata: in.Metadata,
		Multimodal: &in.Multimodal,
	}
	if model.Key == "" {
		model.Key = slug(in.Name, "model") + "-" + randomText(6)
	}
	if !isKey(model.Key) || model.Key == "providers" || model.Key == "dynamic" { // which are paths
		return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, textBadKey)
	}
	err := a.createRecord(ctx, catalog.Models, func() (string, proto.Message, error) {
		err := a.applyModel(ctx, update, model)
		if err == nil {
			err = a.roomForModel(caller)
		}
		return catalog.Key(caller.ProjectID, model.GetKey()), model, err
	})
	if errors.Is(err, errTaken) {
		return nil, machine.Fail(failurepb.Code_ALREADY_EXISTS, "A model with this key already exists")
	}
	if err != nil {
		return nil, err
	}
	return &modelOut{modelJSON(model, a.driverOf(ctx, model))}, nil
}

const textBadKey = "key must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit"

func missing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// roomForModel refuses a model above what the tenant's plan has.
func (a *API) roomForModel(caller endpoint.Caller) error {
	if n := len(a.Records.List(catalog.Models, catalog.Key(caller.ProjectID, ""))); n >= maxModels {
		return limitReached("models", n, maxModels)
	}
	limit := caller.Grant.Tier().Limits().MaxModels
	if limit == access.Unlimited {
		return nil
	}
	count := 0
	projects, err := decodeAll[directorypb.Project](a.Records.List(identity.Projects, ""))
	if err != nil {
		return err
	}
	for _, project := range projects {
		if project.GetTenantId() == caller.TenantID {
			count += len(a.Records.List(catalog.Models, catalog.Key(project.GetId(), "")))
		}
	}
	if count >= limit {
		return limitReached("models", count, limit)
	}
	return nil
}

type updateModelInput struct {
	modelInput
	Name        *string         `json:"name"`
	Description given[string]   `json:"description"`
	ProviderKey *string         `json:"providerKey"`
	Category    *string         `json:"category" enum:"llm,embedding,rerank,stt,tts,ocr,moderation"`
	ModelID     *string         `json:"modelId"`
	Settings    json.RawMessage `json:"settings" doc:"Replaces the stored ones"`
	Pricing     json.RawMessage `json:"pricing" doc:"Replaces the stored one"`
	Metadata    json.RawMessage `json:"metadata" doc:"Replaces the stored one"`
	Multimodal  *bool           `json:"isMultimodal"`
	ToolCalls   *bool           `json:"supportsToolCalls"`
}

// updateModel changes what the body names, and nothing else.
func (a *API) updateModel(ctx context.Context, in *updateModelInput) (*modelOut, error) {
	model, err := a.modelRecord(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	changed := new(directorypb.Model)
	err = a.change(ctx, catalog.Models, catalog.Key(model.GetProjectId(), model.GetKey()), changed, func() error {
		changed.UpdatedAt = time.Now().UnixMilli()
		return a.applyModel(ctx, in, changed)
	})
	if err != nil {
		return nil, a.noModel(model, err)
	}
	return &modelOut{modelJSON(changed, a.driverOf(ctx, changed))}, nil
}

// patchModel is updateModel under another method.
func (a *API) patchModel(ctx context.Context, in *updateModelInput) (*modelOut, error) {
	return a.updateModel(ctx, in)
}

// noModel words that a model is not recorded: it is gone, or it is the built-in one.
func (*API) noModel(model *directorypb.Model, err error) error {
	if model.GetCreatedAt() == 0 {
		err = absent(err, failurepb.Code_FORBIDDEN, "The built-in model cannot be changed: create one with its key in its place")
	}
	return absent(err, failurepb.Code_MODEL_NOT_FOUND, textNoModel)
}

func (a *API) deleteModel(ctx context.Context, in *modelInput) (*successOut, error) {
	model, err := a.modelRecord(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err = a.remove(ctx, catalog.Models, catalog.Key(model.GetProjectId(), model.GetKey())); err != nil {
		return nil, a.noModel(model, err)
	}
	return &successOut{true}, nil
}

// applyModel puts what the body names into a model.
func (a *API) applyModel(ctx context.Context, in *updateModelInput, model *directorypb.Model) error {
	texts := []struct {
		name  string
		value *string
		into  *string
	}{
		{"name", in.Name, &model.Name},
		{"providerKey", in.ProviderKey, &model.ProviderKey},
		{"category", in.Category, &model.Category},
		{"modelId", in.ModelID, &model.ModelId},
	}
	for _, text := range texts {
		if text.value == nil {
			continue
		}
		value := strings.TrimSpace(*text.value)
		if value == "" || utf8.RuneCountInString(value) > definition.MaxName {
			return machine.Fail(failurepb.Code_INVALID_REQUEST, "%s must be 1 to %d characters", text.name, definition.MaxName)
		}
		if text.into != &model.Name && strings.ContainsFunc(value, unicode.IsControl) {
			return machine.Fail(failurepb.Code_INVALID_REQUEST, "%s must not hold control characters", text.name)
		}
		*text.into = value
	}
	if !slices.Contains(definition.Categories(), model.GetCategory()) {
		return machine.Fail(failurepb.Code_INVALID_REQUEST, "category must be one of: %s", strings.Join(definition.Categories(), ", "))
	}
	if in.Description.set {
		model.Description = in.Description.value
	}
	if failure := checkAgentTexts(model.GetDescription(), agentActive); failure != nil {
		return failure
	}
	if in.ProviderKey != nil {
		if _, err := a.providerRecord(ctx, model.GetProviderKey()); err != nil {
			return absent(err, failurepb.Code_INVALID_REQUEST, "Provider not found: "+model.GetProviderKey())
		}
	}
	if in.Multimodal != nil {
		model.Multimodal = *in.Multimodal
	}
	if in.ToolCalls != nil {
		model.SupportsTools = *in.ToolCalls
	}
	return applyModelObjects(in, model)
}

func applyModelObjects(in *updateModelInput, model *directorypb.Model) error {
	objects := []struct {
		raw  json.RawMessage
		read func([]byte) ([]byte, *machine.Failure)
		into *[]byte
	}{
		{in.Settings, definition.ReadSettings, &model.Settings},
		{in.Pricing, definition.ReadPricing, &model.Pricing},
		{in.Metadata, func(raw []byte) ([]byte, *machine.Failure) { return definition.ReadObject("metadata", raw) }, &model.Metadata},
	}
	for _, object := range objects {
		if len(object.raw) == 0 {
			continue
		}
		value, failure := object.read(object.raw)
		if failure != nil {
			return failure
		}
		*object.into = value
	}
	return nil
}
