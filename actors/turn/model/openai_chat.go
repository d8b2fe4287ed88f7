package model

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

const openAIHome = "https://api.openai.com/v1"

// openAIChat speaks Chat Completions, which many servers imitate. Imitators know max_tokens; the original has replaced it by
// max_completion_tokens, so which one is sent depends on whose server it is.
type openAIChat struct{}

func (openAIChat) home() string { return openAIHome }

// ask lets the official client make the request, and reads the answer itself, as the gateway does.
func (openAIChat) ask(ctx context.Context, question *question, out *recorder) error {
	client := openai.Client{Options: openAIOptions(question)}
	var response *http.Response
	if err := client.Post(ctx, "chat/completions", chatParams(question), &response, option.WithJSONSet("stream", true)); err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the verdict knows what went wrong with it
	mouth := &chatMouth{reader: chat.NewReader(question.secrets, 1), out: out}
	err := mouth.reader.Stream(response.Body, mouth.hear)
	switch {
	case err != nil || len(out.calls) == 0:
	case mouth.state.size > maxState:
		out.forgotten = true
	default:
		out.said = mouth.state.held(out.calls)
	}
	return err
}

// chatMouth tells a recorder what a reader hears.
type chatMouth struct {
	reader  *chat.Reader
	out     *recorder
	refused bool
	state   chatState
}

func (m *chatMouth) hear(deltas []chat.Delta, _ bool) error {
	switch usage := &m.reader.Usage; {
	case usage.Disbelieved:
		m.out.setUsage(Usage{InputTokens: provider.NoCount})
	case usage.Known || usage.Total > 0:
		m.out.setUsage(Usage{InputTokens: usage.Input, OutputTokens: usage.Output, CachedInputTokens: usage.Cached, Known: usage.Known})
	}
	for i := range deltas {
		if deltas[i].Choice != 0 {
			continue
		}
		if err := m.delta(&deltas[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *chatMouth) delta(delta *chat.Delta) error {
	if delta.Thought != nil || len(delta.Rest) > 0 { // in another form a thought is a sign of life at least
		m.out.thought(delta.Thought.String())
	}
	m.state.take(delta)
	m.refused = m.refused || delta.Refusal != nil
	for _, text := range []rawjson.Text{delta.Text, delta.Refusal} {
		if err := m.out.Text(text.String()); err != nil {
			return err
		}
	}
	for _, call := range delta.Calls {
		if err := m.out.toolPiece(int64(call.Number), call.ID, call.Name, call.Arguments.String()); err != nil {
			return err
		}
	}
	if delta.Finish != "" {
		m.out.finish(chatStop(delta.Finish, m.refused))
	}
	return nil
}

func chatStop(reason chat.Finish, refused bool) Stop {
	switch {
	case reason == chat.Filter, refused:
		return StopFilter
	case reason == chat.Length:
		return StopLength
	case reason == chat.ToolCalls, reason == chat.FunctionCall:
		return StopTools
	default:
		return StopEnd
	}
}

// capName is under which name the output cap goes out.
func (q *question) capName() string {
	return provider.CapName(q.agent.GetModel().GetBaseUrl() == "", q.takes)
}

// refused: some servers do not know how to be asked for usage, and each knows one or both of two names of the output cap.
func (openAIChat) refused(question *question, err error) string {
	sent := []string{provider.StreamOptions}
	if question.maxOutput > 0 {
		sent = append(sent, question.capName())
	}
	return provider.Refused(err, question.takes, sent...)
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

func chatParams(question *question) openai.ChatCompletionNewParams {
	model := question.agent.GetModel()
	params := openai.ChatCompletionNewParams{Model: model.GetName()}
	if question.takes(provider.StreamOptions) {
		params.StreamOptions.IncludeUsage = param.NewOpt(true)
	}
	switch name := question.capName(); {
	case question.maxOutput <= 0:
	case name == provider.MaxCompletionTokens:
		params.MaxCompletionTokens = param.NewOpt(question.maxOutput)
	case name == provider.MaxTokens:
		params.MaxTokens = param.NewOpt(question.maxOutput)
	}
	if model.GetHasTemperature() && question.takes("temperature") {
		params.Temperature = param.NewOpt(model.GetTemperature())
	}
	if model.GetHasTopP() && question.takes("top_p") {
		params.TopP = param.NewOpt(model.GetTopP())
	}
	if question.agent.GetInstructions() != "" {
		params.Messages = append(params.Messages, openai.SystemMessage(question.agent.GetInstructions()))
	}
	for _, message := range question.messages {
		params.Messages = append(params.Messages, chatMessage(&message, question.of))
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

func chatMessage(message *Message, of string) openai.ChatCompletionMessageParamUnion {
	switch message.Role {
	case Assistant:
		answer := openai.ChatCompletionAssistantMessageParam{}
		if message.Content != "" {
			answer.Content.OfString = param.NewOpt(message.Content)
		}
		for _, one := range message.pieces(of) {
			switch {
			case one.call != nil:
				answer.ToolCalls = append(answer.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: chatCall(one)})
			case one.raw != nil:
				answer.SetExtraFields(extraFields(one.raw))
			}
		}
		return openai.ChatCompletionMessageParamUnion{OfAssistant: &answer}
	case ToolRole:
		return openai.ToolMessage(message.Content, message.ToolID)
	default:
		return chatUser(*message)
	}
}

func chatCall(one piece) *openai.ChatCompletionMessageFunctionToolCallParam {
	call := &openai.ChatCompletionMessageFunctionToolCallParam{
		ID:       one.call.ID,
		Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: one.call.Name, Arguments: said(one.call.Arguments)},
	}
	if one.raw != nil {
		call.SetExtraFields(extraFields(one.raw))
	}
	return call
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
