package model

import (
	"cmp"
	"context"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"parley/actors/provider"
)

// openAIResponses speaks the Responses API. Nothing is left with the provider (store is false): the conversation is ours, and
// goes along with each request.
type openAIResponses struct{}

func (openAIResponses) home() string { return openAIHome }

func (openAIResponses) ask(ctx context.Context, question *question, out *recorder) error {
	service := responses.NewResponseService(openAIOptions(question)...)
	params := responseParams(question)
	if err := responseSettings(&question.settings, &params); err != nil {
		return err
	}
	stream := service.NewStreaming(ctx, params)
	defer func() { _ = stream.Close() }() // the verdict knows what went wrong with the body

	refused := false
	for !out.finished && stream.Next() {
		event := stream.Current()
		var err error
		switch event.Type {
		case "response.output_text.delta":
			err = out.Text(event.Delta)
		case "response.refusal.delta":
			refused = true
			err = out.Text(event.Delta)
		case "response.output_item.added":
			if event.Item.Type == "function_call" {
				err = out.toolPiece(event.OutputIndex, event.Item.CallID, event.Item.Name, "")
			}
		case "response.function_call_arguments.delta":
			err = out.toolPiece(event.OutputIndex, "", "", event.Delta)
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			out.thought(event.Delta)
		case "response.completed", "response.incomplete":
			err = responseEnd(&event.Response, refused, out)
		case "response.failed":
			// The object of a failed response is quoted by an error event's name for the same thing.
			return provider.Complaint(0, []byte(event.Response.Error.RawJSON()), question.secrets)
		case "error":
			return provider.Complaint(0, []byte(event.RawJSON()), question.secrets)
		}
		if err != nil {
			return err
		}
	}
	return openAIError(stream.Err(), question.secrets)
}

// responseEnd takes what the last event repeats of the answer: usage, and anything that did not come in pieces.
func responseEnd(response *responses.Response, refused bool, out *recorder) error {
	if response.JSON.Usage.Valid() {
		out.setUsage(Usage{
			InputTokens:       provider.Tokens(response.Usage.JSON.InputTokens.Raw()),
			OutputTokens:      provider.Tokens(response.Usage.JSON.OutputTokens.Raw()),
			CachedInputTokens: provider.Tokens(response.Usage.InputTokensDetails.JSON.CachedTokens.Raw()),
			Known:             true,
		})
	}
	heardText, heardCalls := out.text.Len() > 0, len(out.calls) > 0
	for i := range response.Output {
		item := &response.Output[i]
		if item.Type == "function_call" && !heardCalls {
			if err := out.toolPiece(int64(i), item.CallID, item.Name, item.Arguments.OfString); err != nil {
				return err
			}
		}
		for _, part := range item.Content {
			refused = refused || part.Type == "refusal"
			if heardText {
				continue
			}
			if err := out.Text(part.Text + part.Refusal); err != nil {
				return err
			}
		}
	}
	out.finish(responseStop(response, refused))
	return nil
}

func responseStop(response *responses.Response, refused bool) Stop {
	reason := response.IncompleteDetails.Reason
	switch {
	case refused, reason == "content_filter":
		return StopFilter
	case reason != "":
		return StopLength
	default:
		return StopEnd
	}
}

func responseParams(question *question) responses.ResponseNewParams {
	model := question.agent.GetModel()
	params := responses.ResponseNewParams{Model: model.GetName(), Store: param.NewOpt(false)}
	if question.agent.GetInstructions() != "" {
		params.Instructions = param.NewOpt(question.agent.GetInstructions())
	}
	if question.maxOutput > 0 {
		params.MaxOutputTokens = param.NewOpt(question.maxOutput)
	}
	if model.GetHasTemperature() {
		params.Temperature = param.NewOpt(model.GetTemperature())
	}
	if model.GetHasTopP() {
		params.TopP = param.NewOpt(model.GetTopP())
	}
	for _, message := range question.messages {
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, responseItems(message)...)
	}
	for _, tool := range question.tools {
		// A schema of ours need not keep the rules of strict mode, which is the default here.
		function := responses.FunctionToolParam{Name: tool.name, Parameters: tool.schema, Strict: param.NewOpt(false)}
		if tool.strict != nil {
			function.Strict = optional(tool.strict)
		}
		if tool.description != "" {
			function.Description = param.NewOpt(tool.description)
		}
		if tool.strict != nil {
			function.Strict = param.NewOpt(*tool.strict)
		}
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &function})
	}
	params.SetExtraFields(question.extra)
	return params
}

func responseItems(message Message) []responses.ResponseInputItemUnionParam {
	if message.Role == ToolRole {
		output := responses.ResponseInputItemParamOfFunctionCallOutput(message.Content)
		output.OfFunctionCallOutput.CallID = param.NewOpt(message.ToolID)
		return []responses.ResponseInputItemUnionParam{output}
	}
	var items []responses.ResponseInputItemUnionParam
	if len(message.Images) > 0 {
		return append(items, responseImages(message))
	}
	if message.Content != "" {
		role := responses.EasyInputMessageRoleUser
		if message.Role == Assistant {
			role = responses.EasyInputMessageRoleAssistant
		}
		items = append(items, responses.ResponseInputItemParamOfMessage(message.Content, role))
	}
	for _, call := range message.ToolCalls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(said(call.Arguments), call.ID, call.Name))
	}
	return items
}

// responseImages is a user's message with images.
func responseImages(message Message) responses.ResponseInputItemUnionParam {
	var parts responses.ResponseInputMessageContentListParam
	for _, image := range message.Images {
		parts = append(parts, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			Detail: responses.ResponseInputImageDetail(cmp.Or(image.Detail, "auto")), ImageURL: param.NewOpt(dataURL(image)),
		}})
	}
	if message.Content != "" {
		parts = append(parts, responses.ResponseInputContentParamOfInputText(message.Content))
	}
	return responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser)
}
