package body

import (
	"net/http"
	"strconv"
	"strings"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// MessageList is a page of messages.
type MessageList struct {
	Page          *nodepb.MessagesReply
	Limit, Offset int
}

// AppendJSON implements endpoint.Appender.
func (l *MessageList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"messages":`...)
	dst = appendMessages(dst, l.Page.State.GetId(), l.Page.Messages)
	return appendPage(dst, pageOf{int(l.Page.State.GetMessageCount()), l.Limit, l.Offset, len(l.Page.Messages)})
}

// Described implements openapi.Described.
func (l *MessageList) Described() (value any, nullable bool) { return messageListSchema{}, false }

// TurnResult is the result of a turn (document 2, "A. Turn result").
type TurnResult struct {
	ConversationID string
	Turn           *conversationpb.TurnResult
	Queued         *conversationpb.Accepted // the message waits for its turn; nil = it had it
}

// HTTPStatus implements endpoint.Statuser.
func (r *TurnResult) HTTPStatus() int {
	if r.Queued != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (r *TurnResult) AppendJSON(dst []byte) []byte {
	if queued := r.Queued; queued != nil {
		dst = wire.AppendMember(dst, `{"runId":`, queued.GetRunId())
		dst = wire.AppendMember(dst, `,"messageId":`, queued.GetUserMessage().GetId())
		dst = append(dst, `,"status":"queued","position":`...)
		return append(strconv.AppendUint(dst, uint64(queued.GetPosition()), 10), '}')
	}
	turn := r.Turn
	dst = append(dst, `{"message":`...)
	dst = AppendMessage(dst, r.ConversationID, turn.GetUserMessage())
	dst = append(dst, `,"response":`...)
	dst = AppendMessage(dst, r.ConversationID, responseOf(turn))
	dst = appendTurnEnd(dst, turn)
	return append(dst, '}')
}

// responseOf is the answer of a turn. Clients always show it, so a turn without an answer gets an empty one with its status.
func responseOf(turn *conversationpb.TurnResult) *conversationpb.Message {
	if answer := turn.GetResponse(); answer != nil {
		return answer
	}
	status := TurnStatus(turn.GetStopReason())
	if status == "" {
		status = statusCompleted
	}
	return emptyAnswer(turn.GetRunId(), turn.GetUserMessage(), status, turn.GetStopReason())
}

// Statuses of a message that is not stored.
const (
	statusCompleted = "completed"
	statusRunning   = "running"
)

// emptyAnswer is an answer without text; it is not stored.
func emptyAnswer(run string, user *conversationpb.Message, status string, reason conversationpb.StopReason) *conversationpb.Message {
	return &conversationpb.Message{
		Id: EmptyAnswerID(run), Role: conversationpb.Role_ASSISTANT, Status: status, StopReason: reason,
		CreatedAt: user.GetCreatedAt(), UpdatedAt: user.GetCreatedAt(),
	}
}

// EmptyAnswerID is the stable id of the answer of a run that left none; no stored message has it.
func EmptyAnswerID(run string) string { return "msg_" + strings.TrimPrefix(run, "run_") }

// Described implements openapi.Described.
func (r *TurnResult) Described() (value any, nullable bool) { return turnResultSchema{}, false }

// appendTurnEnd adds the members for how the turn ended and what it cost, each preceded by a comma.
func appendTurnEnd(dst []byte, turn *conversationpb.TurnResult) []byte {
	if turn.GetUsage() != nil {
		dst = append(dst, `,"usage":`...)
		dst = AppendUsage(dst, turn.GetUsage())
	}
	dst = append(dst, `,"stopReason":`...)
	dst = wire.AppendString(dst, eventlog.StopText(turn.GetStopReason()))
	dst = append(dst, `,"runId":`...)
	dst = wire.AppendString(dst, turn.GetRunId())
	dst = wire.AppendOptional(dst, `,"status":`, TurnStatus(turn.GetStopReason()))
	dst = AppendPendingActions(dst, turn.GetPending())
	if turn.GetBudget() != nil {
		dst = AppendSpent(dst, turn.GetBudget(), turn.GetSpentNanoUsd())
	}
	dst = wire.AppendOptional(dst, `,"conversationTitle":`, turn.GetTitle())
	if turn.GetError() != nil {
		dst = append(dst, `,"error":`...)
		dst = eventlog.AppendTurnError(dst, turn.GetError())
	}
	return dst
}

// AppendSpent adds the budget and the amount spent, each preceded by a comma.
func AppendSpent(dst []byte, budget *conversationpb.Budget, spent int64) []byte {
	dst = append(dst, `,"budget":`...)
	dst = appendBudget(dst, budget)
	dst = append(dst, `,"spentUsd":`...)
	return money.Append(dst, spent)
}

// TurnStatus is the status of a turn that did not simply complete, "" for one that did.
func TurnStatus(reason conversationpb.StopReason) string {
	switch reason {
	case conversationpb.StopReason_END_TURN, conversationpb.StopReason_STOP_UNSPECIFIED:
		return ""
	case conversationpb.StopReason_CANCELLED:
		return "cancelled"
	case conversationpb.StopReason_REQUIRES_ACTION:
		return "requires_action"
	default:
		return "incomplete"
	}
}

func appendMessages(dst []byte, conversationID string, messages []*conversationpb.Message) []byte {
	return wire.AppendList(dst, messages, func(dst []byte, message *conversationpb.Message) []byte {
		return AppendMessage(dst, conversationID, message)
	})
}

// AppendMessage appends a message as JSON.
func AppendMessage(dst []byte, conversationID string, message *conversationpb.Message) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, message.GetId())
	dst = append(dst, `,"conversationId":`...)
	dst = wire.AppendString(dst, conversationID)
	assistant := message.GetRole() == conversationpb.Role_ASSISTANT
	if assistant {
		dst = append(dst, `,"role":"assistant"`...)
	} else {
		dst = append(dst, `,"role":"user"`...)
	}
	dst = append(dst, `,"content":`...)
	dst = wire.AppendString(dst, message.GetContent())
	if assistant {
		dst = wire.AppendOptional(dst, `,"status":`, message.GetStatus())
	}
	dst = wire.AppendOptional(dst, `,"name":`, message.GetName())
	dst = appendToolCalls(dst, message.GetToolCalls())
	dst = appendFileRefs(dst, message.GetFiles())
	dst = append(dst, `,"metadata":`...)
	dst = appendMessageMetadata(dst, message)
	dst = append(dst, `,"createdAt":`...)
	dst = wire.AppendTime(dst, message.GetCreatedAt())
	dst = append(dst, `,"updatedAt":`...)
	dst = wire.AppendTime(dst, message.GetUpdatedAt())
	return append(dst, '}')
}

func appendToolCalls(dst []byte, calls []*conversationpb.ToolCall) []byte {
	if len(calls) == 0 {
		return dst
	}
	dst = append(dst, `,"toolCalls":`...)
	return wire.AppendList(dst, calls, func(dst []byte, call *conversationpb.ToolCall) []byte {
		dst = append(dst, `{"id":`...)
		dst = wire.AppendString(dst, call.GetId())
		dst = wire.AppendMember(dst, `,"name":`, call.GetName())
		dst = wire.AppendMember(dst, `,"arguments":`, call.GetArguments())
		dst = wire.AppendOptional(dst, `,"result":`, call.GetResult())
		dst = wire.AppendOptional(dst, `,"error":`, call.GetError())
		return append(dst, '}')
	})
}

func appendFileRefs(dst []byte, files []*conversationpb.FileRef) []byte {
	if len(files) == 0 {
		return dst
	}
	dst = append(dst, `,"files":`...)
	return wire.AppendList(dst, files, func(dst []byte, file *conversationpb.FileRef) []byte {
		dst = append(dst, `{"id":`...)
		dst = wire.AppendString(dst, file.GetId())
		dst = wire.AppendMember(dst, `,"name":`, file.GetName())
		dst = wire.AppendMember(dst, `,"mimeType":`, file.GetMimeType())
		dst = append(dst, `,"size":`...)
		return append(strconv.AppendInt(dst, file.GetSize(), 10), '}')
	})
}

// AppendUsage appends as JSON what a turn used.
func AppendUsage(dst []byte, usage *conversationpb.Usage) []byte {
	dst = append(dst, `{"inputTokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens(), 10)
	dst = append(dst, `,"outputTokens":`...)
	dst = strconv.AppendInt(dst, usage.GetOutputTokens(), 10)
	dst = append(dst, `,"totalTokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens()+usage.GetOutputTokens(), 10)
	if usage.GetCachedInputTokens() > 0 {
		dst = append(dst, `,"cachedInputTokens":`...)
		dst = strconv.AppendInt(dst, usage.GetCachedInputTokens(), 10)
	}
	if usage.GetPriced() {
		dst = append(dst, `,"costUsd":`...)
		dst = money.Append(dst, usage.GetCostNanoUsd())
	}
	return append(dst, '}')
}
