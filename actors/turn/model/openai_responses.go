package model

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"
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
	var response *http.Response
	if err := service.NewStreaming(ctx, params, option.WithResponseBodyInto(&response)).Err(); err != nil {
		return err
	}
	reader := &responseReader{question: question, out: out}
	return question.read(response, reader.event, reader.document)
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
	if model.GetHasTemperature() && question.takes("temperature") {
		params.Temperature = param.NewOpt(model.GetTemperature())
	}
	if model.GetHasTopP() && question.takes("top_p") {
		params.TopP = param.NewOpt(model.GetTopP())
	}
	for _, message := range question.messages {
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, responseItems(&message, question.of)...)
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
	if len(question.tools) > 0 && question.takes(includeParam) {
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	params.SetExtraFields(question.extra)
	return params
}

const includeParam = "include"

// refused: not all services let a model be asked for the thoughts that go back. Not all have some, and not all imitators know how to be asked.
func (openAIResponses) refused(question *question, err error) string {
	failed, ok := errors.AsType[*provider.Failure](err)
	if !ok || failed.InStream || failed.Status != http.StatusBadRequest && failed.Status != http.StatusUnprocessableEntity {
		return ""
	}
	words := strings.ToLower(failed.Param + " " + failed.Message)
	asked := len(question.tools) > 0 && question.takes(includeParam)
	if asked && (strings.Contains(words, includeParam) || strings.Contains(words, "encrypted content is not supported")) {
		return includeParam
	}
	return ""
}

func responseItems(message *Message, of string) []responses.ResponseInputItemUnionParam {
	if message.Role == ToolRole {
		output := responses.ResponseInputItemParamOfFunctionCallOutput(message.Content)
		output.OfFunctionCallOutput.CallID = param.NewOpt(message.ToolID)
		return []responses.ResponseInputItemUnionParam{output}
	}
	var items []responses.ResponseInputItemUnionParam
	if len(message.Images) > 0 {
		return append(items, responseImages(*message))
	}
	role := responses.EasyInputMessageRoleUser
	if message.Role == Assistant {
		role = responses.EasyInputMessageRoleAssistant
	}
	for _, one := range message.pieces(of) {
		switch {
		case one.call != nil:
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(said(one.call.Arguments), one.call.ID, one.call.Name))
		case one.raw != nil:
			items = append(items, param.Override[responses.ResponseInputItemUnionParam](one.raw))
		case one.text != "":
			items = append(items, responses.ResponseInputItemParamOfMessage(one.text, role))
		}
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
