package model

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// openAIResponses speaks the Responses API. Nothing is left with the provider (store is false): the conversation is ours, and
// goes along with each request.
type openAIResponses struct{}

func (openAIResponses) home() string { return openAIHome }

func (openAIResponses) ask(ctx context.Context, question *question, out *recorder) error {
	body, err := responseRequest(question)
	if err != nil {
		return err
	}
	response, err := question.post(ctx, "/responses", question.bearer(), body)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the verdict knows what went wrong with it
	reader := &responseReader{question: question, out: out}
	return question.read(response.Body, reader.event, reader.document)
}

func responseRequest(question *question) (members, error) {
	body := members{"model": question.agent.GetModel().GetName(), "store": false}
	body.with("instructions", question.agent.GetInstructions())
	if question.maxOutput > 0 {
		body["max_output_tokens"] = question.maxOutput
	}
	question.sampling(body)
	items := []any{}
	for i := range question.messages {
		items = append(items, responseItems(&question.messages[i], question.of)...)
	}
	body["input"] = items
	if err := responseSettings(&question.settings, body); err != nil {
		return nil, err
	}
	if len(question.tools) > 0 {
		tools := make([]members, len(question.tools))
		for i, tool := range question.tools {
			// A schema of ours need not keep the rules of strict mode, which is the default here.
			function := members{"type": "function", "name": tool.name, "parameters": tool.schema, "strict": false}
			tools[i] = function.with("description", tool.description).flag("strict", tool.strict)
		}
		body["tools"] = tools
		if question.takes(includeParam) {
			body[includeParam] = []string{"reasoning.encrypted_content"}
		}
		toolSettings(&question.settings, body, func(name string) any { return members{"type": "function", "name": name} })
	}
	return body, nil
}

// responseSettings are what the caller of the turn sets beside tools.
func responseSettings(settings *Settings, body members) error {
	if format := settings.Format; format != nil {
		wanted := members{"type": format.Type}
		if format.Type != jsonObject {
			if _, err := rawjson.Object(format.Schema); err != nil {
				return invalid("the schema of the format is not a JSON object")
			}
			maps.Copy(wanted, formatOf(format))
		}
		body["text"] = members{"format": wanted}
	}
	if settings.Effort != "" {
		body["reasoning"] = members{"effort": settings.Effort}
	}
	return nil
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

func responseItems(message *Message, of string) []any {
	switch {
	case message.Role == ToolRole:
		return []any{members{"type": "function_call_output", "call_id": message.ToolID, "output": message.Content}}
	case len(message.Images) > 0:
		return []any{responseImages(message)}
	}
	role := "user"
	if message.Role == Assistant {
		role = "assistant"
	}
	var items []any
	for _, one := range message.pieces(of) {
		switch {
		case one.call != nil:
			items = append(items, members{"type": "function_call", "call_id": one.call.ID, "name": one.call.Name, "arguments": said(one.call.Arguments)})
		case one.raw != nil:
			items = append(items, one.raw)
		case one.text != "":
			items = append(items, members{"role": role, "content": one.text})
		}
	}
	return items
}

// responseImages is a user's message with images.
func responseImages(message *Message) members {
	var parts []members
	for _, image := range message.Images {
		parts = append(parts, members{"type": "input_image", "detail": cmp.Or(image.Detail, "auto"), "image_url": dataURL(image)})
	}
	if message.Content != "" {
		parts = append(parts, members{"type": "input_text", "text": message.Content})
	}
	return members{"role": "user", "content": parts}
}
