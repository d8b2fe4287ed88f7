package body

import (
	"net/http"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
)

// ResumedTurn is the result of a turn that was resumed (document 2, resolving an action), or a note that it still runs.
type ResumedTurn struct {
	Result         *TurnResult
	ConversationID string
	Running        *conversationpb.Accepted // a turn that outlasted the wait
}

// HTTPStatus implements endpoint.Statuser.
func (r *ResumedTurn) HTTPStatus() int {
	if r.Running != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (r *ResumedTurn) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"response":`...)
	if begun := r.Running; begun != nil {
		answer := emptyAnswer(begun.GetRunId(), begun.GetUserMessage(), statusRunning, conversationpb.StopReason_STOP_UNSPECIFIED)
		dst = AppendMessage(dst, r.ConversationID, answer)
		dst = wire.AppendMember(dst, `,"runId":`, begun.GetRunId())
		return append(dst, `,"status":"running"}`...)
	}
	dst = AppendMessage(dst, r.Result.ConversationID, responseOf(r.Result.Turn))
	return append(appendTurnEnd(dst, r.Result.Turn), '}')
}

// Described implements openapi.Described.
func (r *ResumedTurn) Described() (value any, nullable bool) { return resumedTurnSchema{}, false }

// AppendPendingActions adds ,"pendingActions":[...] when there are any.
func AppendPendingActions(dst []byte, actions []*conversationpb.PendingAction) []byte {
	if len(actions) == 0 {
		return dst
	}
	dst = append(dst, `,"pendingActions":`...)
	return wire.AppendList(dst, actions, appendPendingAction)
}

func appendPendingAction(dst []byte, action *conversationpb.PendingAction) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, action.GetId())
	dst = wire.AppendMember(dst, `,"kind":`, action.GetKind())
	dst = append(dst, `,"status":"pending"`...)
	dst = wire.AppendOptional(dst, `,"runId":`, action.GetRunId())
	dst = wire.AppendOptional(dst, `,"toolName":`, action.GetToolName())
	dst = wire.AppendOptional(dst, `,"toolCallId":`, action.GetToolCallId())
	dst = append(dst, `,"args":`...)
	dst = wire.AppendObjectLine(dst, action.GetArgs())
	if questions := eventlog.Questions(action); questions != nil {
		dst = append(dst, `,"questions":`...)
		dst = append(dst, questions...)
	}
	dst = append(dst, `,"details":`...)
	dst = wire.AppendObjectLine(dst, action.GetDetails())
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
