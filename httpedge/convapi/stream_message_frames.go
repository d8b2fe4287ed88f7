package convapi

import (
	"encoding/json"
	"strconv"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// begin starts a frame of a message stream.
func (v *messageView) begin(name string, size int) []byte {
	const around = 192
	b := sse.AppendEvent(sse.Begin(around+size), name)
	b = append(b, dataField+`{"type":`...)
	return wire.AppendString(b, name)
}

// seal adds the time and the number of the frame in its stream.
func (v *messageView) seal(b []byte) sse.Frame {
	v.seq++
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, v.now().UnixMilli(), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, v.seq, 10)
	return sse.Seal(append(b, "}\n\n"...))
}

func (v *messageView) text(text string) sse.Frame {
	b := v.begin("stream.text", len(text))
	b = appendMember(b, `,"text":`, text)
	return v.seal(append(b, `,"isFinal":false`...))
}

func (v *messageView) toolCall(call *conversationpb.ToolCall) sse.Frame {
	b := v.begin("stream.tool_call", len(call.GetArguments()))
	b = appendMember(b, `,"toolName":`, call.GetName())
	b = appendMember(b, `,"toolCallId":`, call.GetId())
	b = append(b, `,"args":`...)
	return v.seal(appendArguments(b, call.GetArguments()))
}

func (v *messageView) toolResult(call *conversationpb.ToolCall) sse.Frame {
	b := v.begin("stream.tool_result", len(call.GetResult())+len(call.GetError()))
	b = appendMember(b, `,"toolName":`, call.GetName())
	b = appendMember(b, `,"toolCallId":`, call.GetId())
	b = append(b, `,"result":`...)
	return v.seal(appendOutcome(b, call))
}

// actionResolved tells what was decided.
func (v *messageView) actionResolved() sse.Frame {
	resolve, action := v.resolved.resolve, v.resolved.action
	b := v.begin("stream.action_resolved", 0)
	b = appendMember(b, `,"conversationId":`, v.conversationID)
	b = appendMember(b, `,"runId":`, v.run)
	b = appendMember(b, `,"actionId":`, resolve.GetActionId())
	b = appendOptional(b, `,"kind":`, action.GetKind())
	b = appendOptional(b, `,"toolName":`, action.GetToolName())
	b = appendOptional(b, `,"toolCallId":`, action.GetToolCallId())
	if approval := resolve.GetApproval(); approval != nil {
		b = appendMember(b, `,"decision":`, decisionText(approval.GetAllow()))
	}
	return v.seal(b)
}

func decisionText(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}

// done says how the turn ended. messageId is the stored answer's, left out when there is none.
func (v *messageView) done(ended *conversationpb.TurnEnded) sse.Frame {
	b := v.begin("stream.done", len(v.answer.GetContent()))
	b = appendMember(b, `,"conversationId":`, v.conversationID)
	b = appendOptional(b, `,"messageId":`, v.answer.GetId())
	b = appendMember(b, `,"content":`, v.answer.GetContent())
	b = appendMember(b, `,"stopReason":`, stopText(ended.GetStopReason()))
	b = appendMember(b, `,"runId":`, v.run)
	b = appendOptional(b, `,"status":`, turnStatus(ended.GetStopReason()))
	if ended.GetStopReason() == conversationpb.StopReason_REQUIRES_ACTION {
		b = appendPendingActions(b, v.pendingOf())
	}
	usage := ended.GetUsage()
	if usage == nil {
		usage = v.answer.GetUsage()
	}
	if usage != nil {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, usage)
	}
	if v.reached.GetBudget() != nil {
		b = appendSpent(b, v.reached.GetBudget(), v.reached.GetSpentNanoUsd())
	}
	if ended.GetContinuable() {
		b = append(b, `,"continuable":true`...)
	}
	b = appendOptional(b, `,"title":`, v.title)
	return v.seal(b)
}

// failed ends the stream in place of stream.done.
func (v *messageView) failed(message, code string) sse.Frame {
	if message == "" {
		message = "the turn failed"
	}
	b := v.begin("stream.error", len(message))
	b = appendMember(b, `,"error":`, message)
	b = appendOptional(b, `,"code":`, code)
	b = appendMember(b, `,"conversationId":`, v.conversationID)
	b = appendMember(b, `,"runId":`, v.run)
	b = appendOptional(b, `,"messageId":`, v.answer.GetId())
	return v.seal(b)
}

// appendArguments writes a call's arguments as an object. What a model sent that is none is not shown as one.
func appendArguments(dst []byte, arguments string) []byte {
	if len(arguments) == 0 || !isObject(arguments) {
		return append(dst, '{', '}')
	}
	return append(dst, line([]byte(arguments))...)
}

// appendOutcome writes what a call came to: an object or a list as such, other text as text, an error as {error}.
func appendOutcome(dst []byte, call *conversationpb.ToolCall) []byte {
	result := call.GetResult()
	switch {
	case call.GetError() != "":
		dst = append(dst, `{"error":`...)
		return append(wire.AppendString(dst, call.GetError()), '}')
	case isObject(result), len(result) > 0 && result[0] == '[' && json.Valid([]byte(result)):
		return append(dst, line([]byte(result))...)
	default:
		return wire.AppendString(dst, result)
	}
}

func isObject(text string) bool {
	return len(text) > 1 && text[0] == '{' && json.Valid([]byte(text))
}
