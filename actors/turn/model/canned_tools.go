package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"parley/actors/core/letters"
)

// cannedRest goes on with a canned reply that was cut: what the user asked for the last time but one, without what was
// said of it.
func cannedRest(agent string, messages []Message) string {
	n := len(messages)
	if n < 3 || messages[n-1].Role != User || messages[n-2].Role != Assistant || messages[n-3].Role != User {
		return ""
	}
	rest, begun := strings.CutPrefix(cannedReply(agent, messages[n-3].Content), messages[n-2].Content)
	if !begun || messages[n-2].Content == "" || !slices.Contains(keyWords(messages[n-1].Content), "continue") {
		return ""
	}
	return rest
}

// maxToolQuoted is how much of a tool's result a canned reply repeats, in bytes.
const maxToolQuoted = 600

// cannedCalls are the tools that a canned reply wants run: one whose name, or what the demo agent calls it, is in the
// user's words. It asks for nothing twice in a turn.
func cannedCalls(request *Request) []ToolCall {
	if len(request.Tools) == 0 || len(request.Messages) == 0 || request.Messages[len(request.Messages)-1].Role != User {
		return nil
	}
	said := newestUserText(request.Messages)
	words := keyWords(said)
	for _, tool := range request.Tools {
		named := slices.ContainsFunc(words, func(word string) bool { return slices.Contains(toolWords(tool.Name), word) })
		if !request.Settings.Choice.wants(tool.Name, named) {
			continue
		}
		id := fmt.Sprintf("call_%s_%d_0", request.RunID, request.Step)
		return []ToolCall{{ID: id, Name: tool.Name, Arguments: cannedArguments(tool, lastWord(said))}}
	}
	return nil
}

// wants says whether a tool is to be called that the user has named, or not.
func (c *Choice) wants(name string, named bool) bool {
	switch {
	case c == nil:
		return named
	case c.Mode == ChooseFunction:
		return c.Name == name
	}
	return c.Mode == ChooseRequired
}

func lastWord(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// toolWords are the words by which people call a tool: those of its name, and a few more for the ones that the demo
// agent has.
func toolWords(name string) []string {
	switch name {
	case "ask_user":
		return []string{"question", "questions"}
	case "roll_dice":
		return []string{"dice", "roll", "approval", "approve", "approves"}
	case "browser_info":
		return []string{"browser"}
	case "current_time":
		return []string{"time", "clock"}
	}
	return strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '_' || c == '-' })
}

func cannedArguments(tool Tool, word string) string {
	switch tool.Name {
	case "ask_user":
		return `{"questions":[{"question":"Tea or coffee?","header":"Drink","options":[{"label":"Tea"},{"label":"Coffee","description":"freshly brewed"}]}]}`
	case "roll_dice":
		return `{"min":1,"max":6}`
	}
	const deepest = 8
	made, err := json.Marshal(sample(tool.Schema, word, deepest))
	if err != nil || !isObject(string(made)) {
		return "{}"
	}
	return string(made)
}

// sample is a value of the simplest kind that a JSON Schema asks for: only what is required, the user's last word in place of
// texts.
func sample(schema []byte, word string, depth int) any {
	var asked struct {
		Type       json.RawMessage            `json:"type"`
		Enum       []json.RawMessage          `json:"enum"`
		Const      json.RawMessage            `json:"const"`
		Required   []string                   `json:"required"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &asked) != nil || depth == 0 {
		return nil
	}
	switch {
	case len(asked.Const) > 0:
		return asked.Const
	case len(asked.Enum) > 0:
		return asked.Enum[0]
	case len(asked.Properties) > 0 || bytes.Contains(asked.Type, []byte(`"object"`)):
		object := make(map[string]any, len(asked.Required))
		for _, name := range asked.Required {
			object[name] = sample(asked.Properties[name], word, depth-1)
		}
		return object
	case bytes.Contains(asked.Type, []byte(`"string"`)):
		return word
	case bytes.Contains(asked.Type, []byte(`"integer"`)), bytes.Contains(asked.Type, []byte(`"number"`)):
		return 1
	case bytes.Contains(asked.Type, []byte(`"boolean"`)):
		return true
	case bytes.Contains(asked.Type, []byte(`"array"`)):
		return []any{}
	}
	return nil
}

// cannedAfterTools repeats what the tools of this turn came to; "" when none ran since the user spoke.
func cannedAfterTools(messages []Message) string {
	var told []string
	for i := len(messages) - 1; i >= 0 && messages[i].Role == ToolRole; i-- {
		told = append(told, quoteTool(messages[i].Content))
	}
	if len(told) == 0 {
		return ""
	}
	slices.Reverse(told)
	return "This is what came of it:\n\n" + strings.Join(told, "\n\n") + "\n\n" + standIn
}

func quoteTool(text string) string {
	short := letters.Head(text, maxToolQuoted)
	if len(short) < len(text) {
		short += " ..."
	}
	return "> " + strings.ReplaceAll(strings.ToValidUTF8(short, "\uFFFD"), "\n", "\n> ")
}
