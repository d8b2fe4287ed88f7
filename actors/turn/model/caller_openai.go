package model

import (
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// chatSettings are what the caller of the turn sets, in Chat Completions.
func chatSettings(settings *Settings, params *openai.ChatCompletionNewParams) {
	if format := settings.Format; format != nil {
		if format.Type == "json_object" {
			params.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
		} else {
			wanted := shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: format.Name, Schema: json.RawMessage(format.Schema), Strict: optional(format.Strict),
			}
			if format.Description != "" {
				wanted.Description = param.NewOpt(format.Description)
			}
			params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: wanted}
		}
	}
	params.ReasoningEffort = shared.ReasoningEffort(settings.Effort)
	if len(params.Tools) == 0 { // refused beside settings of tools
		return
	}
	params.ParallelToolCalls = optional(settings.Parallel)
	switch choice := settings.Choice; {
	case choice == nil:
	case choice.Mode == ChooseFunction:
		params.ToolChoice.OfFunctionToolChoice = &openai.ChatCompletionNamedToolChoiceParam{
			Function: openai.ChatCompletionNamedToolChoiceFunctionParam{Name: choice.Name},
		}
	default:
		params.ToolChoice.OfAuto = param.NewOpt(choice.Mode)
	}
}

// responseSettings are what the caller of the turn sets, in Responses.
func responseSettings(settings *Settings, params *responses.ResponseNewParams) error {
	if format := settings.Format; format != nil {
		if format.Type == "json_object" {
			params.Text.Format.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
		} else {
			var schema map[string]any
			if err := json.Unmarshal(format.Schema, &schema); err != nil {
				return invalid("the schema of the format is not a JSON object")
			}
			wanted := &responses.ResponseFormatTextJSONSchemaConfigParam{Name: format.Name, Schema: schema, Strict: optional(format.Strict)}
			if format.Description != "" {
				wanted.Description = param.NewOpt(format.Description)
			}
			params.Text.Format.OfJSONSchema = wanted
		}
	}
	params.Reasoning.Effort = shared.ReasoningEffort(settings.Effort)
	if len(params.Tools) == 0 { // refused beside settings of tools
		return nil
	}
	params.ParallelToolCalls = optional(settings.Parallel)
	switch choice := settings.Choice; {
	case choice == nil:
	case choice.Mode == ChooseFunction:
		params.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: choice.Name}
	default:
		params.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptions(choice.Mode))
	}
	return nil
}

func optional(value *bool) param.Opt[bool] {
	if value == nil {
		return param.Opt[bool]{}
	}
	return param.NewOpt(*value)
}
