package background

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
)

// Waits reads which of the actions, for which a turn paused, its conversation still waits for; none: the turn goes on, or has gone
// on. What works for a conversation hears of that a moment later, and is shown as its conversation is meanwhile. Nil as well
// as false: the conversation is gone.
func Waits(
	view kit.View, conversationID, turn string, paused []*conversationpb.PendingAction,
) (left []*conversationpb.PendingAction, found bool, err error) {
	head, found, err := view.Head(conversationID)
	if err != nil || !found {
		return nil, false, err
	}
	state := &conversationpb.State{}
	if err = proto.Unmarshal(head.State, state); err != nil {
		return nil, false, fmt.Errorf("decode head: %w", err)
	}
	if state.GetStatus() != conversationpb.Status_WAITING || state.GetPaused().GetRunId() != turn {
		return nil, true, nil
	}
	return Both(paused, state.GetPending()), true, nil
}

// Both are the actions of one list that are in another, too.
func Both(actions, others []*conversationpb.PendingAction) (both []*conversationpb.PendingAction) {
	known := make(map[string]bool, len(others))
	for _, other := range others {
		known[other.GetId()] = true
	}
	for _, action := range actions {
		if known[action.GetId()] {
			both = append(both, action)
		}
	}
	return both
}
