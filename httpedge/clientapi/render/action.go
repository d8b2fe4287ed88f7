package render

import (
	"encoding/json"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
)

// AppendActions writes the actions that wait for a person or a client.
func AppendActions(dst []byte, actions []*conversationpb.PendingAction) []byte {
	return wire.AppendList(dst, actions, appendAction)
}

func appendAction(dst []byte, action *conversationpb.PendingAction) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, action.GetId())
	dst = wire.AppendMember(dst, `,"kind":`, action.GetKind())
	dst = append(dst, `,"status":"pending"`...)
	dst = wire.AppendNullable(dst, `,"tool_name":`, action.GetToolName())
	dst = wire.AppendOptional(dst, `,"tool_call_id":`, action.GetToolCallId())
	dst = append(dst, `,"args":`...)
	dst = wire.AppendObjectLine(dst, action.GetArgs())
	if questions := eventlog.Questions(action); questions != nil {
		dst = append(dst, `,"questions":`...)
		dst = append(dst, questions...)
	}
	dst = append(dst, `,"details":`...)
	dst = wire.AppendObjectLine(dst, action.GetDetails())
	if action.GetUnknownOutcome() {
		dst = append(dst, `,"unknown_outcome":true`...)
	}
	dst = AppendTimeOrNull(dst, `,"created_at":`, action.GetCreatedAt())
	dst = AppendTimeOrNull(dst, `,"expires_at":`, action.GetExpiresAt())
	return append(dst, '}')
}

// ActionSchema describes such an action.
type ActionSchema struct {
	ID             string            `json:"id"`
	Kind           string            `json:"kind" doc:"tool_approval, user_question, client_tool"`
	Status         string            `json:"status" enum:"pending"`
	ToolName       *string           `json:"tool_name"`
	ToolCallID     string            `json:"tool_call_id,omitempty"`
	Args           json.RawMessage   `json:"args"`
	Questions      []json.RawMessage `json:"questions,omitempty" doc:"Of a user_question"`
	Details        json.RawMessage   `json:"details" doc:"What the tool wants the person to know"`
	UnknownOutcome bool              `json:"unknown_outcome,omitempty" doc:"The tool may have run already: allow runs it again"`
	CreatedAt      *ISOTime          `json:"created_at" format:"date-time"`
	ExpiresAt      *ISOTime          `json:"expires_at" format:"date-time"`
}
