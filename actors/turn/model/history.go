package model

import "strings"

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
