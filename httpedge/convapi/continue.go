package convapi

import (
	"context"

	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

type continueTurnIn struct {
	ID     string `path:"id"`
	Stream bool   `json:"stream" doc:"true: answer with an event stream"`
}

// continueTurn continues a turn that the budget cut short.
func (a *API) continueTurn(ctx context.Context, in *continueTurnIn, stream endpoint.Stream) (*resumedTurn, error) {
	state, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Continue{Continue: &conversationpb.Continue{
		Agent: a.agentOf(state), Wait: !in.Stream,
	}}
	if !in.Stream {
		return a.askResumed(ctx, command)
	}
	return nil, a.streamTurn(ctx, in.ID, stream, func() (*messageView, uint64, error) {
		reply, err := a.ask(ctx, command)
		if err != nil {
			return nil, 0, err
		}
		view := newMessageView(in.ID, reply.GetAccepted())
		view.resume(state)
		return view, state.GetLastSeq(), nil
	})
}

// askResumed sends a command that resumes a turn and waits for the turn, at most for ResolveWait. A turn that takes
// longer continues, and the reply says that it is still running.
func (a *API) askResumed(ctx context.Context, command *conversationpb.Command) (*resumedTurn, error) {
	if !plausible(command.GetConversationId()) {
		return nil, notFound("conversation")
	}
	reply, err := a.asker.AskResumed(ctx, command, a.config.ResolveWait)
	if err != nil {
		return nil, err
	}
	if begun := reply.GetAccepted(); begun != nil {
		return &resumedTurn{running: begun, conversationID: command.GetConversationId()}, nil
	}
	result, err := a.turnResult(ctx, command.GetConversationId(), reply.GetTurn())
	if err != nil {
		return nil, err
	}
	return &resumedTurn{result: result}, nil
}
