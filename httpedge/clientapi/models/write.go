package models

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/proto/directorypb"
)

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

func (a *api) createModel(ctx context.Context, in *createModelInput) (*modelOut, error) {
	return a.modelAnswer(a.Catalog.CreateModel(ctx, handler.Maker(ctx), catalog.ModelInput{
		Key: in.Key, Name: &in.Name, Description: &in.Description, ProviderKey: &in.ProviderKey, Category: &in.Category,
		ModelID: &in.ModelID, Settings: in.Settings, Pricing: in.Pricing, Metadata: in.Metadata, Multimodal: &in.Multimodal,
		ToolCalls: in.ToolCalls,
	}))
}

func (a *api) modelAnswer(model *directorypb.Model, err error) (*modelOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &modelOut{modelJSON(model, a.Catalog.Driver(model, model.GetProjectId()))}, nil
}

type updateModelInput struct {
	modelInput
	Name        handler.Set[string]   `json:"name"`
	Description handler.Given[string] `json:"description"`
	ProviderKey handler.Set[string]   `json:"providerKey"`
	Category    handler.Set[string]   `json:"category" enum:"llm,embedding,rerank,stt,tts,ocr,moderation"`
	ModelID     handler.Set[string]   `json:"modelId"`
	Settings    json.RawMessage       `json:"settings" doc:"Replaces the stored ones"`
	Pricing     json.RawMessage       `json:"pricing" doc:"Replaces the stored one"`
	Metadata    json.RawMessage       `json:"metadata" doc:"Replaces the stored one"`
	Multimodal  handler.Set[bool]     `json:"isMultimodal"`
	ToolCalls   handler.Set[bool]     `json:"supportsToolCalls"`
}

// updateModel changes only the fields that the body names.
func (a *api) updateModel(ctx context.Context, in *updateModelInput) (*modelOut, error) {
	return a.modelAnswer(a.Catalog.UpdateModel(ctx, handler.Maker(ctx), in.ID, catalog.ModelInput{
		Name: in.Name.Pointer(), Description: in.Description.Pointer(), ProviderKey: in.ProviderKey.Pointer(), Category: in.Category.Pointer(),
		ModelID: in.ModelID.Pointer(), Settings: in.Settings, Pricing: in.Pricing, Metadata: in.Metadata, Multimodal: in.Multimodal.Pointer(),
		ToolCalls: in.ToolCalls.Pointer(),
	}))
}

// patchModel is updateModel under another method.
func (a *api) patchModel(ctx context.Context, in *updateModelInput) (*modelOut, error) {
	return a.updateModel(ctx, in)
}

func (a *api) deleteModel(ctx context.Context, in *modelInput) (*handler.Success, error) {
	return handler.Deleted(a.Catalog.DeleteModel(ctx, handler.Maker(ctx), in.ID))
}
