package convapi

import (
	"context"
	"slices"

	"parley/actors/core/failure"
	"parley/httpedge/filing"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// filesInput holds the ids of files that a message refers to, and the files sent inline.
type filesInput struct {
	given  []string
	inline []fileInput
	stored []*conversationpb.File // the inline ones, once their bytes are stored
}

// attach stores the bytes of a message's inline files, once, and returns the ids of all its files, and the opening of the command
// that adds the inline ones to the conversation.
func (a *API) attach(
	ctx context.Context, state *conversationpb.State, agent *agentpb.Agent, files *filesInput,
) (ids []string, opening *conversationpb.Opening, err error) {
	if len(files.given)+len(files.inline) == 0 {
		return nil, nil, nil
	}
	if agent != nil && !agent.GetCapabilities().GetAttachments().GetEnabled() {
		return nil, nil, failure.New(failurepb.Code_ATTACHMENTS_DISABLED, failure.FilesDisabled)
	}
	if files.stored == nil {
		if files.stored, err = a.storeInline(ctx, state.GetId(), state, agent, files.inline); err != nil {
			return nil, nil, err
		}
	}
	ids = slices.Clone(files.given)
	for _, file := range files.stored {
		ids = append(ids, file.GetId())
	}
	return ids, filing.Opening(files.stored, agent), nil
}
