package frames

import (
	"cmp"
	"strconv"

	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/eventlog"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// begin starts a frame of a message stream.
func (v *MessageView) begin(name string, size int) []byte {
	const around = 192
	b := sse.AppendEvent(sse.Begin(around+size), name)
	b = append(b, `data: {"type":`...)
	return wire.AppendString(b, name)
}

// seal adds the time and the frame's number in its stream.
func (v *MessageView) seal(b []byte) sse.Frame {
	v.seq++
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, v.now().UnixMilli(), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, v.seq, 10)
	return sse.Seal(append(b, "}\n\n"...))
}

func (v *MessageView) text(text string) sse.Frame {
	if text == "" {
		return nil
	}
	b := v.begin("stream.text", len(text))
	b = wire.AppendMember(b, `,"text":`, text)
	return v.seal(append(b, `,"isFinal":false`...))
}

func (v *MessageView) toolCall(call *conversationpb.ToolCall) sse.Frame {
	b := v.begin("stream.tool_call", len(call.GetArguments()))
	b = wire.AppendMember(b, `,"toolName":`, call.GetName())
	b = wire.AppendMember(b, `,"toolCallId":`, call.GetId())
	b = append(b, `,"args":`...)
	return v.seal(eventlog.AppendArguments(b, call.GetArguments()))
}

func (v *MessageView) toolResult(call *conversationpb.ToolCall) sse.Frame {
	b := v.begin("stream.tool_result", len(call.GetResult())+len(call.GetError()))
	b = wire.AppendMember(b, `,"toolName":`, call.GetName())
	b = wire.AppendMember(b, `,"toolCallId":`, call.GetId())
	b = append(b, `,"result":`...)
	return v.seal(eventlog.AppendOutcome(b, call))
}

// actionResolved renders a decision.
func (v *MessageView) actionResolved() sse.Frame {
	resolve, action := v.resolved.resolve, v.resolved.action
	b := v.begin("stream.action_resolved", 0)
	b = wire.AppendMember(b, `,"conversationId":`, v.conversationID)
	b = wire.AppendMember(b, `,"runId":`, v.run)
	b = wire.AppendMember(b, `,"actionId":`, resolve.GetActionId())
	b = wire.AppendOptional(b, `,"kind":`, action.GetKind())
	b = wire.AppendOptional(b, `,"toolName":`, action.GetToolName())
	b = wire.AppendOptional(b, `,"toolCallId":`, action.GetToolCallId())
	if approval := resolve.GetApproval(); approval != nil {
		b = wire.AppendMember(b, `,"decision":`, decisionText(approval.GetAllow()))
	}
	return v.seal(b)
}

func decisionText(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}

// answerID is the id of the stored answer, or of the empty answer of a turn that left none.
func (v *MessageView) answerID() string { return cmp.Or(v.answer.GetId(), body.EmptyAnswerID(v.run)) }

// done renders how the turn ended.
func (v *MessageView) done(ended *conversationpb.TurnEnded) sse.Frame {
	b := v.begin("stream.done", len(v.answer.GetContent()))
	b = wire.AppendMember(b, `,"conversationId":`, v.conversationID)
	b = wire.AppendMember(b, `,"messageId":`, v.answerID())
	b = wire.AppendMember(b, `,"content":`, v.answer.GetContent())
	b = wire.AppendMember(b, `,"stopReason":`, eventlog.StopText(ended.GetStopReason()))
	b = wire.AppendMember(b, `,"runId":`, v.run)
	b = wire.AppendOptional(b, `,"status":`, body.TurnStatus(ended.GetStopReason()))
	if ended.GetStopReason() == conversationpb.StopReason_REQUIRES_ACTION {
		b = body.AppendPendingActions(b, v.pendingOf())
	}
	usage := ended.GetUsage()
	if usage == nil {
		usage = v.answer.GetUsage()
	}
	if usage != nil {
		b = append(b, `,"usage":`...)
		b = body.AppendUsage(b, usage)
	}
	if v.reached.GetBudget() != nil {
		b = body.AppendSpent(b, v.reached.GetBudget(), v.reached.GetSpentNanoUsd())
	}
	if ended.GetContinuable() {
		b = append(b, `,"continuable":true`...)
	}
	b = wire.AppendOptional(b, `,"title":`, v.title)
	return v.seal(b)
}

// failed renders stream.error, which ends the stream instead of stream.done.
func (v *MessageView) failed(message, code string) sse.Frame {
	if message == "" {
		message = "the turn failed"
	}
	b := v.begin("stream.error", len(message))
	b = wire.AppendMember(b, `,"error":`, message)
	b = wire.AppendOptional(b, `,"code":`, code)
	b = wire.AppendMember(b, `,"conversationId":`, v.conversationID)
	b = wire.AppendMember(b, `,"runId":`, v.run)
	b = wire.AppendOptional(b, `,"messageId":`, v.answer.GetId())
	return v.seal(b)
}
