package model

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// defaultAnthropicOutput is the output cap when nobody sets one: the Messages API insists on a number, and refuses one above
// the model's own limit. Every model takes this one.
const defaultAnthropicOutput = 4096

// anthropicMessages speaks the Messages API.
type anthropicMessages struct{}

func (anthropicMessages) home() string { return "https://api.anthropic.com" }

func (anthropicMessages) ask(ctx context.Context, question *question, out *recorder) error {
	service := anthropic.NewMessageService(anthropicOptions(question)...)
	var response *http.Response
	if err := service.NewStreaming(ctx, messageParams(question), option.WithResponseBodyInto(&response)).Err(); err != nil {
		return err
	}
	reader := &messagesReader{question: question, out: out}
	return question.read(response, reader.event, reader.document)
}

// refused: the service knows all that is sent.
func (anthropicMessages) refused(*question, error) string { return "" }

// anthropicOptions are all the options there are: the service is built without the client, which would read the environment,
// and without tracing, whose switches are in the environment too.
func anthropicOptions(question *question) []option.RequestOption {
	options := []option.RequestOption{
		// The path is the service's; people also write the base URL with it, as for the other API.
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(question.base, "/"), "/v1")),
		option.WithHTTPClient(question.http),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
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

func messageParams(question *question) anthropic.MessageNewParams {
	model := question.agent.GetModel()
	params := anthropic.MessageNewParams{
		Model:     model.GetName(),
		MaxTokens: question.maxOutput,
		Messages:  anthropicTurns(question.messages, question.of),
	}
	if len(question.paused) > 0 {
		var said []anthropic.ContentBlockParamUnion
		for _, one := range question.paused {
			said = anthropicContent(said, piece{text: one.text, raw: one.raw})
		}
		params.Messages = append(params.Messages, anthropic.NewAssistantMessage(said...))
	}
	trimEnd(params.Messages)
	if params.MaxTokens <= 0 {
		params.MaxTokens = defaultAnthropicOutput
	}
	if instructions := instructionsWith(question.agent.GetInstructions(), question.settings.Format); strings.TrimSpace(instructions) != "" {
		for _, one := range cutText(instructions, question.settings.Cache) {
			params.System = append(params.System, *anthropicText(one))
		}
	}
	if model.GetHasTemperature() && question.takes("temperature") {
		params.Temperature = param.NewOpt(model.GetTemperature())
	}
	if model.GetHasTopP() && question.takes("top_p") {
		params.TopP = param.NewOpt(model.GetTopP())
	}
	for _, tool := range question.tools {
		params.Tools = append(params.Tools, anthropicTool(tool))
	}
	if len(params.Tools) > 0 {
		params.ToolChoice = anthropicChoice(&question.settings)
	}
	params.SetExtraFields(question.extra)
	return params
}

// trimEnd takes the blanks off the end of an answer that is to go on: they are refused.
func trimEnd(turns []anthropic.MessageParam) {
	last := turns[len(turns)-1]
	if last.Role != anthropic.MessageParamRoleAssistant || len(last.Content) == 0 {
		return
	}
	if block := last.Content[len(last.Content)-1].OfText; block != nil {
		block.Text = strings.TrimRightFunc(block.Text, unicode.IsSpace)
	}
}

// anthropicChoice is what the caller of the turn wants of tools.
func anthropicChoice(settings *Settings) anthropic.ToolChoiceUnionParam {
	single := param.Opt[bool]{}
	if settings.Parallel != nil {
		single = param.NewOpt(!*settings.Parallel)
	}
	switch {
	case settings.Choice == nil && settings.Parallel == nil:
		return anthropic.ToolChoiceUnionParam{}
	case settings.Choice == nil, settings.Choice.Mode == ChooseAuto:
		return anthropic.ToolChoiceUnionParam{OfAuto: &anthropic.ToolChoiceAutoParam{DisableParallelToolUse: single}}
	case settings.Choice.Mode == ChooseNone:
		return anthropic.ToolChoiceUnionParam{OfNone: &anthropic.ToolChoiceNoneParam{}}
	case settings.Choice.Mode == ChooseFunction:
		return anthropic.ToolChoiceUnionParam{OfTool: &anthropic.ToolChoiceToolParam{
			Name: settings.Choice.Name, DisableParallelToolUse: single,
		}}
	}
	return anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{DisableParallelToolUse: single}}
}

// instructionsWith says the format in words: the API has no setting for it that all of its models know.
func instructionsWith(instructions string, format *Format) string {
	if format == nil {
		return instructions
	}
	wanted := "Answer with one JSON object and nothing else, no code fence around it."
	if len(format.Schema) > 0 {
		wanted += " It must fit this JSON Schema:\n" + string(format.Schema)
	}
	return strings.TrimSpace(instructions + "\n\n" + wanted)
}

func anthropicTool(spec toolSpec) anthropic.ToolUnionParam {
	schema := anthropic.ToolInputSchemaParam{ExtraFields: map[string]any{}}
	for key, value := range spec.schema {
		switch key {
		case "type": // always object
		case "properties":
			schema.Properties = value
		default:
			schema.ExtraFields[key] = value
		}
	}
	tool := anthropic.ToolParam{Name: spec.name, InputSchema: schema}
	if spec.description != "" {
		tool.Description = param.NewOpt(spec.description)
	}
	if spec.strict != nil {
		tool.Strict = param.NewOpt(*spec.strict)
	}
	tool.SetExtraFields(cacheControl(spec.cache))
	return anthropic.ToolUnionParam{OfTool: &tool}
}

// anthropicTurns puts the results of one round of tool calls into one user message, as the API wants it.
func anthropicTurns(messages []Message, of string) []anthropic.MessageParam {
	var turns []anthropic.MessageParam
	for i := 0; i < len(messages); {
		if messages[i].Role != ToolRole {
			turns = append(turns, anthropicTurn(&messages[i], of))
			i++
			continue
		}
		var results []anthropic.ContentBlockParamUnion
		for ; i < len(messages) && messages[i].Role == ToolRole; i++ {
			results = append(results, anthropicResult(messages[i]))
		}
		turns = append(turns, anthropic.NewUserMessage(results...))
	}
	return turns
}

func anthropicTurn(message *Message, of string) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, image := range message.Images {
		block := anthropic.NewImageBlockBase64(image.MIME, base64.StdEncoding.EncodeToString(image.Data))
		if image.URL != "" {
			block = anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: image.URL})
		}
		block.OfImage.SetExtraFields(cacheControl(image.Cache))
		blocks = append(blocks, block)
	}
	for _, one := range message.pieces(of) {
		if one.text != "" && one.text == message.Content && len(message.Cache) > 0 { // else it has a state, and nobody cuts it
			for _, part := range cutText(one.text, message.Cache) {
				blocks = anthropicContent(blocks, part)
			}
			continue
		}
		blocks = anthropicContent(blocks, one)
	}
	if message.Role == Assistant {
		return anthropic.NewAssistantMessage(blocks...)
	}
	return anthropic.NewUserMessage(blocks...)
}

// anthropicContent adds a piece of a message. A blank text is refused.
func anthropicContent(blocks []anthropic.ContentBlockParamUnion, one piece) []anthropic.ContentBlockParamUnion {
	switch {
	case one.call != nil:
		return append(blocks, anthropic.NewToolUseBlock(one.call.ID, json.RawMessage(said(one.call.Arguments)), one.call.Name))
	case one.raw != nil:
		return append(blocks, param.Override[anthropic.ContentBlockParamUnion](one.raw))
	case strings.TrimSpace(one.text) != "":
		return append(blocks, anthropic.ContentBlockParamUnion{OfText: anthropicText(one)})
	}
	return blocks
}

func anthropicText(one piece) *anthropic.TextBlockParam {
	block := &anthropic.TextBlockParam{Text: one.text}
	block.SetExtraFields(cacheControl(one.cache))
	return block
}

func cacheControl(control json.RawMessage) map[string]any {
	if control == nil {
		return nil
	}
	return map[string]any{"cache_control": control}
}

// cutText is a text in the parts that end at points. A part that is blank goes with the next.
func cutText(text string, points []CachePoint) []piece {
	var parts []piece
	begin := 0
	for _, point := range points {
		if point.At <= len(text) && strings.TrimSpace(text[begin:point.At]) != "" {
			parts = append(parts, piece{text: text[begin:point.At], cache: point.Control})
			begin = point.At
		}
	}
	if rest := text[begin:]; strings.TrimSpace(rest) != "" {
		parts = append(parts, piece{text: rest})
	}
	return parts
}

func anthropicResult(message Message) anthropic.ContentBlockParamUnion {
	result := anthropic.ToolResultBlockParam{ToolUseID: message.ToolID}
	if message.Failed {
		result.IsError = anthropic.Bool(true)
	}
	if strings.TrimSpace(message.Content) != "" {
		result.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: message.Content}}}
	}
	if points := message.Cache; len(points) > 0 {
		result.SetExtraFields(cacheControl(points[len(points)-1].Control))
	}
	return anthropic.ContentBlockParamUnion{OfToolResult: &result}
}
