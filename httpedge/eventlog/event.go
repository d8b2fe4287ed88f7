package eventlog

import (
	"strconv"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// Append writes an event of the log, on one line: {seq, type, data, run_id, created_at}.
func Append(dst []byte, event *conversationpb.Event, dialect Dialect) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, event.GetSeq(), 10)
	dst = append(dst, `,"type":`...)
	dst = wire.AppendString(dst, event.PublicType())
	dst = append(dst, `,"data":`...)
	dst = appendData(dst, event, dialect)
	dst = wire.AppendOptional(dst, `,"run_id":`, event.GetRunId())
	dst = append(dst, `,"created_at":`...)
	return append(wire.AppendTime(dst, event.GetCreatedAt()), '}')
}

// AppendAll writes a list of events.
func AppendAll(dst []byte, events []*conversationpb.Event, dialect Dialect) []byte {
	return wire.AppendList(dst, events, func(dst []byte, event *conversationpb.Event) []byte {
		return Append(dst, event, dialect)
	})
}

// appendData writes an event's data, in snake_case as document 2 shows it for agent.message.
func appendData(dst []byte, event *conversationpb.Event, dialect Dialect) []byte {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_UserMessage:
		return appendUserMessageData(dst, body.UserMessage.GetMessage(), body.UserMessage.GetTitle())
	case *conversationpb.Event_AgentMessage:
		return appendAgentMessageData(dst, body.AgentMessage.GetMessage(), dialect)
	case *conversationpb.Event_TurnStarted:
		return appendTurnStarted(dst, body.TurnStarted.GetLease())
	case *conversationpb.Event_TurnResumed:
		return appendTurnStarted(dst, body.TurnResumed.GetLease())
	case *conversationpb.Event_TurnPaused:
		return appendTurnPaused(dst, body.TurnPaused.GetAnswer())
	case *conversationpb.Event_TurnEnded:
		return appendTurnEnded(dst, body.TurnEnded, dialect)
	case *conversationpb.Event_TurnRecovered:
		dst = append(dst, `{"attempt":`...)
		dst = strconv.AppendUint(dst, uint64(body.TurnRecovered.GetAttempt()), 10)
		dst = wire.AppendOptional(dst, `,"node":`, body.TurnRecovered.GetNode())
		return append(dst, '}')
	case *conversationpb.Event_Updated:
		return appendUpdated(dst, body.Updated, dialect)
	default:
		return appendPartData(dst, event, dialect)
	}
}

// appendUserMessageData writes a message, and the conversation's title if it was derived from the message.
func appendUserMessageData(dst []byte, message *conversationpb.Message, title string) []byte {
	dst = append(dst, `{"content":`...)
	dst = wire.AppendString(dst, message.GetContent())
	dst = append(dst, `,"message_id":`...)
	dst = wire.AppendString(dst, message.GetId())
	if len(message.GetMetadata()) > len("{}") {
		dst = append(dst, `,"metadata":`...)
		dst = wire.AppendObject(dst, message.GetMetadata())
	}
	if message.GetEdited() {
		dst = append(dst, `,"edited":true`...)
		dst = wire.AppendOptional(dst, `,"edited_from":`, message.GetEditedFrom())
	}
	dst = wire.AppendOptional(dst, `,"title":`, title)
	return append(AppendFiles(dst, message.GetFiles()), '}')
}

func appendAgentMessageData(dst []byte, message *conversationpb.Message, dialect Dialect) []byte {
	dst = append(dst, `{"content":`...)
	dst = wire.AppendString(dst, message.GetContent())
	dst = append(dst, `,"message_id":`...)
	dst = wire.AppendString(dst, message.GetId())
	dst = append(dst, `,"stop_reason":`...)
	dst = wire.AppendString(dst, dialect.stopReason(message.GetStopReason()))
	dst = wire.AppendOptional(dst, `,"status":`, message.GetStatus())
	dst = wire.AppendOptional(dst, `,"in_reply_to":`, message.GetInReplyTo())
	dst = wire.AppendOptional(dst, `,"regenerated_from":`, message.GetRegeneratedFrom())
	return append(appendUsageData(dst, message.GetUsage()), '}')
}

// appendTurnStarted writes the mode of turns other than the answer to a new message.
func appendTurnStarted(dst []byte, lease *conversationpb.Lease) []byte {
	start := len(dst)
	dst = wire.AppendOptional(dst, `,"mode":`, modeText(lease.GetMode()))
	if attempt := lease.GetAttempt(); attempt > 0 {
		dst = append(dst, `,"attempt":`...)
		dst = strconv.AppendUint(dst, uint64(attempt), 10)
	}
	return wire.Close(dst, start)
}

func modeText(mode conversationpb.Mode) string {
	switch mode {
	case conversationpb.Mode_REGENERATE:
		return "regenerate"
	case conversationpb.Mode_EDIT:
		return "edit"
	case conversationpb.Mode_CONTINUE:
		return "continue"
	case conversationpb.Mode_RESOLVE:
		return "resolve"
	default:
		return ""
	}
}

// appendUsageData adds the usage, if any, preceded by a comma.
func appendUsageData(dst []byte, usage *conversationpb.Usage) []byte {
	if usage == nil {
		return dst
	}
	dst = append(dst, `,"usage":{"input_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens(), 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetOutputTokens(), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, usage.GetInputTokens()+usage.GetOutputTokens(), 10)
	if usage.GetCachedInputTokens() > 0 {
		dst = append(dst, `,"cached_input_tokens":`...)
		dst = strconv.AppendInt(dst, usage.GetCachedInputTokens(), 10)
	}
	if usage.GetPriced() {
		dst = append(dst, `,"cost_usd":`...)
		dst = money.Append(dst, usage.GetCostNanoUsd())
	}
	return append(dst, '}')
}

func appendTurnEnded(dst []byte, ended *conversationpb.TurnEnded, dialect Dialect) []byte {
	dst = append(dst, `{"stop_reason":`...)
	dst = wire.AppendString(dst, dialect.stopReason(ended.GetStopReason()))
	dst = appendUsageData(dst, ended.GetUsage())
	if ended.GetError() != nil {
		dst = append(dst, `,"error":`...)
		dst = AppendTurnError(dst, ended.GetError())
	}
	if ended.GetContinuable() {
		dst = append(dst, `,"continuable":true`...)
	}
	return append(dst, '}')
}

// appendUpdated writes the changed fields of a conversation, under the names of its record. The runtime context is private to
// the agent and not shown.
func appendUpdated(dst []byte, updated *conversationpb.Updated, dialect Dialect) []byte {
	start, patch := len(dst), updated.GetPatch()
	if patch.Title != nil {
		dst = append(dst, `,"title":`...)
		dst = wire.AppendString(dst, patch.GetTitle())
	}
	if updated.GetTitleGenerated() {
		dst = append(dst, `,"title_generated":true`...)
	}
	if patch.Pinned != nil {
		dst = append(dst, `,"pinned":`...)
		dst = strconv.AppendBool(dst, patch.GetPinned())
	}
	if patch.Metadata != nil {
		dst = append(dst, `,"metadata":`...)
		dst = wire.AppendObject(dst, patch.GetMetadata())
	}
	if patch.GetBudget() != nil || patch.GetRemoveBudget() {
		dst = append(dst, `,"budget":`...)
		dst = dialect.appendBudget(dst, patch.GetBudget())
	}
	return wire.Close(dst, start)
}
