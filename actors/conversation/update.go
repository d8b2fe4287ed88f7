package conversation

import (
	"bytes"

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

func (r *request) patchTitle(asked, patch *conversationpb.Patch) *machine.Failure {
	if asked.Title == nil {
		return nil
	}
	title, f := r.title(asked.GetTitle())
	if f == nil && (title != r.state.GetTitle() || r.state.GetTitleGenerated()) {
		patch.Title = &title
	}
	return f
}

func (r *request) patchPinned(asked, patch *conversationpb.Patch) *machine.Failure {
	if asked.Pinned != nil && asked.GetPinned() != r.state.GetPinned() {
		patch.Pinned = asked.Pinned
	}
	return nil
}

// patchObjects replaces the client's JSON objects as wholes.
func (r *request) patchObjects(asked, patch *conversationpb.Patch) *machine.Failure {
	if asked.Metadata != nil {
		metadata, f := machine.ClientObject("metadata", asked.GetMetadata(), r.limits.MetadataBytes)
		if f != nil {
			return f
		}
		if !bytes.Equal(metadata, r.state.GetMetadata()) {
			patch.Metadata = append([]byte{}, metadata...)
		}
	}
	if asked.RuntimeContext == nil {
		return nil
	}
	sealed := asked.GetRuntimeContext()
	if f := r.checkContext(sealed); f != nil {
		return f
	}
	if !bytes.Equal(sealed, r.state.GetRuntimeContext()) {
		patch.RuntimeContext = sealed
	}
	return nil
}

func (r *request) patchBudget(c *conversationpb.Update, patch *conversationpb.Patch) *machine.Failure {
	asked, current := c.GetPatch(), r.state.GetBudget()
	if asked.GetBudget() == nil {
		patch.RemoveBudget = asked.GetRemoveBudget() && current != nil
		return nil
	}
	if asked.GetRemoveBudget() {
		return failure.New(failurepb.Code_INVALID_BUDGET, failure.BudgetSetAndRemoved).In("budget")
	}
	budget, f := checkBudget(asked.GetBudget(), r.state.GetSpentNanoUsd(), c.GetAgent())
	if f == nil && !proto.Equal(budget, current) {
		patch.Budget = budget
	}
	return f
}
