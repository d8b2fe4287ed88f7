package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// update changes what the client may change (document 2, PATCH /conversations/:id), also while a turn runs. The
// event holds only what really changes; a patch that changes nothing stores nothing.
func (r *request) update(c *conversationpb.Update) *machine.Failure {
	asked, experience := c.GetPatch(), c.GetAgent().GetExperience()
	if asked == nil {
		return failure.New(failurepb.Code_VALIDATION, failure.PatchMissing)
	}
	if asked.Title != nil && experience != nil && !experience.GetRename() {
		return failure.New(failurepb.Code_ACTION_DISABLED, failure.RenameDisabled)
	}
	if asked.Pinned != nil && experience != nil && !experience.GetPin() {
		return failure.New(failurepb.Code_ACTION_DISABLED, failure.PinDisabled)
	}
	patch := &conversationpb.Patch{}
	for _, rule := range []func(asked, patch *conversationpb.Patch) *machine.Failure{
		r.patchTitle, r.patchPinned, r.patchObjects,
		func(asked, patch *conversationpb.Patch) *machine.Failure { return r.patchBudget(c, patch) },
	} {
		if f := rule(asked, patch); f != nil {
			return f
		}
	}
	if proto.Size(patch) == 0 {
		return r.reply(stateReply(r.state))
	}
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_Updated{Updated: &conversationpb.Updated{
		Patch: patch, CommandId: r.Command.GetCommandId(), IssuedAt: r.Command.GetIssuedAt(),
	}}})
	if run := r.state.GetLease().GetRunId(); run != "" && (patch.GetBudget() != nil || patch.GetRemoveBudget()) {
		r.Effect(MeterTurn{RunID: run})
	}
	r.next()
	return r.reply(stateReply(r.State()))
}

// updateAgain answers a repeat with the conversation as it is now.
func (r *request) updateAgain(first *conversationpb.Outcome, _ *conversationpb.Update) *machine.Failure {
	if first.GetRunId() != "" {
		return r.usedOtherwise()
	}
	return r.reply(stateReply(r.state))
}
