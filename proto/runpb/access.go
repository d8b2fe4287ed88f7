// Package runpb is the data of background runs and of their queues, and who may touch a run.
package runpb

import "parley/proto/conversationpb"

// AccessOf says what a caller may do with a run: what it may do with a conversation of the same owner.
func (x *State) AccessOf(caller *conversationpb.Caller) conversationpb.Access {
	if x == nil {
		return conversationpb.AccessNone
	}
	owned := &conversationpb.State{TenantId: x.GetTenantId(), ProjectId: x.GetProjectId(), UserId: x.GetUserId()}
	return owned.AccessOf(caller)
}

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
