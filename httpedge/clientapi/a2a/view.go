package a2a

import (
	"encoding/json"

	"parley/httpedge/a2a/protocol"
	"parley/httpedge/a2a/tasks"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
)

// view tells a task in the events of A2A: the task as the stream begins, its reply in pieces as it grows, and the status in which
// it comes to rest, which ends the stream. Each event is a JSON-RPC answer to the call that began the stream.
type view struct {
	task    *protocol.Task
	run     string
	id      json.RawMessage
	version protocol.Version
	keeps   bool // stays when the task waits: somebody follows it until it is over

	textStream turns.TextStream
	spoke      bool // some of the reply was sent
	answer     *conversationpb.Message
}

// resume makes it the view of a turn that goes on after what it had said.
func (v *view) resume(turn *conversationpb.Lease, joins bool) {
	prior := turn.GetAnswer().GetContent()
	v.textStream.Resume(prior, joins)
	v.spoke, v.answer = v.task.Said, turn.GetAnswer()
}

// opening is what the stream begins with.
func (v *view) opening() sse.Frame {
	return v.frame(v.whole)
}

func (v *view) whole(dst []byte) []byte { return v.task.AppendSent(dst, v.version) }

// atRest reports whether the task was at rest as the stream began, so that its opening is all there is.
func (v *view) atRest() bool {
	return v.task.Status.State.Terminal() || v.task.Status.State == protocol.InputRequired && !v.keeps
}

// Event implements sse.View.
func (v *view) Event(event *conversationpb.Event) (sse.Frame, bool) {
	if event.GetRunId() != v.run {
		return nil, false
	}
	switch body := event.GetBody().(type) {
	case *conversationpb.Event_ToolUse:
		if !body.ToolUse.GetGiven() {
			return v.say(v.textStream.Step(body.ToolUse.GetText())), false
		}
	case *conversationpb.Event_AgentMessage:
		v.answer = body.AgentMessage.GetMessage()
	case *conversationpb.Event_TurnPaused:
		v.answer = body.TurnPaused.GetAnswer()
		status := tasks.Waiting(v.answer.GetPending(), event.GetCreatedAt())
		return sse.Join(v.finish(false), v.status(&status, !v.keeps)), !v.keeps
	case *conversationpb.Event_TurnResumed:
		v.textStream = turns.TextStream{}
		v.textStream.Resume(v.answer.GetContent(), body.TurnResumed.GetLease().GetMode() == conversationpb.Mode_CONTINUE)
		return v.status(&protocol.Status{State: protocol.Working, At: event.GetCreatedAt()}, false), false
	case *conversationpb.Event_TurnEnded:
		status := tasks.Ended(body.TurnEnded.GetStopReason(), event.GetCreatedAt())
		if message := body.TurnEnded.GetError().GetMessage(); message != "" {
			status.Notice = message
		}
		return sse.Join(v.finish(true), v.status(&status, true)), true
	}
	return nil, false
}

// Snapshot implements sse.View: the run's text begins again.
func (v *view) Snapshot(run sse.Run) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.say(v.textStream.Restart(run.Text))
}

// Delta implements sse.View.
func (v *view) Delta(run sse.Run, offset int) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.say(v.textStream.Advance(run.Text, offset))
}

// End implements sse.View: the task goes on without the stream.
func (v *view) End(why sse.EndReason) sse.Frame {
	said := &protocol.Error{Code: protocol.CodeRefused, Reason: "unavailable"}
	switch why {
	case sse.Deleted:
		said = protocol.TaskNotFound()
	case sse.Unauthorized:
		said.Message, said.Reason = "The token is not valid any more; the task goes on", "unauthorized"
	case sse.Forbidden:
		said.Message, said.Reason = "The token does not permit this any more; the task goes on", "forbidden"
	case sse.Stopping:
		said.Message = "The server is stopping; the task goes on: subscribe to it again"
	default:
		said.Message = "The task cannot be followed any more; it goes on: subscribe to it again"
	}
	return v.seal(protocol.AppendError(v.begin(len(said.Message)), v.id, v.version, said))
}

// say sends a piece of the reply.
func (v *view) say(text string) sse.Frame {
	if text == "" {
		return nil
	}
	return v.piece(protocol.Piece{Text: text, Append: v.spoke})
}

// finish sends what is missing of the reply once it is whole, or all of it where what was sent is not its beginning.
func (v *view) finish(last bool) sse.Frame {
	if v.answer == nil {
		return nil
	}
	content := v.answer.GetContent()
	if !v.textStream.Begins(content) {
		return v.piece(protocol.Piece{Text: content, Last: last})
	}
	rest := v.textStream.Finish(content)
	if rest == "" && !last {
		return nil
	}
	return v.piece(protocol.Piece{Text: rest, Append: v.spoke, Last: last})
}

func (v *view) piece(piece protocol.Piece) sse.Frame {
	v.spoke = true
	return v.frame(func(dst []byte) []byte { return v.task.AppendPiece(dst, v.version, piece) })
}

func (v *view) status(status *protocol.Status, final bool) sse.Frame {
	return v.frame(func(dst []byte) []byte { return v.task.AppendStatus(dst, v.version, status, final) })
}

func (v *view) frame(result func(dst []byte) []byte) sse.Frame {
	const usual = 512
	return v.seal(protocol.AppendResult(v.begin(usual), v.id, result))
}

func (v *view) begin(size int) []byte { return append(sse.Begin(size), "data: "...) }

func (v *view) seal(b []byte) sse.Frame { return sse.Seal(append(b, '\n', '\n')) }
