package models

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
)

// dynamicInput is the body of POST /models/dynamic.
type dynamicInput struct {
	Key         string          `json:"key" doc:"Unique in the project; made of the name when empty"`
	Name        string          `json:"name" required:"true"`
	Description *string         `json:"description"`
	Category    string          `json:"category" enum:"llm,embedding" doc:"That of all its targets; llm when absent"`
	Settings    json.RawMessage `json:"settings" required:"true" doc:"dynamic: {strategy, defaultModelKey, fallbackModelKey, rules, decider, targets}"`
	Metadata    json.RawMessage `json:"metadata"`
}

type dynamicOut struct {
	Model *modelJSON `json:"model"`
}

// createDynamic answers POST /models/dynamic (document 3, 10.6 and 10.10).
func (a *api) createDynamic(ctx context.Context, in *dynamicInput) (*dynamicOut, error) {
	model, err := a.Catalog.CreateDynamicModel(ctx, handler.Maker(ctx), catalog.ModelInput{
		Key: in.Key, Name: &in.Name, Description: in.Description, Category: &in.Category, Settings: in.Settings, Metadata: in.Metadata,
	})
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &dynamicOut{&modelJSON{a.models.JSON(model)}}, nil
}
