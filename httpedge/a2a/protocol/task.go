package protocol

import (
	"strings"

	"parley/httpedge/endpoint/wire"
)

// State is the state of a task, as 0.3 names it.
type State string

// States.
const (
	Working       State = "working"
	InputRequired State = "input-required"
	Completed     State = "completed"
	Canceled      State = "canceled"
	Failed        State = "failed"
)

// Terminal reports whether the task is over.
func (s State) Terminal() bool { return s == Completed || s == Canceled || s == Failed }

func (s State) name(version Version) string {
	if version == V03 {
		return string(s)
	}
	return "TASK_STATE_" + strings.ReplaceAll(strings.ToUpper(string(s)), "-", "_")
}

// Task is one turn of a conversation as callers know it. Its one artifact is the reply.
type Task struct {
	ID        string
	ContextID string
	Status    Status
	// Text is the reply, as far as there is one; Said tells a reply without words from none.
	Text string
	Said bool
	// StopReason is why it stopped where that is not the usual end; "" = nothing is to be said.
	StopReason string
}

// Status is the state of a task since a time.
type Status struct {
	State State
	At    int64 // Unix ms
	// Notice is what the caller should know, "" = nothing: a question, or what went wrong. Data is the same for programs: a JSON
	// object, nil = none.
	Notice string
	Data   []byte
}

const artifactSuffix = "_artifact"

// Append writes the task.
func (t *Task) Append(dst []byte, version Version) []byte {
	dst = append(dst, '{')
	if version == V03 {
		dst = append(dst, `"kind":"task",`...)
	}
	dst = wire.AppendMember(dst, `"id":`, t.ID)
	dst = wire.AppendMember(dst, `,"contextId":`, t.ContextID)
	dst = t.appendStatus(dst, version, &t.Status)
	if t.Said {
		dst = append(dst, `,"artifacts":[`...)
		dst = append(t.appendArtifact(dst, version, t.Text), ']')
	}
	if t.StopReason != "" {
		dst = append(wire.AppendMember(dst, `,"metadata":{"stop_reason":`, t.StopReason), '}')
	}
	return append(dst, '}')
}

// AppendSent writes the task as the result of a message: 1.0 says what kind of result it is.
func (t *Task) AppendSent(dst []byte, version Version) []byte {
	if version == V03 {
		return t.Append(dst, version)
	}
	return append(t.Append(append(dst, `{"task":`...), version), '}')
}

// AppendStatus writes the event of a task's new status. final: nothing follows in the stream.
func (t *Task) AppendStatus(dst []byte, version Version, status *Status, final bool) []byte {
	dst = t.beginEvent(dst, version, `"status-update"`, `{"statusUpdate":{`)
	dst = t.appendStatus(dst, version, status)
	if version == V10 {
		return append(dst, "}}"...)
	}
	if final {
		return append(dst, `,"final":true}`...)
	}
	return append(dst, `,"final":false}`...)
}

// Piece is a piece of the reply.
type Piece struct {
	Text   string
	Append bool // it continues what was said; else it stands in its place
	Last   bool
}

// AppendPiece writes the event of a piece of the reply.
func (t *Task) AppendPiece(dst []byte, version Version, piece Piece) []byte {
	dst = t.beginEvent(dst, version, `"artifact-update"`, `{"artifactUpdate":{`)
	dst = append(dst, `,"artifact":`...)
	dst = t.appendArtifact(dst, version, piece.Text)
	if piece.Append {
		dst = append(dst, `,"append":true`...)
	}
	if piece.Last {
		dst = append(dst, `,"lastChunk":true`...)
	}
	if version == V10 {
		return append(dst, "}}"...)
	}
	return append(dst, '}')
}

// beginEvent writes what the events of a stream begin with: 0.3 says the kind, 1.0 wraps the event.
func (t *Task) beginEvent(dst []byte, version Version, kind, wrapped string) []byte {
	if version == V03 {
		dst = append(append(append(dst, `{"kind":`...), kind...), ',')
	} else {
		dst = append(dst, wrapped...)
	}
	dst = wire.AppendMember(dst, `"taskId":`, t.ID)
	return wire.AppendMember(dst, `,"contextId":`, t.ContextID)
}

func (t *Task) appendStatus(dst []byte, version Version, status *Status) []byte {
	dst = wire.AppendMember(dst, `,"status":{"state":`, status.State.name(version))
	if status.Notice != "" {
		dst = append(dst, `,"message":{`...)
		role := `"role":"ROLE_AGENT"`
		if version == V03 {
			role = `"kind":"message","role":"agent"`
		}
		dst = append(dst, role...)
		dst = wire.AppendMember(dst, `,"messageId":`, t.ID+"_"+string(status.State))
		dst = wire.AppendMember(dst, `,"taskId":`, t.ID)
		dst = wire.AppendMember(dst, `,"contextId":`, t.ContextID)
		dst = append(dst, `,"parts":[`...)
		dst = appendText(dst, version, status.Notice)
		if len(status.Data) > 0 {
			dst = append(dst, ",{"...)
			if version == V03 {
				dst = append(dst, `"kind":"data",`...)
			}
			dst = append(append(append(dst, `"data":`...), status.Data...), '}')
		}
		dst = append(dst, "]}"...)
	}
	if status.At > 0 {
		dst = append(dst, `,"timestamp":`...)
		dst = wire.AppendTime(dst, status.At)
	}
	return append(dst, '}')
}

func (t *Task) appendArtifact(dst []byte, version Version, text string) []byte {
	dst = wire.AppendMember(dst, `{"artifactId":`, t.ID+artifactSuffix)
	dst = append(dst, `,"name":"response","parts":[`...)
	return append(appendText(dst, version, text), "]}"...)
}

func appendText(dst []byte, version Version, text string) []byte {
	dst = append(dst, '{')
	if version == V03 {
		dst = append(dst, `"kind":"text",`...)
	}
	return append(wire.AppendMember(dst, `"text":`, text), '}')
}
