package convapi

import (
	"encoding/json"
	"net/http"

	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// resumedTurn is the result of a turn that was resumed (document 2, resolving an action), or that it still runs.
type resumedTurn struct {
	result  *turnResult
	running string // run id of a turn that outlived the wait
}

// HTTPStatus implements endpoint.Statuser.
func (r *resumedTurn) HTTPStatus() int {
	if r.running != "" {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (r *resumedTurn) AppendJSON(dst []byte) []byte {
	if r.running != "" {
		dst = append(dst, `{"runId":`...)
		dst = wire.AppendString(dst, r.running)
		return append(dst, `,"status":"running"}`...)
	}
	start := len(dst)
	if response := r.result.turn.GetResponse(); response != nil {
		dst = append(dst, `,"response":`...)
		dst = appendMessage(dst, r.result.conversationID, response)
	}
	dst = appendTurnEnd(dst, r.result.turn)
	return closeData(dst, start)
}

// Described implements openapi.Described.
func (r *resumedTurn) Described() (value any, nullable bool) { return resumedTurnSchema{}, false }

// appendPendingActions adds ,"pendingActions":[...] when there are any.
func appendPendingActions(dst []byte, actions []*conversationpb.PendingAction) []byte {
	if len(actions) == 0 {
		return dst
	}
	dst = append(dst, `,"pendingActions":[`...)
	for i, action := range actions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPendingAction(dst, action)
	}
	return append(dst, ']')
}

func appendPendingAction(dst []byte, action *conversationpb.PendingAction) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, action.GetId())
	dst = appendMember(dst, `,"kind":`, action.GetKind())
	dst = append(dst, `,"status":"pending"`...)
	dst = appendOptional(dst, `,"runId":`, action.GetRunId())
	dst = appendOptional(dst, `,"toolName":`, action.GetToolName())
	dst = appendOptional(dst, `,"toolCallId":`, action.GetToolCallId())
	dst = append(dst, `,"args":`...)
	dst = appendObject(dst, action.GetArgs())
	if questions := questionsOf(action); questions != nil {
		dst = append(dst, `,"questions":`...)
		dst = append(dst, questions...)
	}
	dst = append(dst, `,"details":`...)
	dst = appendObject(dst, action.GetDetails())
	if action.GetUnknownOutcome() {
		dst = append(dst, `,"unknownOutcome":true`...)
	}
	dst = append(dst, `,"requestedAt":`...)
	dst = wire.AppendTime(dst, action.GetCreatedAt())
	dst = append(dst, `,"createdAt":`...)
	dst = wire.AppendTime(dst, action.GetCreatedAt())
	dst = append(dst, `,"expiresAt":`...)
	dst = wire.AppendTime(dst, action.GetExpiresAt())
	return append(dst, '}')
}

// questionsOf is the list of questions that a person is asked, nil where there is none.
func questionsOf(action *conversationpb.PendingAction) []byte {
	if action.GetKind() != kindQuestion {
		return nil
	}
	for _, object := range [][]byte{action.GetDetails(), action.GetArgs()} {
		var asked struct {
			Questions json.RawMessage `json:"questions"`
		}
		if json.Unmarshal(object, &asked) == nil && len(asked.Questions) > 0 && asked.Questions[0] == '[' {
			return line(asked.Questions)
		}
	}
	return nil
}
