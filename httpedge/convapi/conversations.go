package convapi

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/convapi/body"
	"parley/httpedge/endpoint"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

type listConversationsIn struct {
	AgentID string `query:"agentId" doc:"Only conversations with this agent"`
	UserID  string `query:"userId" doc:"Whose conversations; honoured only when the request carries no identity"`
	Limit   int    `query:"limit"`
	Offset  int    `query:"offset"`
	OrderBy string `query:"orderBy" enum:"createdAt,updatedAt" default:"createdAt"`
	Order   string `query:"order" enum:"asc,desc" default:"desc"`
	Pinned  string `query:"pinned" enum:"first,none" default:"first" doc:"first: pinned ones before all others, across pages"`
}

func (a *API) listConversations(ctx context.Context, in *listConversationsIn) (*body.ConversationList, error) {
	caller := endpoint.CallerFrom(ctx) // includes the query's userId where it is trusted
	if caller.UserID == "" && !a.config.AllowAnonymousList {
		return nil, failure.New(failurepb.Code_IDENTITY_REQUIRED, failure.IdentityRequiredToList)
	}
	page, err := entity.Read[*conversationpb.ConversationsReply](ctx, a.entities, &conversationpb.ConversationsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, UserId: caller.UserID,
		AgentId:     in.AgentID,
		ByUpdated:   in.OrderBy == "updatedAt",
		Ascending:   in.Order == "asc",
		PinnedFirst: in.Pinned == "first",
		Limit:       int64(in.Limit), Offset: int64(in.Offset),
	})
	if err != nil {
		return nil, err
	}
	return &body.ConversationList{Page: page, Limit: in.Limit, Offset: in.Offset}, nil
}

func (a *API) createConversation(ctx context.Context, in *body.CreateConversationIn) (*body.ConversationEnvelope, error) {
	agent, ok := a.agents.Agent(endpoint.CallerFrom(ctx).ProjectID, in.AgentID)
	if !ok {
		return nil, notFound(failure.AgentNotFound)
	}
	command := a.command(ctx, endpoint.MintID(ctx, a.ids, "conv", ""))
	command.CommandId = endpoint.CommandID(ctx, a.ids, "create") // a repeated request is answered with what the first one made
	if err := a.mayBudget(ctx, command, agent, in.Budget.Budget); err != nil {
		return nil, err
	}
	if a.config.UserIDFromBody && !command.Caller.Identified && in.UserID != "" {
		command.Caller.UserId = endpoint.OutsideUser(in.UserID)
	}
	command.Body = &conversationpb.Command_Create{Create: in.Create(agent)}
	reply, err := a.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	return &body.ConversationEnvelope{State: reply.GetState()}, nil
}

type getConversationIn struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Before string `query:"before" doc:"Message id: messages older than it"`
	After  string `query:"after" doc:"Message id: messages newer than it"`
	Order  string `query:"order" enum:"asc,desc" default:"asc"`
}

// Validate implements endpoint.Validator.
func (in *getConversationIn) Validate() *failure.Failure {
	if in.Before != "" && in.After != "" {
		return failure.New(failurepb.Code_VALIDATION, failure.NotTogether).In("before").Param("other", "after")
	}
	return nil
}

func (a *API) getConversation(ctx context.Context, in *getConversationIn) (*body.ConversationRead, error) {
	if !plausible(in.ID) {
		return nil, notFound(failure.ConversationNotFound)
	}
	for _, cursor := range []string{in.Before, in.After} {
		if cursor != "" && !plausible(cursor) {
			// Failures of the conversation itself come first.
			if _, err := a.readable(ctx, in.ID); err != nil {
				return nil, err
			}
			return nil, notFound(failure.MessageNotFound)
		}
	}
	page, err := entity.Read[*nodepb.MessagesReply](ctx, a.entities, &nodepb.MessagesQuery{
		Id: in.ID, Before: in.Before, After: in.After, Offset: -1,
		Limit: uint32(in.Limit), Descending: in.Order == "desc",
	})
	if err != nil {
		return nil, a.hideForeign(ctx, in.ID, err)
	}
	if err := access(ctx, page.State); err != nil {
		return nil, err
	}
	return &body.ConversationRead{Page: page, Limit: in.Limit, Order: in.Order}, nil
}

// hideForeign reports a missing message only to callers who may see the conversation.
func (a *API) hideForeign(ctx context.Context, id string, err error) error {
	var refused *failure.Failure
	if !errors.As(err, &refused) || refused.Code != failurepb.Code_NOT_FOUND {
		return err
	}
	if _, denied := a.readable(ctx, id); denied != nil {
		return denied
	}
	return err
}

func (a *API) updateConversation(ctx context.Context, in *body.UpdateConversationIn) (*body.ConversationRecord, error) {
	state, err := a.readable(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err = a.mayChangeBudget(ctx, state, in.Budget); err != nil {
		return nil, err
	}
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Update{Update: &conversationpb.Update{Agent: a.agentOf(state), Patch: in.Patch()}}
	reply, err := a.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	return &body.ConversationRecord{State: reply.GetState()}, nil
}

type conversationIn struct {
	ID string `path:"id"`
}

func (a *API) deleteConversation(ctx context.Context, in *conversationIn) (*endpoint.Empty, error) {
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{}}
	_, err := a.askUntilSettled(ctx, command)
	return nil, err
}

type cancelTurnIn struct {
	ID    string `path:"id"`
	RunID string `query:"runId" doc:"Of the turn that is meant, which may be queued; empty: the one that runs. Others stay in the queue, and the next one begins"`
}

func (a *API) cancelTurn(ctx context.Context, in *cancelTurnIn) (*body.CancelResult, error) {
	until := time.Now().Add(a.config.CancelWait)
	command := a.command(ctx, in.ID)
	command.Body = &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{
		SettleWaitMs: a.config.CancelWait.Milliseconds(), RunId: in.RunID,
	}}
	reply, err := a.ask(ctx, command)
	if err != nil {
		return nil, err
	}
	told := reply.GetCancelled()
	if told.GetState().GetBackgroundRun() == "" || in.RunID != "" || a.entities == nil {
		return &body.CancelResult{Cancelled: told}, nil
	}
	return a.cancelHolder(ctx, told, until)
}

// cancelHolder also cancels the background run that holds a conversation: a queued one would still start its turn. This is the
// second of two writes. The first, which cancels the turn, names the run. If this one fails the caller gets the error and repeats
// the request, which is safe: cancelling a turn or a run that has ended changes nothing.
func (a *API) cancelHolder(ctx context.Context, told *conversationpb.Cancelled, until time.Time) (*body.CancelResult, error) {
	id, run := told.GetState().GetId(), told.GetState().GetBackgroundRun()
	holder := &turns.RunCancel{Entities: a.entities, Until: until, Command: func(string) *runpb.Command {
		return &runpb.Command{RunId: run, CommandId: a.ids.NewID("cmd"), Caller: callerOf(ctx)}
	}}
	held, err := holder.Cancel(ctx)
	if err != nil {
		return nil, err
	}
	held = holder.Wait(ctx, held)
	told = proto.CloneOf(told)
	if told.State, err = a.state(ctx, id); err != nil {
		return nil, err
	}
	told.Settled = told.GetSettled() && (held == nil || held.Over())
	if turns.Cancelled(held) {
		told.Cancelled = true
		told.RunId = cmp.Or(told.GetRunId(), held.GetTurnRunId(), run)
	}
	return &body.CancelResult{Cancelled: told}, nil
}

// mayBulkDelete checks the agent's switch; a conversation whose agent was deleted can still be deleted.
func (a *API) mayBulkDelete(state *conversationpb.State) bool {
	agent := a.agentOf(state)
	return agent.GetExperience() == nil || agent.GetExperience().GetBulkDelete()
}

// blank says whether a text is empty or only white space.
func blank(text string) bool { return strings.TrimSpace(text) == "" }
