package model

import (
	"context"
	"maps"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

const openAIHome = "https://api.openai.com/v1"

// openAIChat speaks Chat Completions, which many servers imitate. Imitators know max_tokens; the original has replaced it by
// max_completion_tokens, so which one is sent depends on whose server it is.
type openAIChat struct{}

func (openAIChat) home() string { return openAIHome }

// ask reads the answer as the gateway does.
func (openAIChat) ask(ctx context.Context, question *question, out *recorder) error {
	response, err := question.post(ctx, "/chat/completions", question.bearer(), chatRequest(question))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the verdict knows what went wrong with it
	mouth := &chatMouth{reader: chat.NewReader(question.secrets, 1), out: out}
	err = mouth.reader.Stream(response.Body, mouth.hear)
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

func chatRequest(question *question) members {
	body := members{"model": question.agent.GetModel().GetName()}
	if question.takes(provider.StreamOptions) {
		body["stream_options"] = members{"include_usage": true}
	}
	if name := question.capName(); name != "" && question.maxOutput > 0 {
		body[name] = question.maxOutput
	}
	question.sampling(body)
	var messages []members
	if instructions := question.agent.GetInstructions(); instructions != "" {
		messages = append(messages, members{"role": "system", "content": instructions})
	}
	for i := range question.messages {
		messages = append(messages, chatMessage(&question.messages[i], question.of))
	}
	body["messages"] = messages
	chatSettings(&question.settings, body)
	if len(question.tools) > 0 {
		tools := make([]members, len(question.tools))
		for i, tool := range question.tools {
			function := members{"name": tool.name, "parameters": tool.schema}
			tools[i] = members{"type": "function", "function": function.with("description", tool.description).flag("strict", tool.strict)}
		}
		body["tools"] = tools
		toolSettings(&question.settings, body, func(name string) any {
			return members{"type": "function", "function": members{"name": name}}
		})
	}
	return body
}

// chatSettings are what the caller of the turn sets beside tools.
func chatSettings(settings *Settings, body members) {
	if format := settings.Format; format != nil {
		wanted := members{"type": format.Type}
		if format.Type != jsonObject {
			wanted["json_schema"] = formatOf(format)
		}
		body["response_format"] = wanted
	}
	body.with("reasoning_effort", settings.Effort)
}

func chatMessage(message *Message, of string) members {
	switch message.Role {
	case Assistant:
		return chatAnswer(message, of)
	case ToolRole:
		return members{"role": "tool", "tool_call_id": message.ToolID, "content": message.Content}
	default:
		return chatUser(message)
	}
}

func chatAnswer(message *Message, of string) members {
	answer := members{"role": "assistant"}.with("content", message.Content)
	var calls []members
	for _, one := range message.pieces(of) {
		switch {
		case one.call != nil:
			call := members{"id": one.call.ID, "type": "function", "function": members{"name": one.call.Name, "arguments": said(one.call.Arguments)}}
			maps.Copy(call, extraFields(one.raw))
			calls = append(calls, call)
		case one.raw != nil:
			maps.Copy(answer, extraFields(one.raw))
		}
	}
	if len(calls) > 0 {
		answer["tool_calls"] = calls
	}
	return answer
}

// chatUser keeps a message without images a plain string: not every imitator takes parts.
func chatUser(message *Message) members {
	if len(message.Images) == 0 {
		return members{"role": "user", "content": message.Content}
	}
	var parts []members
	for _, image := range message.Images {
		parts = append(parts, members{"type": "image_url", "image_url": members{"url": dataURL(image)}.with("detail", image.Detail)})
	}
	if message.Content != "" {
		parts = append(parts, members{"type": "text", "text": message.Content})
	}
	return members{"role": "user", "content": parts}
}
