package conversation

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// What a client sets of a conversation is all here: how it is checked when the conversation is created (fill) and changed (patch...),
// what its event does to the state (updated), and that the state keeps it (fork).

// fill adds what the client chose.
func (r *request) fill(state *conversationpb.State, c *conversationpb.Create) (f *machine.Failure) {
	if state.Title, f = r.title(c.GetTitle()); f != nil {
		return f
	}
	if state.GetTitle() == "" && c.GetFirstMessage() != "" {
		state.Title = r.naming(c.GetFirstMessage())
		state.TitleGenerated, state.TitleProvisional = state.GetTitle() != "", state.GetTitle() != ""
	}
	if state.Metadata, f = machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes); f != nil {
		return f
	}
	if state.ServerMetadata, f = serverObject(c.GetServerMetadata(), r.limits.MetadataBytes); f != nil {
		return f
	}
	if f = r.checkContext(c.GetRuntimeContext()); f != nil {
		return f
	}
	state.RuntimeContext = c.GetRuntimeContext()
	budget := c.GetBudget()
	if own := c.GetAgent().GetDefaultBudget(); budget == nil && own != nil {
		budget = &conversationpb.Budget{MaxCostNanoUsd: own.GetMaxCostNanoUsd(), OnReach: own.GetOnReach()}
	}
	if budget != nil {
		state.Budget, f = checkBudget(budget, 0, c.GetAgent())
	}
	return f
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

func updated(next *conversationpb.State, event *conversationpb.Event, change *conversationpb.Updated) {
	patch := change.GetPatch()
	if patch != nil && patch.Title != nil {
		next.Title, next.TitleGenerated, next.TitleProvisional = patch.GetTitle(), change.GetTitleGenerated(), false
	}
	if patch != nil && patch.Pinned != nil {
		next.Pinned = patch.GetPinned()
	}
	if patch.GetMetadata() != nil {
		next.Metadata = patch.GetMetadata()
	}
	if patch.GetRuntimeContext() != nil {
		next.RuntimeContext = patch.GetRuntimeContext()
	}
	if patch.GetBudget() != nil {
		next.Budget = patch.GetBudget()
	}
	if patch.GetRemoveBudget() {
		next.Budget, next.ReachedNanoUsd = nil, 0
	}
	usage := change.GetUsage()
	next.SpentNanoUsd = money.Add(next.GetSpentNanoUsd(), usage.GetCostNanoUsd())
	next.SpentUnknown = next.GetSpentUnknown() || usage.GetModelCalls() > 0 && !usage.GetPriced()
	next.UpdatedAt = max(next.GetUpdatedAt(), event.GetCreatedAt())
}

// fork copies the state and shares what it points to: a tenth of the cost of a deep copy, and safe because apply
// replaces. A test holds it against the message's fields.
func fork(s *conversationpb.State) *conversationpb.State {
	if s == nil {
		return new(conversationpb.State)
	}
	next := &conversationpb.State{
		Id:              s.Id,
		TenantId:        s.TenantId,
		ProjectId:       s.ProjectId,
		AgentId:         s.AgentId,
		AgentName:       s.AgentName,
		UserId:          s.UserId,
		Title:           s.Title,
		Metadata:        s.Metadata,
		ServerMetadata:  s.ServerMetadata,
		State:           s.State,
		Pinned:          s.Pinned,
		Budget:          s.Budget,
		SpentNanoUsd:    s.SpentNanoUsd,
		SpentUnknown:    s.SpentUnknown,
		Status:          s.Status,
		StopReason:      s.StopReason,
		Continuable:     s.Continuable,
		Lease:           s.Lease,
		Pending:         s.Pending,
		LastSeq:         s.LastSeq,
		NextMessage:     s.NextMessage,
		MessageCount:    s.MessageCount,
		CreatedAt:       s.CreatedAt,
		CreatedMicros:   s.CreatedMicros,
		UpdatedAt:       s.UpdatedAt,
		RememberedTools: s.RememberedTools,
		Source:          s.Source,
		RuntimeContext:  s.RuntimeContext,
		LastRunId:       s.LastRunId,
		LastUserMessage: s.LastUserMessage,
		Outcomes:        s.Outcomes,
		TakenOver:       s.TakenOver,
		ForgottenAt:     s.ForgottenAt,
		Paused:          s.Paused,
		Files:           s.Files,
		Closed:          s.Closed,
		LastAnswer:      s.LastAnswer,
		Rewritten:       s.Rewritten,
		TitleGenerated:  s.TitleGenerated,
		ReachedNanoUsd:  s.ReachedNanoUsd,
		BackgroundRun:   s.BackgroundRun,

		TitleProvisional: s.TitleProvisional,
		Pushes:           s.Pushes,
		Queue:            s.Queue,
		Forgotten:        s.Forgotten,
		ForgottenRest:    s.ForgottenRest,
	}
	keepUnknown(s, next)
	return next
}
