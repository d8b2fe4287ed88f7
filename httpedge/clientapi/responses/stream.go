package responses

import (
	"strconv"
	"strings"
	"time"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint/wire"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// responseView renders a turn as events of the Responses API: the message while it is streamed, function calls once they are
// stored, and at the end the whole response. Calls of the agent's own tools are not among its items: clients would run them.
type responseView struct {
	*wholeResponse

	run        string
	waits      *conversationpb.TurnResult // after some outputs the turn still waits for others: the stream ends with them
	result     conversationpb.TurnResult  // of the turn as it ends; not shown before
	seq        uint64                     // of events, from 0
	textStream turns.TextStream
	spent      int64
}

// opening writes the first events of the stream.
func (v *responseView) opening() sse.Frame {
	return sse.Join(v.whole("response.created"), v.whole("response.in_progress"))
}

// resume continues the view of a turn after the text that it had already sent.
func (v *responseView) resume() { v.textStream.Resume(v.prior, false) }

// Event implements sse.View.
func (v *responseView) Event(event *conversationpb.Event) (sse.Frame, bool) {
	if v.waits != nil && event.GetActionClosed() != nil {
		return v.end(v.waits), true
	}
	if event.GetRunId() != v.run {
		return nil, false
	}
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_MessageDequeued: // taken back before its turn
		v.result.StopReason, v.result.SpentNanoUsd = conversationpb.StopReason_CANCELLED, v.spent
		return v.end(&v.result), true
	case *conversationpb.Event_UserMessage:
		v.number = body.UserMessage.GetMessage().GetNumber() + 1 // the answer comes right after it
	case *conversationpb.Event_SessionUsage:
		v.spent = body.SessionUsage.GetSpentNanoUsd()
	case *conversationpb.Event_ToolUse:
		if !body.ToolUse.GetGiven() {
			return v.say(v.textStream.Step(body.ToolUse.GetText())), false
		}
	case *conversationpb.Event_AgentMessage:
		v.result.Response = body.AgentMessage.GetMessage()
	case *conversationpb.Event_TurnPaused:
		answer := body.TurnPaused.GetAnswer()
		return v.end(&conversationpb.TurnResult{
			Response: answer, StopReason: conversationpb.StopReason_REQUIRES_ACTION, Usage: answer.GetUsage(),
			Pending: answer.GetPending(), SpentNanoUsd: v.spent,
		}), true
	case *conversationpb.Event_TurnEnded:
		v.result.StopReason, v.result.Usage = body.TurnEnded.GetStopReason(), body.TurnEnded.GetUsage()
		v.result.Error, v.result.SpentNanoUsd = body.TurnEnded.GetError(), v.spent
		return v.end(&v.result), true
	}
	return nil, false
}

// Snapshot implements sse.View: the run's text begins again.
func (v *responseView) Snapshot(run sse.Run) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.say(v.textStream.Restart(run.Text))
}

// Delta implements sse.View.
func (v *responseView) Delta(run sse.Run, offset int) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.say(v.textStream.Advance(run.Text, offset))
}

// End implements sse.View.
func (v *responseView) End(why sse.EndReason) sse.Frame {
	table := handler.Refusals()
	switch why {
	case sse.Deleted:
		return v.failure("the session was deleted", table[failurepb.Code_SESSION_NOT_FOUND].Code)
	case sse.Stopping:
		return v.failure("the server is stopping; the turn goes on, its answer will be in the session", table[failurepb.Code_UNAVAILABLE].Code)
	case sse.Unauthorized:
		return v.failure("the token is not valid any more; the turn goes on", table[failurepb.Code_AUTH_REQUIRED].Code)
	case sse.Forbidden:
		return v.failure("the token does not permit this any more; the turn goes on", table[failurepb.Code_FORBIDDEN].Code)
	default:
		return v.failure("the turn cannot be followed any more; its answer will be in the session", table[failurepb.Code_UNAVAILABLE].Code)
	}
}

// say sends a delta of the message.
func (v *responseView) say(text string) sse.Frame {
	if !v.spoke && v.prior != "" {
		text = strings.TrimLeft(text, "\n") // what parts it from what was said before
	}
	if text == "" {
		return nil
	}
	frames := v.openMessage()
	b := v.part("response.output_text.delta", len(text))
	b = wire.AppendMember(b, `,"delta":`, text)
	return sse.Join(frames, v.seal(append(b, `,"logprobs":[]`...)))
}

func (v *responseView) openMessage() sse.Frame {
	if v.spoke {
		return nil
	}
	v.spoke = true
	b := v.begin("response.output_item.added", 0)
	b = append(b, `,"output_index":0,"item":`...)
	frames := v.seal(v.appendMessage(b, "", responseInProgress))
	b = v.part("response.content_part.added", 0)
	b = append(b, `,"part":`...)
	return sse.Join(frames, v.seal(appendTextPart(b, "")))
}

// end sends the rest of the turn and the whole response.
func (v *responseView) end(result *conversationpb.TurnResult) sse.Frame {
	frames := v.say(v.textStream.Finish(result.GetResponse().GetContent()))
	v.turn = result
	if number := result.GetResponse().GetNumber(); number > 0 {
		v.number = number
	}
	for index, item := range v.output() {
		if item.call == nil {
			frames = sse.Join(frames, v.endMessage(item))
			continue
		}
		frames = sse.Join(frames, v.call(index, item))
	}
	switch v.status() {
	case "completed":
		return sse.Join(frames, v.whole("response.completed"))
	case "failed":
		return sse.Join(frames, v.whole("response.failed"))
	default: // official clients know no event for a turn that waits for a person, or was cancelled
		return sse.Join(frames, v.whole("response.incomplete"))
	}
}

func (v *responseView) endMessage(item outputItem) sse.Frame {
	frames, text := v.openMessage(), v.text()
	b := v.part("response.output_text.done", len(text))
	b = wire.AppendMember(b, `,"text":`, text)
	frames = sse.Join(frames, v.seal(append(b, `,"logprobs":[]`...)))
	b = v.part("response.content_part.done", len(text))
	b = append(b, `,"part":`...)
	return sse.Join(frames, v.seal(appendTextPart(b, text)), v.item("response.output_item.done", 0, item.body))
}

// call sends a function call that the caller is to run.
func (v *responseView) call(index int, item outputItem) sse.Frame {
	arguments := string(item.call.GetArgs())
	frames := v.item("response.output_item.added", index, appendCall(nil, item.id, item.call, "", responseInProgress))
	for _, event := range []struct{ name, label string }{
		{"response.function_call_arguments.delta", `,"delta":`}, {"response.function_call_arguments.done", `,"arguments":`},
	} {
		b := v.begin(event.name, len(arguments))
		b = wire.AppendMember(b, `,"item_id":`, item.id)
		b = append(b, `,"output_index":`...)
		b = strconv.AppendInt(b, int64(index), 10)
		b = wire.AppendMember(b, `,"name":`, item.call.GetToolName())
		frames = sse.Join(frames, v.seal(wire.AppendMember(b, event.label, arguments)))
	}
	return sse.Join(frames, v.item("response.output_item.done", index, item.body))
}

// begin starts an event.
func (v *responseView) begin(name string, size int) []byte {
	const around = 256
	b := sse.AppendEvent(sse.Begin(around+size), name)
	b = append(b, `data: {"type":`...)
	b = wire.AppendString(b, name)
	b = append(b, `,"sequence_number":`...)
	b = strconv.AppendUint(b, v.seq, 10)
	v.seq++
	return b
}

// part starts an event about the text of the message.
func (v *responseView) part(name string, size int) []byte {
	b := v.begin(name, size)
	b = wire.AppendMember(b, `,"item_id":`, v.messageID())
	return append(b, `,"output_index":0,"content_index":0`...)
}

func (v *responseView) item(name string, index int, body []byte) sse.Frame {
	b := v.begin(name, len(body))
	b = append(b, `,"output_index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	return v.seal(append(append(b, `,"item":`...), body...))
}

func (v *responseView) whole(name string) sse.Frame {
	const usual = 1 << 10
	b := append(v.begin(name, usual), `,"response":`...)
	return v.seal(v.AppendJSON(b))
}

// failure ends the stream of a turn that goes on without it.
func (v *responseView) failure(message, code string) sse.Frame {
	b := wire.AppendMember(v.begin("error", len(message)), `,"code":`, code)
	b = wire.AppendMember(b, `,"message":`, message)
	return v.seal(append(b, `,"param":null`...))
}

func (v *responseView) seal(b []byte) sse.Frame { return sse.Seal(append(b, "}\n\n"...)) }

// newWhole is the response of a new turn.
func newWhole(r *responding, in *createResponseIn) *wholeResponse {
	return &wholeResponse{
		session: r.id, agent: in.Model.Text, previous: in.PreviousResponseID.Text, version: max(r.version, 0),
		created: time.Now().UnixMilli(), echo: newEcho(in),
	}
}
