// Package runpb is the data of background runs and of their queues.
package runpb

import "parley/proto/conversationpb"

// Over says that nothing of the run is to come.
func (x *State) Over() bool {
	switch x.GetStatus() {
	case Status_SUCCEEDED, Status_FAILED, Status_CANCELED:
		return true
	default:
		return false
	}
}

// SecretAbout is what the sealed secret of a run's callback belongs to: whoever seals it says so, and whoever opens it.
func SecretAbout(runID string) string { return "callback_secret/" + runID }

// WireName is the status as the Client API names it.
func (s Status) WireName() string {
	switch s {
	case Status_RUNNING:
		return "running"
	case Status_REQUIRES_ACTION:
		return "requires_action"
	case Status_SUCCEEDED:
		return "succeeded"
	case Status_FAILED:
		return "failed"
	case Status_CANCELED:
		return "canceled"
	default:
		return "queued"
	}
}

// ListRow is what lists show of the run.
func (x *State) ListRow() *conversationpb.ListRow {
	return &conversationpb.ListRow{
		Id: x.GetId(), UserId: x.GetUserId(), AgentId: x.GetAgentId(), SessionId: x.GetConversationId(), Status: x.GetStatus().WireName(),
		StopReason: x.GetError().GetType(), Waiting: uint32(len(x.GetPending())), CreatedAt: x.GetCreatedAt(), UpdatedAt: x.GetUpdatedAt(),
		LastSeq: x.GetLastSeq(),
	}
}
