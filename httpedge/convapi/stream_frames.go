package convapi

import (
	"bytes"
	"strconv"
	"time"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// Frames satisfy both ways of reading them: the event line names the type, and so does the data. Data is one line.

// eventFrame is a durable event: id, event and data lines.
func eventFrame(name string, event *conversationpb.Event) sse.Frame {
	const around = 256
	content := len(event.GetUserMessage().GetMessage().GetContent()) + len(event.GetAgentMessage().GetMessage().GetContent())
	b := sse.Begin(around + content)
	b = sse.AppendID(b, event.GetSeq())
	b = sse.AppendEvent(b, name)
	b = append(b, dataField...)
	start := len(b)
	return sse.Seal(endData(appendEvent(b, event), start))
}

// snapshotFrame is the text of the active run so far: no id, because it is not part of the log.
func snapshotFrame(run sse.Run) sse.Frame {
	const around = 384
	b, start := beginLive(typeSnapshot, around+len(run.Text)+len(run.UserMessage.GetContent()))
	b = append(b, `{"run_id":`...)
	b = wire.AppendString(b, run.ID)
	b = append(b, `,"text":`...)
	b = wire.AppendString(b, string(run.Text))
	if run.UserMessage != nil {
		b = append(b, `,"user_message":`...)
		b = appendUserMessageData(b, run.UserMessage)
	}
	return sealLive(append(b, '}'), start, run.ID)
}

const dataField = "data: "

// endData ends the data that begins at start. Data is one line, except for a client's own object that was stored with
// line breaks between its members: then it is several data lines, which readers put together again.
func endData(b []byte, start int) []byte {
	if bytes.IndexByte(b[start:], '\n') < 0 && bytes.IndexByte(b[start:], '\r') < 0 {
		return append(b, '\n', '\n')
	}
	return sse.AppendData(b[:start-len(dataField)], bytes.Clone(b[start:]))
}

// deltaFrame is the text of the active run from offset on, which counts bytes.
func deltaFrame(run sse.Run, offset int) sse.Frame {
	const around = 192
	b, start := beginLive(typeDelta, around+len(run.Text)-offset)
	b = append(b, `{"text":`...)
	b = wire.AppendString(b, string(run.Text[offset:]))
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, int64(offset), 10)
	return sealLive(append(b, '}'), start, run.ID)
}

// beginLive starts a frame that is not stored, up to its data's value; start is where the line's text begins.
func beginLive(name string, size int) (b []byte, start int) {
	b = sse.AppendEvent(sse.Begin(size), name)
	b = append(b, dataField...)
	start = len(b)
	b = append(b, `{"type":`...)
	b = wire.AppendString(b, name)
	return append(b, `,"data":`...), start
}

func sealLive(b []byte, start int, run string) sse.Frame {
	b = append(b, `,"run_id":`...)
	b = wire.AppendString(b, run)
	b = append(b, `,"created_at":`...)
	b = wire.AppendTime(b, time.Now().UnixMilli())
	return sse.Seal(endData(append(b, '}'), start))
}

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

// done says how the turn ended. messageId is the stored answer's, left out when there is none.
func (v *messageView) done(ended *conversationpb.TurnEnded) sse.Frame {
	b := v.begin("stream.done", len(v.answer.GetContent()))
	b = appendMember(b, `,"conversationId":`, v.conversationID)
	b = appendOptional(b, `,"messageId":`, v.answer.GetId())
	b = appendMember(b, `,"content":`, v.answer.GetContent())
	b = appendMember(b, `,"stopReason":`, stopText(ended.GetStopReason()))
	b = appendMember(b, `,"runId":`, v.run)
	b = appendOptional(b, `,"status":`, turnStatus(ended.GetStopReason()))
	usage := ended.GetUsage()
	if usage == nil {
		usage = v.answer.GetUsage()
	}
	if usage != nil {
		b = append(b, `,"usage":`...)
		b = appendUsage(b, usage)
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

// appendMember writes a member whatever its value. label is `,"name":`.
func appendMember(dst []byte, label, value string) []byte {
	return wire.AppendString(append(dst, label...), value)
}
