package tasks

import (
	"parley/httpedge/a2a/protocol"
	"parley/proto/conversationpb"
)

// Told is the task of a turn that ended or paused at a time, as an address is told of it. answer is the number that the turn's
// answer has, or would have; turn is its result, nil = it goes on again by now.
func Told(conversation string, answer uint64, turn *conversationpb.TurnResult, at int64) *protocol.Task {
	if turn == nil {
		task := New(conversation, answer)
		task.Status.At = at
		return task
	}
	known := &conversationpb.TurnResult{
		Response: turn.GetResponse(), StopReason: turn.GetStopReason(), Pending: turn.GetPending(),
		UserMessage: &conversationpb.Message{Number: answer - 1}, // it may have no answer
	}
	task := OfTurn(conversation, known)
	if message := turn.GetError().GetMessage(); message != "" {
		task.Status.Notice = message
	}
	if task.Status.At == 0 {
		task.Status.At = at
	}
	return task
}

// AppendTold writes what an address is told of a task: 0.3 wants the task, 1.0 what a stream would say of it.
func AppendTold(dst []byte, version protocol.Version, task *protocol.Task) []byte {
	if version == protocol.V03 {
		return task.Append(dst, version)
	}
	return task.AppendStatus(dst, version, &task.Status, true)
}
