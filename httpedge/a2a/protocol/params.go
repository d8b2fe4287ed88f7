package protocol

import (
	"encoding/json"
	"strings"
)

// Message is what a caller says, of either version.
type Message struct {
	ContextID string
	TaskID    string
	Texts     []string        // of its text parts, blank ones too
	Data      json.RawMessage // of its first data part, nil = none
	// RuntimeContext is metadata.runtime_context, nil = none.
	RuntimeContext json.RawMessage
	// Detached asks for the task as soon as it has begun, rather than when it rests.
	Detached bool
	// Push is where its sender wants to be told of the task, nil = nowhere.
	Push *PushConfig
}

// Text is what is said, the text parts joined by a newline (document 3, 9.2).
func (m *Message) Text() string { return strings.Join(m.Texts, "\n") }

// messageParams is the parameters of message/send and SendMessage. Nothing in a message is read strictly but its ids: parts of
// other kinds, and what has the wrong type, are as if they were not there.
type messageParams struct {
	Message struct {
		ContextID json.RawMessage   `json:"contextId"`
		TaskID    json.RawMessage   `json:"taskId"`
		Parts     []json.RawMessage `json:"parts"`
		Metadata  json.RawMessage   `json:"metadata"`
	} `json:"message"`
	Configuration struct {
		Blocking          *bool           `json:"blocking"`          // 0.3
		ReturnImmediately bool            `json:"returnImmediately"` // 1.0
		Push03            json.RawMessage `json:"pushNotificationConfig"`
		Push10            json.RawMessage `json:"taskPushNotificationConfig"`
	} `json:"configuration"`
}

const noText = "message.parts must contain text"

// ReadMessage reads the parameters of a message.
func ReadMessage(params json.RawMessage) (*Message, *Error) {
	var in messageParams
	if !isObject(params) || json.Unmarshal(params, &in) != nil {
		return nil, InvalidParams(noText)
	}
	message := &Message{Detached: in.Configuration.ReturnImmediately}
	if blocking := in.Configuration.Blocking; blocking != nil && !*blocking {
		message.Detached = true
	}
	var failed *Error
	if message.ContextID, failed = readID("contextId", in.Message.ContextID); failed != nil {
		return nil, failed
	}
	if message.TaskID, failed = readID("taskId", in.Message.TaskID); failed != nil {
		return nil, failed
	}
	message.readParts(in.Message.Parts)
	if strings.TrimSpace(message.Text()) == "" && message.Data == nil || len(message.Texts) == 0 && message.TaskID == "" {
		return nil, InvalidParams(noText)
	}
	var metadata struct {
		RuntimeContext json.RawMessage `json:"runtime_context"`
	}
	if isObject(in.Message.Metadata) && json.Unmarshal(in.Message.Metadata, &metadata) == nil && isObject(metadata.RuntimeContext) {
		message.RuntimeContext = metadata.RuntimeContext
	}
	if message.Push, failed = readPush(in.Configuration.Push03); message.Push == nil && failed == nil {
		message.Push, failed = readPush(in.Configuration.Push10)
	}
	if failed != nil {
		return nil, failed
	}
	return message, nil
}

func (m *Message) readParts(parts []json.RawMessage) {
	for _, raw := range parts {
		var part struct {
			Kind *string         `json:"kind"`
			Text *string         `json:"text"`
			Data json.RawMessage `json:"data"`
		}
		if !isObject(raw) || json.Unmarshal(raw, &part) != nil {
			continue
		}
		switch {
		case part.Text != nil && (part.Kind == nil || *part.Kind == "text"):
			m.Texts = append(m.Texts, *part.Text)
		case m.Data == nil && isObject(part.Data) && (part.Kind == nil || *part.Kind == "data"):
			m.Data = part.Data
		}
	}
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// readID reads an id that may be left out.
func readID(name string, raw json.RawMessage) (string, *Error) {
	var id string
	if len(raw) > 0 && string(raw) != "null" && json.Unmarshal(raw, &id) != nil {
		return "", InvalidParams("%s must be a string", name)
	}
	return id, nil
}

// ReadTaskID reads the parameters of what is about one task.
func ReadTaskID(params json.RawMessage) string {
	var in struct {
		ID string `json:"id"`
	}
	if !isObject(params) || json.Unmarshal(params, &in) != nil {
		return ""
	}
	return in.ID
}
