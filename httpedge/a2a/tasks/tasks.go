package tasks

import (
	"strconv"
	"strings"

	"parley/httpedge/a2a/protocol"
	"parley/proto/conversationpb"
)

const taskPrefix = "task_"

// ID names the task whose answer is at a place in the list of messages, from 0.
func ID(conversation string, index uint64) string {
	return taskPrefix + conversation + "_" + strconv.FormatUint(index, 10)
}

// ParseID is the reverse of ID.
func ParseID(id string) (conversation string, index uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, taskPrefix)
	at := strings.LastIndexByte(rest, '_')
	if !ok || at <= 0 {
		return "", 0, false
	}
	digits := rest[at+1:]
	index, err := strconv.ParseUint(digits, 10, 31)
	return rest[:at], index, err == nil && strconv.FormatUint(index, 10) == digits
}

// New is a task as it begins. The numbers of messages count from 1 without a gap, so that an answer's index is the number of
// the message before it.
func New(conversation string, answer uint64) *protocol.Task {
	return &protocol.Task{
		ID: ID(conversation, answer-1), ContextID: conversation, Status: protocol.Status{State: protocol.Working},
	}
}

// Of is the task of a stored answer. state is the conversation's at the same time.
func Of(state *conversationpb.State, answer *conversationpb.Message) *protocol.Task {
	task := New(state.GetId(), answer.GetNumber())
	task.Text, task.Said = answer.GetContent(), true
	switch lease, paused := state.GetLease(), state.GetPaused(); {
	case lease != nil && lease.GetAnswer().GetId() == answer.GetId():
		task.Status.At = lease.GetAttemptAt() // it goes on after a pause
	case len(state.GetPending()) > 0 && paused.GetAnswer().GetId() == answer.GetId():
		task.Status = Waiting(state.GetPending(), answer.GetUpdatedAt())
	default:
		task.Status = Ended(answer.GetStopReason(), answer.GetUpdatedAt())
		task.StopReason = reasonOf(answer.GetStopReason())
	}
	return task
}

// WithoutAnswer is the task of the newest message of a user, while there is no answer to it; nil when that is another one.
func WithoutAnswer(state *conversationpb.State, index uint64) *protocol.Task {
	task := New(state.GetId(), index+1)
	switch lease := state.GetLease(); {
	case index == 0 || index != state.GetMessageCount():
		return nil
	case lease != nil && lease.GetUserMessage().GetNumber() == index:
		task.Status.At = lease.GetStartedAt()
	case lease == nil && state.GetLastUserMessage() == index:
		task.Status = Ended(state.GetStopReason(), state.GetUpdatedAt())
		task.StopReason = reasonOf(state.GetStopReason())
	default:
		return nil
	}
	return task
}

// OfTurn is the task of a turn that has come to rest.
func OfTurn(conversation string, turn *conversationpb.TurnResult) *protocol.Task {
	answer := turn.GetResponse()
	number := answer.GetNumber()
	if number == 0 {
		number = turn.GetUserMessage().GetNumber() + 1
	}
	task := New(conversation, number)
	if len(turn.GetPending()) > 0 {
		task.Status = Waiting(turn.GetPending(), answer.GetUpdatedAt())
	} else {
		task.Status = Ended(turn.GetStopReason(), answer.GetUpdatedAt())
		task.StopReason = reasonOf(turn.GetStopReason())
	}
	task.Text, task.Said = answer.GetContent(), answer != nil
	return task
}

// Ended is the status of a turn that is over. What a limit cut is an answer all the same; what it cost too much is not.
func Ended(why conversationpb.StopReason, at int64) protocol.Status {
	status := protocol.Status{State: protocol.Completed, At: at}
	switch why {
	case conversationpb.StopReason_CANCELLED:
		status.State = protocol.Canceled
	case conversationpb.StopReason_ERROR:
		status.State, status.Notice = protocol.Failed, "The agent could not answer"
	case conversationpb.StopReason_BUDGET_REACHED:
		status.State, status.Notice = protocol.Failed, "The budget of the conversation is reached"
	case conversationpb.StopReason_STOP_UNSPECIFIED, conversationpb.StopReason_END_TURN, conversationpb.StopReason_REQUIRES_ACTION,
		conversationpb.StopReason_MAX_TURNS, conversationpb.StopReason_LIMIT:
	}
	return status
}

// reasonOf is why a turn stopped, where that is not the usual end.
func reasonOf(why conversationpb.StopReason) string {
	if why == conversationpb.StopReason_END_TURN {
		return ""
	}
	return why.WireName()
}
