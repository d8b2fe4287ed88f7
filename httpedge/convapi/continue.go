package convapi

import (
	"context"
	"time"

	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
)

type continueTurnIn struct {
	ID     string `path:"id"`
	Stream bool   `json:"stream" doc:"true: answer with an event stream"`
}

// continueTurn goes on with a turn that the budget cut short.
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

// askResumed sends a command that resumes a turn and waits for the turn, for as long as ResolveWait. A turn that takes
// longer goes on, and its caller is told so.
func (a *API) askResumed(ctx context.Context, command *conversationpb.Command) (*resumedTurn, error) {
	id := command.GetConversationId()
	wait, cancel := context.WithTimeout(ctx, a.resolveWait(ctx))
	reply, err := a.askUntilSettled(wait, command)
	over := wait.Err() != nil
	cancel()
	if err != nil && over && ctx.Err() == nil {
		reply, err = a.ask(ctx, withoutWait(command.Again())) // whether it was accepted is what its repeat tells
	}
	if err != nil {
		return nil, err
	}
	if begun := reply.GetAccepted(); begun != nil {
		return &resumedTurn{running: begun.GetRunId()}, nil
	}
	result, err := a.turnResult(ctx, id, reply.GetTurn())
	if err != nil {
		return nil, err
	}
	return &resumedTurn{result: result}, nil
}

// resolveWait is how long this request may wait: it must be answered before its own time is over.
func (a *API) resolveWait(ctx context.Context) time.Duration {
	const toAnswer = 5 * time.Second
	wait := a.config.ResolveWait
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		wait = min(wait, max(left-toAnswer, left/2))
	}
	return wait
}

func withoutWait(command *conversationpb.Command) *conversationpb.Command {
	if resolve := command.GetResolve(); resolve != nil {
		resolve.Wait = false
	}
	if proceed := command.GetContinue(); proceed != nil {
		proceed.Wait = false
	}
	return command
}
