package handler

import (
	"context"
	"errors"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// ResponseOf is the result of a turn as a response.
func (a *API) ResponseOf(
	ctx context.Context, id, agent string, turn *conversationpb.TurnResult,
) (*render.Response, error) {
	if err := a.Asker().Complete(ctx, id, turn); err != nil {
		return nil, SessionFailure(err)
	}
	return &render.Response{Session: id, Agent: agent, Turn: turn}, nil
}

// Ask sends a command about a session, once.
func (a *API) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !turns.Plausible(command.GetConversationId()) {
		return nil, SessionNotFound()
	}
	reply, err := a.Asker().Ask(ctx, command)
	return reply, SessionFailure(err)
}

// AskUntilSettled is Ask for a caller who waits for a turn; it survives a change of the owner.
func (a *API) AskUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !turns.Plausible(command.GetConversationId()) {
		return nil, SessionNotFound()
	}
	reply, err := a.Asker().AskUntilSettled(ctx, command)
	return reply, SessionFailure(err)
}

// Session returns the head of a session. One that the caller may not see is not found.
func (a *API) Session(ctx context.Context, id string) (*conversationpb.State, error) {
	if !turns.Plausible(id) {
		return nil, SessionNotFound()
	}
	reply, err := entity.Read[*nodepb.StateReply](ctx, a.Entities, &nodepb.StateQuery{Id: id})
	if err != nil {
		return nil, SessionFailure(err)
	}
	if !Visible(ctx, reply.GetState()) {
		return nil, SessionNotFound()
	}
	return reply.GetState(), nil
}

// Visible says whether a conversation is a session of the caller's.
func Visible(ctx context.Context, state *conversationpb.State) bool {
	return state.IsSession() && state.AccessOf(callerOf(ctx)) == conversationpb.AccessGranted
}

// SessionNotFound is the failure for a session that does not exist for the caller.
func SessionNotFound() *failure.Failure {
	return failure.New(failurepb.Code_SESSION_NOT_FOUND, failure.SessionNotFound)
}

// SessionFailure hides sessions of other callers: they are not found.
func SessionFailure(err error) error {
	refused, is := errors.AsType[*failure.Failure](err)
	if !is {
		return err
	}
	switch refused.Reason {
	case failure.ConversationNotFound, failure.ConversationDeleted, failure.AccessDenied:
		return SessionNotFound()
	default:
		return err
	}
}
