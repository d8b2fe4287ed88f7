package convapi

import (
	"context"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/convapi/frames"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

type continueTurnIn struct {
	ID     string `path:"id"`
	Stream bool   `json:"stream" doc:"true: answer with an event stream"`
}

// continueTurn continues a turn that the budget cut short.
func (a *API) continueTurn(ctx context.Context, in *continueTurnIn, stream endpoint.Stream) (*body.ResumedTurn, error) {
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
	return nil, a.streamTurn(ctx, in.ID, stream, func() (*frames.MessageView, uint64, error) {
		reply, err := a.ask(ctx, command)
		if err != nil {
			return nil, 0, err
		}
		view := frames.NewMessageView(in.ID, reply.GetAccepted())
		view.Resume(state)
		return view, state.GetLastSeq(), nil
	})
}

// askResumed sends a command that resumes a turn and waits for the turn, at most for ResolveWait. A turn that takes
// longer continues, and the reply says that it is still running.
func (a *API) askResumed(ctx context.Context, command *conversationpb.Command) (*body.ResumedTurn, error) {
	if !plausible(command.GetConversationId()) {
		return nil, notFound(failure.ConversationNotFound)
	}
	reply, err := a.asker.AskResumed(ctx, command, a.config.ResolveWait)
	if err != nil {
		return nil, err
	}
	if begun := reply.GetAccepted(); begun != nil {
		return &body.ResumedTurn{Running: begun, ConversationID: command.GetConversationId()}, nil
	}
	result, err := a.turnResult(ctx, command.GetConversationId(), reply.GetTurn())
	if err != nil {
		return nil, err
	}
	return &body.ResumedTurn{Result: result}, nil
}
