package eventlog

import (
	"encoding/json"
	"strconv"

	"parley/actors/core/money"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
)

// appendPartData writes the data of the events inside a turn, and of events outside turns.
func appendPartData(dst []byte, event *conversationpb.Event, dialect Dialect) []byte {
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_ToolUse:
		return appendToolUse(dst, body.ToolUse)
	case *conversationpb.Event_ToolResults:
		return appendToolResults(dst, body.ToolResults.GetResults())
	case *conversationpb.Event_Partial:
		dst = append(dst, `{"text":`...)
		dst = wire.AppendString(dst, body.Partial.GetText())
		return append(appendUsageData(dst, body.Partial.GetUsage()), '}')
	case *conversationpb.Event_Reserved:
		dst = append(dst, `{"reserved_usd":`...)
		dst = money.Append(dst, body.Reserved.GetReservedNanoUsd())
		return appendSpentData(dst, body.Reserved.GetSpentNanoUsd())
	case *conversationpb.Event_SessionUsage:
		start := len(dst)
		dst = appendUsageData(dst, body.SessionUsage.GetUsage())
		if dialect == Client { // document 1, "Session event log"
			dst = append(dst, `,"turn_cost_usd":`...)
			dst = money.Append(dst, max(body.SessionUsage.GetTurnCostNanoUsd(), body.SessionUsage.GetUsage().GetCostNanoUsd()))
		}
		return openData(appendSpentData(dst, body.SessionUsage.GetSpentNanoUsd()), start)
	case *conversationpb.Event_BudgetReached:
		return appendBudgetReached(dst, body.BudgetReached)
	case *conversationpb.Event_ActionRequested:
		return appendActionData(dst, body.ActionRequested.GetAction())
	case *conversationpb.Event_ActionClosed:
		return appendActionClosed(dst, body.ActionClosed, dialect)
	case *conversationpb.Event_Truncated:
		dst = append(dst, `{"message_id":`...)
		dst = wire.AppendString(dst, body.Truncated.GetMessageId())
		dst = append(dst, `,"removed":`...)
		return append(strconv.AppendUint(dst, body.Truncated.GetRemoved(), 10), '}')
	case *conversationpb.Event_MessageChanged:
		return appendFeedbackData(dst, body.MessageChanged.GetMessage())
	case *conversationpb.Event_FileAdded:
		return appendFileData(append(dst, `{"file":`...), body.FileAdded.GetFile(), "}}")
	case *conversationpb.Event_FilesRemoved:
		dst = append(dst, `{"file_ids":`...)
		dst = wire.AppendStrings(dst, body.FilesRemoved.GetIds())
		return append(wire.AppendOptional(dst, `,"reason":`, body.FilesRemoved.GetHow()), '}')
	case *conversationpb.Event_MessageQueued:
		queued := body.MessageQueued.GetQueued()
		data := appendUserMessageData(dst, queued.GetMessage(), "")
		if queued.GetFirst() {
			data = append(data[:len(data)-1], `,"interrupts":true}`...)
		}
		return data
	case *conversationpb.Event_MessageDequeued:
		return append(wire.AppendString(append(dst, `{"message_id":`...), body.MessageDequeued.GetMessageId()), '}')
	case *conversationpb.Event_ToolRemembered:
		return append(wire.AppendString(append(dst, `{"tool_name":`...), body.ToolRemembered.GetTool()), '}')
	default:
		return append(dst, '{', '}')
	}
}

func appendToolUse(dst []byte, use *conversationpb.ToolUse) []byte {
	dst = append(dst, `{"text":`...)
	dst = wire.AppendString(dst, use.GetText())
	dst = append(dst, `,"tool_calls":`...)
	dst = wire.AppendList(dst, use.GetCalls(), func(dst []byte, call *conversationpb.ToolCall) []byte {
		dst = append(dst, `{"tool_call_id":`...)
		dst = wire.AppendString(dst, call.GetId())
		dst = wire.AppendMember(dst, `,"tool_name":`, call.GetName())
		dst = append(dst, `,"args":`...)
		return append(AppendArguments(dst, call.GetArguments()), '}')
	})
	return append(appendUsageData(dst, use.GetUsage()), '}')
}

func appendToolResults(dst []byte, results []*conversationpb.ToolCall) []byte {
	dst = append(dst, `{"results":`...)
	dst = wire.AppendList(dst, results, func(dst []byte, call *conversationpb.ToolCall) []byte {
		dst = append(dst, `{"tool_call_id":`...)
		dst = wire.AppendString(dst, call.GetId())
		dst = wire.AppendMember(dst, `,"tool_name":`, call.GetName())
		dst = append(dst, `,"result":`...)
		return append(AppendOutcome(dst, call), '}')
	})
	return append(dst, '}')
}

// appendSpentData adds the amount that the conversation has spent and closes the object.
func appendSpentData(dst []byte, spent int64) []byte {
	dst = append(dst, `,"spent_usd":`...)
	return append(money.Append(dst, spent), '}')
}

// openData turns members that begin with a comma, and are already closed, into an object.
func openData(dst []byte, start int) []byte {
	dst[start] = '{'
	return dst
}

func appendBudgetReached(dst []byte, reached *conversationpb.BudgetReached) []byte {
	dst = append(dst, `{"max_cost_usd":`...)
	dst = money.Append(dst, reached.GetBudget().GetMaxCostNanoUsd())
	dst = wire.AppendMember(dst, `,"on_reach":`, reached.GetBudget().GetOnReach())
	return appendSpentData(dst, reached.GetSpentNanoUsd())
}

func appendActionData(dst []byte, action *conversationpb.PendingAction) []byte {
	dst = append(dst, `{"action_id":`...)
	dst = wire.AppendString(dst, action.GetId())
	dst = wire.AppendMember(dst, `,"kind":`, action.GetKind())
	dst = wire.AppendOptional(dst, `,"tool_name":`, action.GetToolName())
	dst = wire.AppendOptional(dst, `,"tool_call_id":`, action.GetToolCallId())
	dst = append(dst, `,"args":`...)
	dst = wire.AppendObjectLine(dst, action.GetArgs())
	if questions := Questions(action); questions != nil {
		dst = append(dst, `,"questions":`...)
		dst = append(dst, questions...)
	}
	dst = append(dst, `,"details":`...)
	dst = wire.AppendObjectLine(dst, action.GetDetails())
	if action.GetUnknownOutcome() {
		dst = append(dst, `,"unknown_outcome":true`...)
	}
	dst = append(dst, `,"expires_at":`...)
	return append(wire.AppendTime(dst, action.GetExpiresAt()), '}')
}

func appendActionClosed(dst []byte, closed *conversationpb.ActionClosed, dialect Dialect) []byte {
	dst = append(dst, `{"action_id":`...)
	dst = wire.AppendString(dst, closed.GetId())
	dst = wire.AppendOptional(dst, `,"tool_call_id":`, closed.GetToolCallId())
	dst = wire.AppendOptional(dst, `,"by":`, closed.GetBy())
	if len(closed.GetResolution()) > 0 {
		dst = append(dst, `,"resolution":`...)
		dst = wire.AppendObjectLine(dst, dialect.resolution(closed.GetResolution()))
	}
	return append(dst, '}')
}

// appendFeedbackData writes a rating.
func appendFeedbackData(dst []byte, message *conversationpb.Message) []byte {
	feedback := message.GetFeedback()
	dst = append(dst, `{"message_id":`...)
	dst = wire.AppendString(dst, message.GetId())
	dst = append(dst, `,"rating":`...)
	if feedback.GetRating() == "" {
		return append(dst, `null}`...)
	}
	dst = wire.AppendString(dst, feedback.GetRating())
	dst = append(dst, `,"reasons":`...)
	dst = wire.AppendStrings(dst, feedback.GetReasons())
	dst = wire.AppendOptional(dst, `,"comment":`, feedback.GetComment())
	return append(wire.AppendOptional(dst, `,"user_id":`, feedback.GetUserId()), '}')
}

// appendFileData writes a file; end closes its object and those around it.
func appendFileData(dst []byte, file *conversationpb.File, end string) []byte {
	dst = append(dst, `{"id":`...)
	dst = wire.AppendString(dst, file.GetId())
	dst = wire.AppendMember(dst, `,"name":`, file.GetName())
	dst = wire.AppendMember(dst, `,"mime_type":`, file.GetMimeType())
	dst = append(dst, `,"size":`...)
	return append(strconv.AppendInt(dst, file.GetSize(), 10), end...)
}

// AppendFiles adds the files of a message, if any, preceded by a comma.
func AppendFiles(dst []byte, files []*conversationpb.FileRef) []byte {
	if len(files) == 0 {
		return dst
	}
	dst = append(dst, `,"files":`...)
	return wire.AppendList(dst, files, func(dst []byte, file *conversationpb.FileRef) []byte {
		return appendFileData(dst, &conversationpb.File{
			Id: file.GetId(), Name: file.GetName(), MimeType: file.GetMimeType(), Size: file.GetSize(),
		}, "}")
	})
}

// appendTurnPaused writes what the turn waits for.
func appendTurnPaused(dst []byte, answer *conversationpb.Message) []byte {
	dst = append(dst, `{"stop_reason":"requires_action","message_id":`...)
	dst = wire.AppendString(dst, answer.GetId())
	dst = append(dst, `,"content":`...)
	dst = wire.AppendString(dst, answer.GetContent())
	dst = append(dst, `,"pending_action_ids":`...)
	return append(AppendActionIDs(dst, answer.GetPending()), '}')
}

// AppendActionIDs writes the ids of actions as a list.
func AppendActionIDs(dst []byte, actions []*conversationpb.PendingAction) []byte {
	return wire.AppendList(dst, actions, func(dst []byte, action *conversationpb.PendingAction) []byte {
		return wire.AppendString(dst, action.GetId())
	})
}

// AppendCalls adds the tool calls of a message, if any: [{id, name, args, result}]. member is the name with comma and colon,
// like `,"name":`.
func AppendCalls(dst []byte, member string, calls []*conversationpb.ToolCall) []byte {
	if len(calls) == 0 {
		return dst
	}
	dst = append(dst, member...)
	return wire.AppendList(dst, calls, func(dst []byte, call *conversationpb.ToolCall) []byte {
		dst = append(dst, `{"id":`...)
		dst = wire.AppendString(dst, call.GetId())
		dst = wire.AppendMember(dst, `,"name":`, call.GetName())
		dst = append(dst, `,"args":`...)
		dst = AppendArguments(dst, call.GetArguments())
		if call.GetResult() != "" || call.GetError() != "" {
			dst = append(dst, `,"result":`...)
			dst = AppendOutcome(dst, call)
		}
		return append(dst, '}')
	})
}

// AppendArguments writes a call's arguments as an object. Arguments that are not a JSON object are shown as {}.
func AppendArguments(dst []byte, arguments string) []byte {
	if len(arguments) == 0 || !isObject(arguments) {
		return append(dst, '{', '}')
	}
	return append(dst, wire.Line([]byte(arguments))...)
}

// AppendOutcome writes the outcome of a call: an object or array as it is, other text as a string, an error as {error}.
func AppendOutcome(dst []byte, call *conversationpb.ToolCall) []byte {
	result := call.GetResult()
	switch {
	case call.GetError() != "":
		dst = append(dst, `{"error":`...)
		return append(wire.AppendString(dst, call.GetError()), '}')
	case isObject(result), len(result) > 0 && result[0] == '[' && json.Valid([]byte(result)):
		return append(dst, wire.Line([]byte(result))...)
	default:
		return wire.AppendString(dst, result)
	}
}

func isObject(text string) bool {
	return len(text) > 1 && text[0] == '{' && json.Valid([]byte(text))
}

// Questions is the JSON array of questions that an action asks, nil if there are none.
func Questions(action *conversationpb.PendingAction) []byte {
	if action.GetKind() != conversationpb.KindQuestion {
		return nil
	}
	for _, object := range [][]byte{action.GetDetails(), action.GetArgs()} {
		var asked struct {
			Questions json.RawMessage `json:"questions"`
		}
		if json.Unmarshal(object, &asked) == nil && len(asked.Questions) > 0 && asked.Questions[0] == '[' {
			return wire.Line(asked.Questions)
		}
	}
	return nil
}
