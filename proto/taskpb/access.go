// Package taskpb is the data of background tasks, and who may touch them.
package taskpb

import "parley/proto/conversationpb"

// AccessOf says what a caller may do with a task: what it may do with a conversation of the same owner.
func (x *State) AccessOf(caller *conversationpb.Caller) conversationpb.Access {
	if x == nil {
		return conversationpb.AccessNone
	}
	owned := &conversationpb.State{TenantId: x.GetTenantId(), ProjectId: x.GetProjectId(), UserId: x.GetUserId()}
	return owned.AccessOf(caller)
}
