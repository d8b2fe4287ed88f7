package convapi

import (
	"strconv"
	"strings"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// messageList is a page of messages.
type messageList struct {
	page          *nodepb.MessagesReply
	limit, offset int
}

// AppendJSON implements endpoint.Appender.
func (l *messageList) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"messages":`...)
	dst = appendMessages(dst, l.page.State.GetId(), l.page.Messages)
	return appendPage(dst, pageOf{int(l.page.State.GetMessageCount()), l.limit, l.offset, len(l.page.Messages)})
}

// Described implements openapi.Described.
func (l *messageList) Described() (value any, nullable bool) { return messageListSchema{}, false }

// turnResult is the result of a turn (document 2, "A. Turn result").
type turnResult struct {
	conversationID string
	turn           *conversationpb.TurnResult
}

// AppendJSON implements endpoint.Appender.
func (r *turnResult) AppendJSON(dst []byte) []byte {
	turn := r.turn
	dst = append(dst, `{"message":`...)
	dst = appendMessage(dst, r.conversationID, turn.GetUserMessage())
	dst = append(dst, `,"response":`...)
	dst = appendMessage(dst, r.conversationID, responseOf(turn))
	dst = appendTurnEnd(dst, turn)
	return append(dst, '}')
}

// responseOf is the answer of a turn. Clients always show it, so a turn without an answer gets an empty one with its status.
func responseOf(turn *conversationpb.TurnResult) *conversationpb.Message {
	if answer := turn.GetResponse(); answer != nil {
		return answer
	}
	status := turnStatus(turn.GetStopReason())
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
		Id: emptyAnswerID(run), Role: conversationpb.Role_ASSISTANT, Status: status, StopReason: reason,
		CreatedAt: user.GetCreatedAt(), UpdatedAt: user.GetCreatedAt(),
	}
}

// emptyAnswerID is the stable id of the answer of a run that left none; no stored message has it.
func emptyAnswerID(run string) string { return "msg_" + strings.TrimPrefix(run, "run_") }

// Described implements openapi.Described.
func (r *turnResult) Described() (value any, nullable bool) { return turnResultSchema{}, false }

// appendTurnEnd adds the members for how the turn ended and what it cost, each preceded by a comma.
func appendTurnEnd(dst []byte, turn *conversationpb.TurnResult) []byte {
	if turn.GetUsage() != nil {
		dst = append(dst, `,"usage":`...)
		dst = appendUsage(dst, turn.GetUsage())
	}
	dst = append(dst, `,"stopReason":`...)
	dst = wire.AppendString(dst, eventlog.StopText(turn.GetStopReason()))
	dst = append(dst, `,"runId":`...)
	dst = wire.AppendString(dst, turn.GetRunId())
	dst = wire.AppendOptional(dst, `,"status":`, turnStatus(turn.GetStopReason()))
	dst = appendPendingActions(dst, turn.GetPending())
	if turn.GetBudget() != nil {
		dst = appendSpent(dst, turn.GetBudget(), turn.GetSpentNanoUsd())
	}
	dst = wire.AppendOptional(dst, `,"conversationTitle":`, turn.GetTitle())
	if turn.GetError() != nil {
		dst = append(dst, `,"error":`...)
		dst = eventlog.AppendTurnError(dst, turn.GetError())
	}
	return dst
}

// appendSpent adds the budget and the amount spent, each preceded by a comma.
func appendSpent(dst []byte, budget *conversationpb.Budget, spent int64) []byte {
	dst = append(dst, `,"budget":`...)
	dst = appendBudget(dst, budget)
	dst = append(dst, `,"spentUsd":`...)
	return money.Append(dst, spent)
}

// turnStatus is the status of a turn that did not simply complete, "" for one that did.
func turnStatus(reason conversationpb.StopReason) string {
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
		return appendMessage(dst, conversationID, message)
	})
}

func appendMessage(dst []byte, conversationID string, message *conversationpb.Message) []byte {
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

func appendUsage(dst []byte, usage *conversationpb.Usage) []byte {
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
