package convapi

import (
	"context"
	"errors"
	"slices"

	"parley/actors/machine"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// filesInput is the files that a message names, and those that come with it.
type filesInput struct {
	given  []string
	inline []fileInput
	stored []string // ids of the inline ones, once they are files of the conversation
	done   bool
}

// attach stores the files that come with a message, once, and returns the ids of all its files.
func (a *API) attach(
	ctx context.Context, state *conversationpb.State, agent *agentpb.Agent, files *filesInput,
) ([]string, error) {
	if len(files.given)+len(files.inline) == 0 {
		return nil, nil
	}
	if agent != nil && !agent.GetCapabilities().GetAttachments().GetEnabled() {
		return nil, machine.Fail(failurepb.Code_ATTACHMENTS_DISABLED, "the agent does not take files")
	}
	if len(files.inline) > 0 && !files.done {
		stored, err := a.storeInline(ctx, state, agent, files.inline)
		if err != nil {
			return nil, err
		}
		files.stored, files.done = stored, true
	}
	return slices.Concat(files.given, files.stored), nil
}

// detach removes what was stored for a message that was then refused. What the answer to it leaves open stays.
func (a *API) detach(ctx context.Context, id string, files *filesInput, refused error) {
	var failure *machine.Failure
	if len(files.stored) == 0 || !errors.As(refused, &failure) || turns.Gone(refused) {
		return
	}
	a.filer.Remove(ctx, files.stored, func() *conversationpb.Command { return a.command(ctx, id) })
}
