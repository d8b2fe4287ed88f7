package model

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"unicode"
)

// defaultAnthropicOutput is the output cap when nobody sets one: the Messages API insists on a number, and refuses one above
// the model's own limit. Every model takes this one.
const defaultAnthropicOutput = 4096

// anthropicMessages speaks the Messages API.
type anthropicMessages struct{}

func (anthropicMessages) home() string { return "https://api.anthropic.com" }

func (anthropicMessages) ask(ctx context.Context, question *question, out *recorder) error {
	headers := map[string]string{"Anthropic-Version": "2023-06-01"}
	if key := question.agent.GetModel().GetApiKey(); key != "" {
		headers["X-Api-Key"] = key
	}
	path := "/v1/messages" // people also write the base URL with the version, as for the other APIs
	if strings.HasSuffix(strings.TrimRight(question.base, "/"), "/v1") {
		path = "/messages"
	}
	response, err := question.post(ctx, path, headers, messageRequest(question))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the verdict knows what went wrong with it
	reader := &messagesReader{question: question, out: out}
	return question.read(response.Body, reader.event, reader.document)
}

// refused: the service knows all that is sent.
func (anthropicMessages) refused(*question, error) string { return "" }

func messageRequest(question *question) members {
	turns := anthropicTurns(question.messages, question.of)
	if len(question.paused) > 0 {
		said := []any{}
		for _, one := range question.paused {
			said = anthropicContent(said, piece{text: one.text, raw: one.raw})
		}
		turns = append(turns, members{"role": "assistant", "content": said})
	}
	trimEnd(turns[len(turns)-1])
	body := members{"model": question.agent.GetModel().GetName(), "max_tokens": question.maxOutput, "messages": turns}
	if question.maxOutput <= 0 {
		body["max_tokens"] = defaultAnthropicOutput
	}
	if instructions := instructionsWith(question.agent.GetInstructions(), question.settings.Format); strings.TrimSpace(instructions) != "" {
		var system []members
		for _, one := range cutText(instructions, question.settings.Cache) {
			system = append(system, anthropicText(one))
		}
		body["system"] = system
	}
	question.sampling(body)
	if len(question.tools) > 0 {
		tools := make([]members, len(question.tools))
		for i := range question.tools {
			tools[i] = anthropicTool(&question.tools[i])
		}
		body["tools"] = tools
		if choice := anthropicChoice(&question.settings); choice != nil {
			body["tool_choice"] = choice
		}
	}
	return body
}

// trimEnd takes the blanks off the end of an answer that is to go on: they are refused.
func trimEnd(turn members) {
	blocks, _ := turn["content"].([]any)
	if turn["role"] != "assistant" || len(blocks) == 0 {
		return
	}
	if block, ok := blocks[len(blocks)-1].(members); ok && block["type"] == "text" {
		text, _ := block["text"].(string) // always one
		block["text"] = strings.TrimRightFunc(text, unicode.IsSpace)
	}
}

// anthropicChoice is what the caller of the turn wants of tools, nil = nothing.
func anthropicChoice(settings *Settings) members {
	var choice members
	switch {
	case settings.Choice == nil && settings.Parallel == nil:
		return nil
	case settings.Choice == nil, settings.Choice.Mode == ChooseAuto:
		choice = members{"type": "auto"}
	case settings.Choice.Mode == ChooseNone:
		return members{"type": "none"}
	case settings.Choice.Mode == ChooseFunction:
		choice = members{"type": "tool", "name": settings.Choice.Name}
	default:
		choice = members{"type": "any"}
	}
	if settings.Parallel != nil {
		choice["disable_parallel_tool_use"] = !*settings.Parallel
	}
	return choice
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

func anthropicTool(spec *toolSpec) members {
	schema := maps.Clone(spec.schema)
	schema["type"] = "object" // always
	tool := members{"name": spec.name, "input_schema": schema}
	return tool.with("description", spec.description).flag("strict", spec.strict).cached(spec.cache)
}

// anthropicTurns puts the results of one round of tool calls into one user message, as the API wants it.
func anthropicTurns(messages []Message, of string) []members {
	var turns []members
	for i := 0; i < len(messages); {
		if messages[i].Role != ToolRole {
			turns = append(turns, anthropicTurn(&messages[i], of))
			i++
			continue
		}
		var results []members
		for ; i < len(messages) && messages[i].Role == ToolRole; i++ {
			results = append(results, anthropicResult(&messages[i]))
		}
		turns = append(turns, members{"role": "user", "content": results})
	}
	return turns
}

func anthropicTurn(message *Message, of string) members {
	blocks := []any{}
	for _, image := range message.Images {
		source := members{"type": "url", "url": image.URL}
		if image.URL == "" {
			source = members{"type": "base64", "media_type": image.MIME, "data": base64.StdEncoding.EncodeToString(image.Data)}
		}
		blocks = append(blocks, members{"type": "image", "source": source}.cached(image.Cache))
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
	role := "user"
	if message.Role == Assistant {
		role = "assistant"
	}
	return members{"role": role, "content": blocks}
}

// anthropicContent adds a piece of a message. A blank text is refused.
func anthropicContent(blocks []any, one piece) []any {
	switch {
	case one.call != nil:
		return append(blocks, members{"type": "tool_use", "id": one.call.ID, "name": one.call.Name, "input": json.RawMessage(said(one.call.Arguments))})
	case one.raw != nil:
		return append(blocks, one.raw)
	case strings.TrimSpace(one.text) != "":
		return append(blocks, anthropicText(one))
	}
	return blocks
}

func anthropicText(one piece) members {
	return members{"type": "text", "text": one.text}.cached(one.cache)
}

// cached marks a block as the end of what the service is to keep.
func (m members) cached(control json.RawMessage) members {
	if control != nil {
		m["cache_control"] = control
	}
	return m
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

func anthropicResult(message *Message) members {
	result := members{"type": "tool_result", "tool_use_id": message.ToolID}
	if message.Failed {
		result["is_error"] = true
	}
	if strings.TrimSpace(message.Content) != "" {
		result["content"] = []members{{"type": "text", "text": message.Content}}
	}
	if points := message.Cache; len(points) > 0 {
		result.cached(points[len(points)-1].Control)
	}
	return result
}
