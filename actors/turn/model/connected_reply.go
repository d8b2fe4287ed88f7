package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/proto/agentpb"
)

// connectedReply is what a connected agent answered.
type connectedReply struct {
	text  string
	usage Usage
	stop  Stop
}

// methodNotFound is the code by which an agent says that it does not know the version that it was asked in.
const methodNotFound json.Number = "-32601"

var errOtherVersion = errors.New("the connected agent does not know this version of its protocol")

// readReply takes the text from where the connection says that it is, or the protocol.
func readReply(document []byte, connection *agentpb.Connection, speak protocol, secrets provider.Redactor) (*connectedReply, error) {
	if !rawjson.Modest(document, maxDepth, maxReplyValues) {
		return nil, &Error{Code: CodeProviderError, Message: "the connected agent's reply nests too deep or has too many values"}
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var reply any
	if decoder.Decode(&reply) != nil {
		return nil, &Error{Code: CodeProviderError, Message: "the connected agent's reply is not JSON"}
	}
	if connection.GetProtocol() == "a2a" {
		if failure := at(reply, "error"); failure != nil {
			message, isText := at(failure, "message").(string)
			if !isText {
				message = "it does not say why"
			}
			said := &Error{Code: CodeProviderError, Message: "A2A error: " + firstOf(message, secrets)}
			if code, isNumber := at(failure, "code").(json.Number); isNumber && code == methodNotFound {
				said.Err = errOtherVersion
			}
			return nil, said
		}
	}
	read := speak.read
	if connection.GetResponsePath() != "" {
		path, err := parsePath(connection.GetResponsePath())
		if err != nil {
			return nil, err
		}
		read = func(reply any) (string, bool) { return textOf(at(reply, path...)) }
	}
	made := &connectedReply{usage: usageIn(reply), stop: stopIn(reply)}
	var found bool
	if made.text, found = read(reply); !found && made.stop != StopFilter {
		return nil, &Error{Code: CodeProviderError, Message: "the connected agent's reply has no text where it should be"}
	}
	return made, nil
}

// at walks into decoded JSON by names of members and numbers of elements; nil = there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			if elements, is := value.([]any); is {
				value = element(elements, step)
				continue
			}
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			elements, _ := value.([]any)
			if step >= len(elements) {
				return nil
			}
			value = elements[step]
		}
	}
	return value
}

// element is that of a number behind a dot: a.0 is a[0].
func element(elements []any, name string) any {
	index, err := strconv.ParseUint(name, 10, 31)
	if err != nil || index >= uint64(len(elements)) {
		return nil
	}
	return elements[index]
}

// list is the array there, nil = there is none.
func list(value any) []any {
	elements, _ := value.([]any)
	return elements
}

// joined is the texts of parts, of those that have one. They are found when there is one at least.
func joined(parts []any, separator string, is func(part any) bool) (string, bool) {
	var texts []string
	for _, part := range parts {
		text, isText := at(part, "text").(string)
		if isText && (is == nil || is(part)) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, separator), len(texts) > 0
}

func chatText(reply any) (string, bool) {
	content := at(reply, "choices", 0, "message", "content")
	if text, isText := content.(string); isText {
		return text, true
	}
	return joined(list(content), "", nil)
}

func responsesText(reply any) (string, bool) {
	whole, isText := at(reply, "output_text").(string)
	if whole != "" {
		return whole, true
	}
	var parts []any
	for _, item := range list(at(reply, "output")) {
		if at(item, "type") != "reasoning" { // a thought is not said
			parts = append(parts, list(at(item, "content"))...)
		}
	}
	text, found := joined(parts, "", nil)
	return text, found || isText
}

// a2a10Text is a2aText in 1.0, where a member says which of the two it is.
func a2a10Text(reply any) (string, bool) {
	for _, kind := range []string{"task", "message"} {
		if result := at(reply, "result", kind); result != nil {
			return a2aText(map[string]any{"result": result})
		}
	}
	return a2aText(reply)
}

// a2aText reads a message, or a task.
func a2aText(reply any) (string, bool) {
	result := at(reply, "result")
	isText := func(part any) bool {
		kind := at(part, "kind")
		return kind == nil || kind == "text"
	}
	var made []any
	for _, artifact := range list(at(result, "artifacts")) {
		made = append(made, list(at(artifact, "parts"))...)
	}
	there := false
	for _, parts := range [][]any{list(at(result, "parts")), made, list(at(result, "status", "message", "parts"))} {
		text, found := joined(parts, "\n", isText)
		if text != "" {
			return text, true
		}
		there = there || found
	}
	return "", there
}

// textOf is a value that a response path leads to, as text.
func textOf(value any) (string, bool) {
	switch value := value.(type) {
	case nil:
		return "", false
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case []any:
		if text, found := joined(value, "", nil); found {
			return text, true
		}
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// parsePath reads a path of dots and [n]: a.b[0].c.
func parsePath(path string) ([]any, error) {
	wrong := invalid("the connected agent's response path %q is not of the form a.b[0].c", path)
	var steps []any
	for number, segment := range strings.Split(path, ".") {
		name, rest, indexed := strings.Cut(segment, "[")
		if name == "" && (number > 0 || !indexed) {
			return nil, wrong
		}
		if name != "" {
			steps = append(steps, name)
		}
		for indexed {
			var digits string
			if digits, rest, indexed = strings.Cut(rest, "]"); !indexed {
				return nil, wrong
			}
			index, err := strconv.ParseUint(digits, 10, 31)
			if err != nil {
				return nil, wrong
			}
			steps = append(steps, int(index)) //nolint:gosec // it has 31 bits
			if rest == "" {
				break
			}
			if rest, indexed = strings.CutPrefix(rest, "["); !indexed {
				return nil, wrong
			}
		}
	}
	return steps, nil
}

// usageIn is what the call consumed, as either openai kind says it.
func usageIn(reply any) Usage {
	said := at(reply, "usage")
	first := func(names ...string) (count int64, has bool) {
		for _, name := range names {
			if number, isNumber := at(said, name).(json.Number); isNumber {
				return provider.Tokens(number.String()), true
			}
		}
		return 0, false
	}
	input, hasInput := first("prompt_tokens", "input_tokens")
	output, hasOutput := first("completion_tokens", "output_tokens")
	usage := Usage{InputTokens: input, OutputTokens: output, Known: hasInput && hasOutput}
	for _, details := range []string{"prompt_tokens_details", "input_tokens_details"} {
		if number, isNumber := at(said, details, "cached_tokens").(json.Number); isNumber {
			usage.CachedInputTokens = provider.Tokens(number.String())
		}
	}
	return usage
}

// stopIn is why the answer ended, as either openai kind says it.
func stopIn(reply any) Stop {
	reason, _ := at(reply, "choices", 0, "finish_reason").(string)
	if reason == "" {
		reason, _ = at(reply, "incomplete_details", "reason").(string)
	}
	switch reason {
	case "length", "max_output_tokens":
		return StopLength
	case "content_filter":
		return StopFilter
	default:
		return StopEnd
	}
}
