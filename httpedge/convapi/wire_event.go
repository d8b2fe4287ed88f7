package convapi

import (
	"strconv"

	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// eventPage is a page of the event log.
type eventPage struct{ page *endpoint.EventPage }

// AppendJSON implements endpoint.Appender.
func (p *eventPage) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"events":[`...)
	for i, event := range p.page.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEvent(dst, event)
	}
	dst = append(dst, `],"hasMore":`...)
	dst = strconv.AppendBool(dst, p.page.HasMore)
	dst = append(dst, `,"lastSeq":`...)
	dst = strconv.AppendUint(dst, p.page.LastSeq, 10)
	return append(dst, '}')
}

// Described implements openapi.Described.
func (p *eventPage) Described() (value any, nullable bool) { return eventPageSchema{}, false }

// appendEvent writes an event of the log, on one line: {seq, type, data, run_id, created_at}.
func appendEvent(dst []byte, event *conversationpb.Event) []byte {
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, event.GetSeq(), 10)
	dst = append(dst, `,"type":`...)
	dst = wire.AppendString(dst, event.PublicType())
	dst = append(dst, `,"data":`...)
	dst = appendEventData(dst, event)
	dst = appendOptional(dst, `,"run_id":`, event.GetRunId())
	dst = append(dst, `,"created_at":`...)
	return append(wire.AppendTime(dst, event.GetCreatedAt()), '}')
}

// appendEventData writes an event's data, in snake_case as document 2 shows it for agent.message.
func appendEventData(dst []byte, event *conversationpb.Event) []byte {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_UserMessage:
		message := body.UserMessage.GetMessage()
		dst = append(dst, `{"content":`...)
		dst = wire.AppendString(dst, message.GetContent())
		dst = append(dst, `,"message_id":`...)
		return append(wire.AppendString(dst, message.GetId()), '}')
	case *conversationpb.Event_AgentMessage:
		message := body.AgentMessage.GetMessage()
		dst = append(dst, `{"content":`...)
		dst = wire.AppendString(dst, message.GetContent())
		dst = append(dst, `,"message_id":`...)
		dst = wire.AppendString(dst, message.GetId())
		dst = append(dst, `,"stop_reason":`...)
		dst = wire.AppendString(dst, stopText(message.GetStopReason()))
		dst = appendOptional(dst, `,"status":`, message.GetStatus())
		return append(dst, '}')
	case *conversationpb.Event_TurnStarted:
		return appendTurnStarted(dst, body.TurnStarted)
	case *conversationpb.Event_TurnEnded:
		return appendTurnEnded(dst, body.TurnEnded)
	case *conversationpb.Event_TurnRecovered:
		dst = append(dst, `{"attempt":`...)
		dst = strconv.AppendUint(dst, uint64(body.TurnRecovered.GetAttempt()), 10)
		dst = appendOptional(dst, `,"node":`, body.TurnRecovered.GetNode())
		return append(dst, '}')
	case *conversationpb.Event_Updated:
		return appendPatch(dst, body.Updated.GetPatch())
	default:
		return append(dst, '{', '}')
	}
}

// appendTurnStarted names the mode of turns that are more than an answer to a new message.
func appendTurnStarted(dst []byte, started *conversationpb.TurnStarted) []byte {
	mode := ""
	switch started.GetLease().GetMode() {
	case conversationpb.Mode_REGENERATE:
		mode = "regenerate"
	case conversationpb.Mode_EDIT:
		mode = "edit"
	case conversationpb.Mode_CONTINUE:
		mode = "continue"
	case conversationpb.Mode_RESOLVE:
		mode = "resolve"
	default:
		return append(dst, '{', '}')
	}
	dst = append(dst, `{"mode":`...)
	return append(wire.AppendString(dst, mode), '}')
}

func appendTurnEnded(dst []byte, ended *conversationpb.TurnEnded) []byte {
	dst = append(dst, `{"stop_reason":`...)
	dst = wire.AppendString(dst, stopText(ended.GetStopReason()))
	if usage := ended.GetUsage(); usage != nil {
		dst = append(dst, `,"usage":{"input_tokens":`...)
		dst = strconv.AppendInt(dst, usage.GetInputTokens(), 10)
		dst = append(dst, `,"output_tokens":`...)
		dst = strconv.AppendInt(dst, usage.GetOutputTokens(), 10)
		dst = append(dst, `,"total_tokens":`...)
		dst = strconv.AppendInt(dst, usage.GetInputTokens()+usage.GetOutputTokens(), 10)
		if usage.GetPriced() {
			dst = append(dst, `,"cost_usd":`...)
			dst = wire.AppendUSD(dst, usage.GetCostNanoUsd())
		}
		dst = append(dst, '}')
	}
	if ended.GetError() != nil {
		dst = append(dst, `,"error":`...)
		dst = appendTurnError(dst, ended.GetError())
	}
	if ended.GetContinuable() {
		dst = append(dst, `,"continuable":true`...)
	}
	return append(dst, '}')
}

// appendPatch writes what changed of a conversation, under the names that its record has. The runtime context is the
// agent's business and not shown.
func appendPatch(dst []byte, patch *conversationpb.Patch) []byte {
	start := len(dst)
	if patch.Title != nil {
		dst = append(dst, `,"title":`...)
		dst = wire.AppendString(dst, patch.GetTitle())
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
		dst = appendBudget(dst, patch.GetBudget())
	}
	if len(dst) == start {
		return append(dst, '{', '}')
	}
	dst[start] = '{'
	return append(dst, '}')
}
