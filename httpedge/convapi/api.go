package convapi

import (
	"context"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/export"
	"parley/httpedge/filing"
	"parley/httpedge/sse"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// Parts is what the API needs of the rest of the node.
type Parts struct {
	Runtime endpoint.Runtime
	Agents  endpoint.Agents
	IDs     endpoint.IDs
	Hub     *sse.Hub // carries the streams
	Files   endpoint.Files
	// Entities sends commands and queries to the entities in the shards.
	Entities entity.Client
	PDF      export.Printer // nil = exports as PDF are not supported
	// Authorizer permits raising budgets and resolving actions. nil = every caller with access may.
	Authorizer endpoint.Authorizer
	// CheckCallback returns an error for the caller when callbacks may not go to a URL. nil = any URL is allowed.
	CheckCallback func(ctx context.Context, url string) error
	// CheckArgs checks the arguments that a person sets for a tool call. nil = the conversation's rules do, if they are small.
	CheckArgs turns.CheckArgs
	// CanQueue says whether every node of the cluster knows of queued messages. nil = they do.
	CanQueue func() bool
	// CountsFiles says whether every node of the cluster counts the files that are kept. nil = they do not.
	CountsFiles func() bool
}

// API is the handlers of the conversation server. It holds no state of its own.
type API struct {
	config Config
	asker  turns.Asker
	agents endpoint.Agents
	ids    endpoint.IDs
	hub    *sse.Hub
	docs   documents

	authorizer endpoint.Authorizer

	entities      entity.Client
	checkCallback func(ctx context.Context, url string) error
	files         endpoint.Files
	filer         filing.Filer
	pdf           export.Printer
	canQueue      func() bool
	checkArgs     turns.CheckArgs
}

// New returns the API. The configuration must be valid.
func New(config Config, parts Parts) *API {
	asker := turns.Asker{Runtime: parts.Runtime, Entities: parts.Entities}
	return &API{
		config: config,
		asker:  asker, agents: parts.Agents, ids: parts.IDs, hub: parts.Hub,
		authorizer: parts.Authorizer, checkCallback: parts.CheckCallback, entities: parts.Entities,
		files: parts.Files, filer: filing.Filer{Asker: asker, Files: parts.Files, IDs: parts.IDs, MaxBytes: config.FileBytes, Counts: parts.CountsFiles}, pdf: parts.PDF,
		canQueue: parts.CanQueue, checkArgs: parts.CheckArgs,
	}
}

// command returns a command of the request's caller. Its id makes a retry on the way to the owner harmless.
func (a *API) command(ctx context.Context, conversationID string) *conversationpb.Command {
	return &conversationpb.Command{
		ConversationId: conversationID,
		CommandId:      a.ids.NewID("cmd"),
		Caller:         callerOf(ctx),
		IssuedAt:       time.Now().UnixMilli(),
	}
}

// callerOf converts the caller to the form that the rules take.
func callerOf(ctx context.Context) *conversationpb.Caller {
	caller := endpoint.CallerFrom(ctx)
	return &conversationpb.Caller{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, UserId: caller.UserID,
		Identified: caller.Identified, Trusted: caller.Trusted,
	}
}

// ask sends a command, once.
func (a *API) ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !plausible(command.GetConversationId()) {
		return nil, notFound(failure.ConversationNotFound)
	}
	return a.asker.Ask(ctx, command)
}

// askUntilSettled is ask for a caller who waits for a turn. It retries when the owner moves meanwhile.
func (a *API) askUntilSettled(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if !plausible(command.GetConversationId()) {
		return nil, notFound(failure.ConversationNotFound)
	}
	return a.asker.AskUntilSettled(ctx, command)
}

// state returns a conversation's head, or a NOT_FOUND failure.
func (a *API) state(ctx context.Context, id string) (*conversationpb.State, error) {
	reply, err := entity.Read[*nodepb.StateReply](ctx, a.entities, &nodepb.StateQuery{Id: id})
	return reply.GetState(), err
}

// readable returns a conversation's head if the caller may see it.
func (a *API) readable(ctx context.Context, id string) (*conversationpb.State, error) {
	if !plausible(id) {
		return nil, notFound(failure.ConversationNotFound)
	}
	state, err := a.state(ctx, id)
	if err != nil {
		return nil, err
	}
	return state, access(ctx, state)
}

// access refuses a caller who may not see a conversation.
func access(ctx context.Context, state *conversationpb.State) error {
	switch state.AccessOf(callerOf(ctx)) {
	case conversationpb.AccessGranted:
		return nil
	case conversationpb.AccessDenied:
		return failure.New(failurepb.Code_FORBIDDEN, failure.AccessDenied)
	default:
		return notFound(failure.ConversationNotFound)
	}
}

// agentOf returns what the rules read of a conversation's agent, nil when it was deleted.
func (a *API) agentOf(state *conversationpb.State) *agentpb.Agent {
	found, ok := a.agents.Agent(state.GetProjectId(), state.GetAgentId())
	if !ok {
		return nil
	}
	return found.Rules()
}

func plausible(id string) bool { return turns.Plausible(id) }

func notFound(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_NOT_FOUND, reason)
}
