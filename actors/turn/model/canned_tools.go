package model

import (
	"fmt"
	"slices"
	"strings"
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
	words := keyWords(newestUserText(request.Messages))
	for _, tool := range request.Tools {
		wanted := slices.ContainsFunc(words, func(word string) bool { return slices.Contains(toolWords(tool.Name), word) })
		if !wanted {
			continue
		}
		id := fmt.Sprintf("call_%s_%d_0", request.RunID, request.Step)
		return []ToolCall{{ID: id, Name: tool.Name, Arguments: cannedArguments(tool.Name)}}
	}
	return nil
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

func cannedArguments(name string) string {
	switch name {
	case "ask_user":
		return `{"questions":[{"question":"Tea or coffee?","header":"Drink","options":[{"label":"Tea"},{"label":"Coffee","description":"freshly brewed"}]}]}`
	case "roll_dice":
		return `{"min":1,"max":6}`
	}
	return "{}"
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
	short := Head(text, maxToolQuoted)
	if len(short) < len(text) {
		short += " ..."
	}
	return "> " + strings.ReplaceAll(strings.ToValidUTF8(short, "\uFFFD"), "\n", "\n> ")
}
