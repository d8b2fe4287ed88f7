package convapi

import (
	"context"
	"slices"

	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/convapi/frames"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

type resolveActionIn struct {
	ID         string          `path:"id"`
	ActionID   string          `path:"actionId"`
	Resolution resolutionInput `json:"resolution" required:"true"`
	Stream     bool            `json:"stream" doc:"true: answer with an event stream"`
}

// Validate implements endpoint.Validator.
func (in *resolveActionIn) Validate() *failure.Failure {
	if in.Resolution.resolve == nil {
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("resolution")
	}
	return nil
}

// resolveAction decides a pending action; the turn goes on once none is pending any more.
func (a *API) resolveAction(ctx context.Context, in *resolveActionIn, stream endpoint.Stream) (*body.ResumedTurn, error) {
	state, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(state.GetPending(), func(p *conversationpb.PendingAction) bool { return p.GetId() == in.ActionID })
	var action *conversationpb.PendingAction
	if at >= 0 {
		action = state.GetPending()[at]
	}
	resolve := in.Resolution.resolve
	resolve.ActionId = in.ActionID
	if err := a.mayResolve(ctx, state, action, resolve); err != nil {
		return nil, err
	}
	if err := turns.Judge(ctx, a.checkArgs, state.GetPending(), resolve); err != nil {
		return nil, err
	}
	resolve.Agent, resolve.Wait = a.agentOf(state), !in.Stream
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Resolve{Resolve: resolve}
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
		view.Resolve(resolve, action, reply.GetTurn())
		// Follow from the event that closes the action, whatever the turn does afterwards.
		return view, state.GetLastSeq(), nil
	})
}

func (a *API) mayResolve(
	ctx context.Context, state *conversationpb.State, action *conversationpb.PendingAction, resolve *conversationpb.Resolve,
) error {
	if a.authorizer == nil {
		return nil
	}
	return a.authorizer.AuthorizeResolve(ctx, &endpoint.ActionDecision{
		ConversationID: state.GetId(), AgentID: state.GetAgentId(), OwnerID: state.GetUserId(),
		ActionID: resolve.GetActionId(), Action: action, Resolution: resolve,
	})
}
