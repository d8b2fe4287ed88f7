// Package taskpb is the data of background tasks.
package taskpb

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Conversation is the conversation in which a task runs, before its first message.
func Conversation(task, input string, agent *agentpb.Agent) *conversationpb.Create {
	return &conversationpb.Create{Agent: agent.Rules(), Title: title(input), Source: conversationpb.SourceTask, ServerMetadata: link(task)}
}

// titleRunes is the longest title of a task's conversation.
const titleRunes = 80

// title is the title of a task's conversation: the beginning of the input. It needs no model.
func title(input string) string {
	title := strings.Join(strings.Fields(input), " ")
	if utf8.RuneCountInString(title) > titleRunes {
		title = string([]rune(title)[:titleRunes-1]) + "…"
	}
	return title
}

// linkKey is the key in the server's metadata of a task's conversation that names the task.
const linkKey = "parley.taskId"

// link is the server's metadata of a task's conversation.
func link(task string) []byte {
	link, _ := json.Marshal(map[string]string{linkKey: task}) // a map of text
	return link
}

// Of is the id of the task that runs in a conversation, "" = none does.
func Of(conversation *conversationpb.State) string {
	var link map[string]json.RawMessage
	if conversation.GetSource() != conversationpb.SourceTask || json.Unmarshal(conversation.GetServerMetadata(), &link) != nil {
		return ""
	}
	var task string
	if json.Unmarshal(link[linkKey], &task) != nil {
		return ""
	}
	return task
}
