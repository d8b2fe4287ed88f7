package run

import (
	"strings"

	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// Types of the errors with which a run fails, beside those of the turn.
const (
	errorBudget  = "budget_reached"
	errorUnknown = "server_error"

	maxErrorType = 64   // bytes
	maxError     = 1000 // bytes
)

// howEnded is what a run comes to whose turn ended so. A turn that was cut by its limits has an answer: it succeeded.
func howEnded(c *runpb.Ended) (runpb.Status, *runpb.Error) {
	turn := c.GetTurn()
	if own := c.GetError(); own != nil {
		return failedWith(own.GetType(), own.GetMessage())
	}
	switch turn.GetStopReason() {
	case conversationpb.StopReason_END_TURN, conversationpb.StopReason_LIMIT, conversationpb.StopReason_MAX_TURNS:
		if turn.GetError() == nil {
			return runpb.Status_SUCCEEDED, nil
		}
	case conversationpb.StopReason_CANCELLED:
		return runpb.Status_CANCELED, nil
	case conversationpb.StopReason_BUDGET_REACHED:
		return failedWith(errorBudget, "The budget of the session is used up.")
	case conversationpb.StopReason_ERROR, conversationpb.StopReason_REQUIRES_ACTION, conversationpb.StopReason_STOP_UNSPECIFIED:
	}
	return failedWith(turn.GetError().GetCode(), turn.GetError().GetMessage())
}

func failedWith(kind, message string) (runpb.Status, *runpb.Error) {
	return runpb.Status_FAILED, &runpb.Error{
		Type: clean(kind, errorUnknown, maxErrorType), Message: clean(message, "The run failed.", maxError),
	}
}

// clean makes a text storable, and says something when it says nothing.
func clean(text, otherwise string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if text == "" {
		return otherwise
	}
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
