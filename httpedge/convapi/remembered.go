package convapi

import (
	"context"

	"parley/proto/conversationpb"
)

type toolList struct {
	Tools []string `json:"tools" doc:"Names of the tools that need no approval any more in this conversation"`
}

func (a *API) listRememberedTools(ctx context.Context, in *conversationIn) (*toolList, error) {
	state, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &toolList{orEmpty(state.GetRememberedTools())}, nil
}

type forgetToolIn struct {
	ID   string `path:"id"`
	Tool string `path:"tool" doc:"The rest of the path"`
}

// forgetTool removes a remembered approval: the tool needs approval again.
func (a *API) forgetTool(ctx context.Context, in *forgetToolIn) (*toolList, error) {
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Forget{Forget: &conversationpb.Forget{Tool: in.Tool}}
	reply, err := a.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	return &toolList{orEmpty(reply.GetTools().GetTools())}, nil
}
