package taskpb

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// titleRunes is the longest title of a task's conversation.
const titleRunes = 80

// Title is the title of a task's conversation: the beginning of the input. It needs no model.
func Title(input string) string {
	title := strings.Join(strings.Fields(input), " ")
	if utf8.RuneCountInString(title) > titleRunes {
		title = string([]rune(title)[:titleRunes-1]) + "…"
	}
	return title
}

// Link is the server's metadata of a task's conversation.
func Link(task string) []byte {
	link, _ := json.Marshal(map[string]string{"parley.taskId": task}) // a map of text
	return link
}
