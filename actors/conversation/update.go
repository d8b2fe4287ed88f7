package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// update changes what the client may change (document 2, PATCH /conversations/:id), also while a turn runs. The
// event holds only what really changes; a patch that changes nothing stores nothing. A repeat of the command is answered
// with the conversation as it is now.
func (r *request) update(c *conversationpb.Update) (machine.Decision, *machine.Failure) {
	first, f := r.admit()
	switch {
	case f != nil:
		return machine.Decision{}, f
	case first.GetRunId() != "":
		return r.usedOtherwise()
	case first != nil:
		return machine.Decision{Reply: stateReply(r.state)}, nil
	}
	asked, experience := c.GetPatch(), c.GetAgent().GetExperience()
	if asked == nil {
		return refuse(failure.New(failurepb.Code_VALIDATION, failure.PatchMissing))
	}
	if asked.Title != nil && experience != nil && !experience.GetRename() {
		return refuse(failure.New(failurepb.Code_ACTION_DISABLED, failure.RenameDisabled))
	}
	if asked.Pinned != nil && experience != nil && !experience.GetPin() {
		return refuse(failure.New(failurepb.Code_ACTION_DISABLED, failure.PinDisabled))
	}
	patch := &conversationpb.Patch{}
	for _, rule := range []func(asked, patch *conversationpb.Patch) *machine.Failure{
		r.patchTitle, r.patchPinned, r.patchObjects,
		func(asked, patch *conversationpb.Patch) *machine.Failure { return r.patchBudget(c, patch) },
	} {
		if f := rule(asked, patch); f != nil {
			return machine.Decision{}, f
		}
	}
	if proto.Size(patch) == 0 {
		return machine.Decision{Reply: stateReply(r.state)}, nil
	}
	r.emit("", &conversationpb.Event{Body: &conversationpb.Event_Updated{Updated: &conversationpb.Updated{
		Patch: patch, CommandId: r.command.GetCommandId(), IssuedAt: r.command.GetIssuedAt(),
	}}})
	decision := machine.Decision{Events: r.events, Reply: stateReply(r.after())}
	if run := r.state.GetLease().GetRunId(); run != "" && (patch.GetBudget() != nil || patch.GetRemoveBudget()) {
		decision.Effects = []machine.Effect{MeterTurn{RunID: run}}
	}
	return decision, nil
}
