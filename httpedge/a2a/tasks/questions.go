package tasks

import (
	"encoding/json"
	"strings"

	"parley/httpedge/a2a/protocol"
	"parley/proto/conversationpb"
)

// asked is what a question asks, as its tool stored it.
type asked struct {
	Questions []struct {
		Question string `json:"question"`
		Options  []struct {
			Label string `json:"label"`
		} `json:"options"`
	} `json:"questions"`
}

func askedBy(action *conversationpb.PendingAction) asked {
	for _, raw := range [][]byte{action.GetDetails(), action.GetArgs()} {
		var in asked
		if json.Unmarshal(raw, &in) == nil && len(in.Questions) > 0 {
			return in
		}
	}
	return asked{}
}

// Waiting is the status of a turn that waits for somebody: the questions as a text, and all that it waits for as data.
func Waiting(pending []*conversationpb.PendingAction, at int64) protocol.Status {
	type action struct {
		ID       string          `json:"id"`
		Kind     string          `json:"kind"`
		ToolName string          `json:"tool_name"`
		Details  json.RawMessage `json:"details,omitempty"`
	}
	var data struct {
		Actions []action `json:"pending_actions"`
	}
	var lines []string
	for _, one := range pending {
		lines = append(lines, noticeOf(one)...)
		shown := action{ID: one.GetId(), Kind: one.GetKind(), ToolName: one.GetToolName()}
		if json.Valid(one.GetDetails()) {
			shown.Details = one.GetDetails()
		}
		data.Actions = append(data.Actions, shown)
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		encoded = nil // of details that no rule stores
	}
	return protocol.Status{State: protocol.InputRequired, At: at, Notice: strings.Join(lines, "\n"), Data: encoded}
}

func noticeOf(action *conversationpb.PendingAction) []string {
	switch action.GetKind() {
	case conversationpb.KindQuestion:
		var lines []string
		for _, question := range askedBy(action).Questions {
			line := question.Question
			for i, option := range question.Options {
				separator := "; "
				if i == 0 {
					separator = " ("
				}
				line += separator + option.Label
			}
			if len(question.Options) > 0 {
				line += ")"
			}
			lines = append(lines, line)
		}
		if len(lines) > 0 {
			return lines
		}
		return []string{"The agent asks a question"}
	case conversationpb.KindApproval:
		return []string{"The agent waits until somebody approves a call of " + action.GetToolName()}
	default:
		return []string{"The agent waits for the result of " + action.GetToolName()}
	}
}

// Question is the first question that a turn waits for, nil when it waits for none.
func Question(pending []*conversationpb.PendingAction) *conversationpb.PendingAction {
	for _, action := range pending {
		if action.GetKind() == conversationpb.KindQuestion {
			return action
		}
	}
	return nil
}

// Answers reads what a message answers to a question. An action that asks several things takes a text part for each, or a data
// part with the answers by question.
func Answers(action *conversationpb.PendingAction, message *protocol.Message) ([]byte, *protocol.Error) {
	if message.Data != nil {
		return message.Data, nil
	}
	questions, texts := askedBy(action).Questions, message.Texts
	given := make(map[string]string, len(questions))
	switch {
	case len(questions) == 0:
		given["answer"] = message.Text()
	case len(questions) == 1:
		given[questions[0].Question] = message.Text()
	case len(questions) == len(texts):
		for i := range questions {
			given[questions[i].Question] = texts[i]
		}
	default:
		return nil, protocol.InvalidParams("the task asks %d questions: send a text part for each, or a data part with the answers by question",
			len(questions))
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return nil, protocol.InvalidParams("the answer cannot be read")
	}
	return encoded, nil
}
