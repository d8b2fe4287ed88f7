package eventlog

import (
	"bytes"
	"strconv"
	"time"

	"parley/httpedge/endpoint/wire"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
)

// Frames carry the type twice, in the event line and in the data, because clients read either. Data is one line.

// eventFrame is a durable event: id, event and data lines.
func eventFrame(name string, event *conversationpb.Event, dialect Dialect) sse.Frame {
	const around = 256
	content := len(event.GetUserMessage().GetMessage().GetContent()) + len(event.GetAgentMessage().GetMessage().GetContent()) +
		len(event.GetToolUse().GetText()) + len(event.GetTurnPaused().GetAnswer().GetContent())
	b := sse.Begin(around + content)
	b = sse.AppendID(b, event.GetSeq())
	b = sse.AppendEvent(b, name)
	b = append(b, dataField...)
	start := len(b)
	return sse.Seal(endData(Append(b, event, dialect), start))
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
		b = appendUserMessageData(b, run.UserMessage, "")
	}
	return sealLive(append(b, '}'), start, run.ID)
}

const dataField = "data: "

// endData ends the data that begins at start. Data is one line, except for a client's object that was stored with line
// breaks between its members: then it becomes several data lines, which readers join again.
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
