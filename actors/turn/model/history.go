package model

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// noResult stands for the result of a tool call that was never recorded, as after a cancelled turn.
const noResult = "No result was recorded for this call."

// history is the part of a request's messages that a provider accepts: what fits the window, without blank messages, every
// tool call followed by exactly one result, no result without its call. Providers refuse a whole request for less.
func history(request *Request) []Message {
	fitting := Fit(request.Messages, Window(request.Agent, request.Tools))
	paired := make([]Message, 0, len(fitting))
	for _, round := range splitRounds(fitting) {
		head, results := round[0], round[1:]
		if len(head.ToolCalls) == 0 {
			if strings.TrimSpace(head.Content) != "" || len(head.Images) > 0 {
				paired = append(paired, head)
			}
			continue
		}
		paired = append(paired, head)
		for _, call := range head.ToolCalls {
			paired = append(paired, resultOf(call, results))
		}
	}
	return paired
}

func resultOf(call ToolCall, results []Message) Message {
	for _, result := range results {
		if result.ToolID == call.ID {
			return result
		}
	}
	return Message{Role: ToolRole, ToolID: call.ID, Content: noResult}
}

// wireName is what every dialect takes as a call's id or a tool's name.
var wireName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// portable is the history in ids and names that every dialect takes, alike in call and result: a conversation outlives a change of its
// agent's model. The names of tools that are offered stay: what is offered is the caller's to name.
func portable(messages []Message, tools []Tool) []Message {
	for i := range messages {
		message := &messages[i]
		message.ToolID = portableID(message.ToolID)
		for at, call := range message.ToolCalls {
			offered := slices.ContainsFunc(tools, func(tool Tool) bool { return tool.Name == call.Name })
			id, name := portableID(call.ID), call.Name
			if !offered && !wireName.MatchString(name) {
				name = portableName(name)
			}
			if id == call.ID && name == call.Name {
				continue
			}
			message.ToolCalls = slices.Clone(message.ToolCalls) // the request's are not ours
			message.ToolCalls[at].ID, message.ToolCalls[at].Name = id, name
		}
	}
	return messages
}

func portableID(id string) string {
	if id == "" || wireName.MatchString(id) {
		return id
	}
	return "call_" + shortHash(id)
}

// portableName keeps of a name what can be read. The hash keeps names apart that are alike then.
func portableName(name string) string {
	const most = 40
	clean := strings.Map(func(c rune) rune {
		if c < 0x80 && wireName.MatchString(string(c)) {
			return c
		}
		return '_'
	}, name)
	return clean[:min(len(clean), most)] + "_" + shortHash(name)
}

func shortHash(text string) string {
	const bytes = 10
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}
