package model

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"parley/actors/provider"
)

const openAIHome = "https://api.openai.com/v1"

// openAIChat speaks Chat Completions, which many servers imitate. Imitators know max_tokens; the original has replaced it by
// max_completion_tokens, so which one is sent depends on whose server it is.
type openAIChat struct{}

func (openAIChat) home() string { return openAIHome }

func (openAIChat) ask(ctx context.Context, question *question, out *recorder) error {
	service := openai.NewChatCompletionService(openAIOptions(question)...)
	stream := service.NewStreaming(ctx, chatParams(question))
	defer func() { _ = stream.Close() }() // the verdict knows what went wrong with the body

	refused := false
	for stream.Next() {
		chunk := stream.Current()
		if chunk.JSON.Usage.Valid() {
			out.setUsage(Usage{
				InputTokens:       provider.Tokens(chunk.Usage.JSON.PromptTokens.Raw()),
				OutputTokens:      provider.Tokens(chunk.Usage.JSON.CompletionTokens.Raw()),
				CachedInputTokens: provider.Tokens(chunk.Usage.PromptTokensDetails.JSON.CachedTokens.Raw()),
				Known:             true,
			})
		}
		for i := range chunk.Choices {
			choice := &chunk.Choices[i]
			if choice.Index != 0 {
				continue
			}
			refused = refused || choice.Delta.Refusal != ""
			if err := chatDelta(&choice.Delta, out); err != nil {
				return err
			}
			if choice.FinishReason != "" {
				out.finish(chatStop(choice.FinishReason, refused))
			}
		}
	}
	return openAIError(stream.Err(), question.secrets)
}

func chatDelta(delta *openai.ChatCompletionChunkChoiceDelta, out *recorder) error {
	if thought, ok := chatThought(delta); ok {
		out.thought(thought)
	}
	if err := out.Text(delta.Content); err != nil {
		return err
	}
	if err := out.Text(delta.Refusal); err != nil {
		return err
	}
	for _, call := range delta.ToolCalls {
		if err := out.toolPiece(call.Index, call.ID, call.Function.Name, call.Function.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// chatThought is a piece of what the model thinks, under the names that servers have given it. The client knows none of
// them and calls every field that it does not know invalid, so only its bytes count.
func chatThought(delta *openai.ChatCompletionChunkChoiceDelta) (string, bool) {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		raw := delta.JSON.ExtraFields[name].Raw()
		if raw == "" || raw == "null" {
			continue
		}
		var thought string
		_ = json.Unmarshal([]byte(raw), &thought) // in another form it is a sign of life at least
		return thought, true
	}
	return "", false
}

func chatStop(reason string, refused bool) Stop {
	switch {
	case reason == "content_filter", refused:
		return StopFilter
	case reason == "length":
		return StopLength
	case reason == "tool_calls", reason == "function_call":
		return StopTools
	default:
		return StopEnd
	}
}

// openAIOptions are all the options there are: the service is built without the client, which would read the environment.
func openAIOptions(question *question) []option.RequestOption {
	options := []option.RequestOption{
		option.WithBaseURL(question.base),
		option.WithHTTPClient(question.http),
		option.WithMaxRetries(0),
	}
	if key := question.agent.GetModel().GetApiKey(); key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	for name, value := range question.agent.GetModel().GetHeaders() {
		options = append(options, option.WithHeader(name, value))
	}
	for name, values := range question.query {
		for _, value := range values {
			options = append(options, option.WithQueryAdd(name, value))
		}
	}
	return options
}

// openAIError finds an error event in what the client made of it.
func openAIError(err error, secrets provider.Redactor) error {
	if event, ok := errors.AsType[*ssestream.StreamError](err); ok {
		return provider.Complaint(0, event.Event.Data, secrets)
	}
	return err
}

func chatParams(question *question) openai.ChatCompletionNewParams {
	model := question.agent.GetModel()
	params := openai.ChatCompletionNewParams{
		Model:         model.GetName(),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if question.maxOutput > 0 && model.GetBaseUrl() == "" {
		params.MaxCompletionTokens = param.NewOpt(question.maxOutput)
	}
	if question.maxOutput > 0 && model.GetBaseUrl() != "" {
		params.MaxTokens = param.NewOpt(question.maxOutput)
	}
	if model.GetHasTemperature() {
		params.Temperature = param.NewOpt(model.GetTemperature())
	}
	if model.GetHasTopP() {
		params.TopP = param.NewOpt(model.GetTopP())
	}
	if question.agent.GetInstructions() != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(question.agent.GetInstructions()))
	}
	for _, message := range question.messages {
		params.Messages = append(params.Messages, chatMessage(message))
	}
	for _, tool := range question.tools {
		function := shared.FunctionDefinitionParam{Name: tool.name, Parameters: tool.schema, Strict: optional(tool.strict)}
		if tool.description != "" {
			function.Description = param.NewOpt(tool.description)
		}
		if tool.strict != nil {
			function.Strict = param.NewOpt(*tool.strict)
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	chatSettings(&question.settings, &params)
	params.SetExtraFields(question.extra)
	return params
}

func chatMessage(message Message) openai.ChatCompletionMessageParamUnion {
	switch message.Role {
	case Assistant:
		answer := openai.ChatCompletionAssistantMessageParam{}
		if message.Content != "" {
			answer.Content.OfString = param.NewOpt(message.Content)
		}
		for _, call := range message.ToolCalls {
			answer.ToolCalls = append(answer.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID:       call.ID,
					Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: said(call.Arguments)},
				},
			})
		}
		return openai.ChatCompletionMessageParamUnion{OfAssistant: &answer}
	case ToolRole:
		return openai.ToolMessage(message.Content, message.ToolID)
	default:
		return chatUser(message)
	}
}

// chatUser keeps a message without images a plain string: not every imitator takes parts.
func chatUser(message Message) openai.ChatCompletionMessageParamUnion {
	if len(message.Images) == 0 {
		return openai.UserMessage(message.Content)
	}
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, image := range message.Images {
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: dataURL(image), Detail: image.Detail}))
	}
	if message.Content != "" {
		parts = append(parts, openai.TextContentPart(message.Content))
	}
	return openai.UserMessage(parts)
}
