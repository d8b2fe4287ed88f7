package clientapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/filing"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// asker asks conversations.
func (a *API) asker() turns.Asker {
	return turns.Asker{Runtime: a.Runtime, Reader: a.Reader, Features: a.Features}
}

// filer stores files.
func (a *API) filer() filing.Filer {
	return filing.Filer{Asker: a.asker(), Files: a.Files, IDs: a.IDs, MaxBytes: int64(a.config.FileBytes)}
}

// command returns a command of the request's caller. step names it within the request, so that the same request given again
// (Idempotency-Key) gives the same command again.
func (a *API) command(ctx context.Context, conversationID, step string) *conversationpb.Command {
	return &conversationpb.Command{
		ConversationId: conversationID,
		CommandId:      a.commandID(ctx, step),
		Caller:         callerOf(ctx),
		IssuedAt:       time.Now().UnixMilli(),
	}
}

func (a *API) commandID(ctx context.Context, step string) string {
	if key := endpoint.RequestKey(ctx); key != "" {
		return key + "/" + step
	}
	return a.IDs.NewID("cmd")
}

// mint makes the id of what the request makes: the same one when it is given again. like, if any, is an id that it has to
// route like.
func (a *API) mint(ctx context.Context, kind, like string) string {
	key := endpoint.RequestKey(ctx)
	switch {
	case key != "" && like != "":
		return a.IDs.NewIDFromFor(kind, key, like)
	case key != "":
		return a.IDs.NewIDFrom(kind, key)
	case like != "":
		return a.IDs.NewIDFor(kind, like)
	}
	return a.IDs.NewID(kind)
}

// callerOf is the caller as the rules know it.
func callerOf(ctx context.Context) *conversationpb.Caller {
	caller := endpoint.CallerFrom(ctx)
	who := &conversationpb.Caller{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, UserId: caller.UserID,
		Identified: caller.Identified, Trusted: caller.Trusted,
	}
	if caller.Grant != nil {
		who.TokenId = caller.Grant.Token.GetId()
	}
	return who
}

// ask sends a command about a session, once.
func (a *API) ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !turns.Plausible(command.GetConversationId()) {
		return nil, sessionNotFound()
	}
	reply, err := a.asker().Ask(ctx, command)
	return reply, sessionFailure(err)
}

// askUntilSettled is ask for a caller who waits for a turn, whatever becomes of its owner meanwhile.
func (a *API) askUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !turns.Plausible(command.GetConversationId()) {
		return nil, sessionNotFound()
	}
	reply, err := a.asker().AskUntilSettled(ctx, command)
	return reply, sessionFailure(err)
}

// session returns the head of a session that the caller may see. Any other is not there.
func (a *API) session(ctx context.Context, id string) (*conversationpb.State, error) {
	if !turns.Plausible(id) {
		return nil, sessionNotFound()
	}
	state, err := a.Reader.State(ctx, id)
	if err != nil {
		return nil, sessionFailure(err)
	}
	if !visible(ctx, state) {
		return nil, sessionNotFound()
	}
	return state, nil
}

// visible says whether a conversation is a session of the caller's.
func visible(ctx context.Context, state *conversationpb.State) bool {
	return state.IsSession() && state.AccessOf(callerOf(ctx)) == conversationpb.AccessGranted
}

func sessionNotFound() *machine.Failure {
	return machine.Fail(failurepb.Code_SESSION_NOT_FOUND, "Session not found")
}

// sessionFailure answers what this surface does not tell apart: somebody else's session is not there.
func sessionFailure(err error) error {
	refused, is := errors.AsType[*failure.Failure](err)
	if !is {
		return err
	}
	switch missing := refused.Reason == failure.ConversationNotFound || refused.Reason == failure.ConversationDeleted; {
	case missing, refused.Code == failurepb.Code_FORBIDDEN:
		return sessionNotFound()
	default:
		return err
	}
}

// activeAgent returns the agent with which something new is to begin.
func (a *API) activeAgent(ctx context.Context, key string) (*agentpb.Agent, error) {
	const longest = 256
	if len(key) > longest || strings.Contains(key, "/") {
		return nil, agentNotFound()
	}
	project := endpoint.CallerFrom(ctx).ProjectID
	agent, ok := a.Agents.Agent(project, key)
	if !ok {
		status, err := a.storedStatus(ctx, project, key)
		if err != nil {
			return nil, err
		}
		if status != statusActive {
			return nil, agentNotActive()
		}
		if agent, ok = a.Agents.Agent(project, key); !ok { // made on another node a moment ago
			return nil, agentNotFound()
		}
	}
	if status := agent.GetStatus(); status != "" && status != statusActive {
		return nil, agentNotActive()
	}
	return agent, nil
}

const statusActive = "active"

// storedStatus is what an agent's record says of an agent that cannot be run, or AGENT_NOT_FOUND.
func (a *API) storedStatus(ctx context.Context, project, key string) (string, error) {
	agent, err := a.Catalog.Agent(ctx, project, key)
	if _, missing := errors.AsType[*collection.MissingError](err); missing {
		return "", agentNotFound()
	}
	return agent.GetStatus(), err
}

// agentOf returns what a session's agent is now, or why there is none.
func (a *API) agentOf(ctx context.Context, state *conversationpb.State) (*agentpb.Agent, error) {
	return a.activeAgent(ctx, state.GetAgentId())
}

// knownAgent is the session's agent as far as the rules want to know it; nil when it is gone.
func (a *API) knownAgent(state *conversationpb.State) *agentpb.Agent {
	if agent, ok := a.Agents.Agent(state.GetProjectId(), state.GetAgentId()); ok {
		return agent
	}
	return nil
}

func agentNotFound() *machine.Failure {
	return machine.Fail(failurepb.Code_AGENT_NOT_FOUND, "Agent not found")
}

func agentNotActive() *machine.Failure {
	return machine.Fail(failurepb.Code_AGENT_NOT_ACTIVE, "Agent is not active")
}

func invalid(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_INVALID_REQUEST, format, args...)
}

// nested is a failure about one of the input's items.
func nested(at int, refused *failure.Failure) *failure.Failure {
	return refused.WithCode(failurepb.Code_INVALID_REQUEST).At(fmt.Sprintf("input[%d]", at))
}

func isCode(err error, code failurepb.Code) bool {
	var refused *machine.Failure
	return errors.As(err, &refused) && refused.Code == code
}
