package sessions

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// createSession makes a session. Nothing runs and nothing is spent.
func (a *api) createSession(ctx context.Context, in *createSessionIn) (*sessionRecord, error) {
	agent, err := a.ActiveAgent(ctx, in.Agent)
	if err != nil {
		return nil, err
	}
	id := a.Mint(ctx, "conv", "")
	sealed, err := a.SealContext(ctx, id, in.RuntimeContext)
	if err != nil {
		return nil, err
	}
	state, err := a.create(ctx, id, agent, &in.Budget, in.create(sealed))
	if err != nil {
		return nil, err
	}
	return &sessionRecord{state}, nil
}

// create makes a session of an agent under the budget that the request has for it.
func (a *api) create(
	ctx context.Context, id string, agent *agentpb.Agent, budget *handler.BudgetInput, create *conversationpb.Create,
) (*conversationpb.State, error) {
	if err := a.Creation(ctx, id, agent, budget, create); err != nil {
		return nil, err
	}
	command := a.Command(ctx, id, "create")
	command.Body = &conversationpb.Command_Create{Create: create}
	reply, err := a.AskUntilSettled(ctx, command)
	if handler.IsCode(err, failurepb.Code_ALREADY_EXISTS) { // the request was given before: the id is its own
		return a.Session(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return reply.GetState(), nil
}

type listSessionsIn struct {
	Agent  string `query:"agent" doc:"Only sessions of this agent"`
	Status string `query:"status" doc:"idle (never-run sessions included), running, requires_action or budget_paused"`
	User   string `query:"user" doc:"Only sessions of this user, of those that the caller may see"`
	Title  string `query:"q" doc:"Only sessions whose title contains this, whatever the case; at most 100 characters. A page looks at some two thousand sessions: it may be short, or empty, and have a next_cursor"`
	Limit  string `query:"limit" doc:"1 to 100; 20 when left out"`
	After  string `query:"after" doc:"next_cursor of the page before"`

	limit int
}

// Validate implements endpoint.Validator.
func (in *listSessionsIn) Validate() *failure.Failure {
	const usual, most = 20, 100
	in.limit = usual
	if in.Limit != "" {
		limit, err := strconv.Atoi(in.Limit)
		if err != nil || limit < 1 || limit > most {
			return failure.New(failurepb.Code_INVALID_LIMIT, failure.WholeNumberUpTo).In("limit").Param("most", most)
		}
		in.limit = limit
	}
	if utf8.RuneCountInString(in.Title) > longestSearch || !utf8.ValidString(in.Title) {
		return handler.Invalid(failure.AtMostCharacters).In("q").Param("most", longestSearch)
	}
	if in.Status != "" && !slices.Contains(runtimeStatuses(), in.Status) {
		return failure.New(failurepb.Code_INVALID_STATUS, failure.NotOneOf).
			Param("name", "status").Param("choices", strings.Join(runtimeStatuses(), ", "))
	}
	return nil
}

// longestSearch bounds what titles are searched for, in characters.
const longestSearch = 100

func runtimeStatuses() []string {
	return []string{
		conversationpb.RuntimeIdle, conversationpb.RuntimeRunning, conversationpb.RuntimeRequiresAction,
		conversationpb.RuntimeBudgetPaused,
	}
}

// listSessions lists the sessions that the caller may see, newest created first.
func (a *api) listSessions(ctx context.Context, in *listSessionsIn) (*sessionList, error) {
	caller := endpoint.CallerFrom(ctx)
	after, refused := parseCursor(caller, in.After)
	if refused != nil {
		return nil, refused
	}
	page, err := entity.Read[*conversationpb.SessionsReply](ctx, a.Entities, &conversationpb.SessionsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
		AgentId: in.Agent, Status: in.Status, ByUser: in.User != "", ForUser: in.User, Title: strings.TrimSpace(in.Title), After: after, Limit: int64(in.limit),
	})
	if err != nil {
		return nil, err
	}
	list := &sessionList{rows: page.GetSessions()}
	if page.GetNext() != nil {
		list.next = cursorText(caller, page.GetNext())
	}
	return list, nil
}

type sessionIn struct {
	ID string `path:"id"`
}

// deleteSession removes a session with all that belongs to it, unless a run is queued or running on it. One that waits for a
// person goes with what it waits for.
func (a *api) deleteSession(ctx context.Context, in *sessionIn) (*deletedSession, error) {
	if _, err := a.Session(ctx, in.ID); err != nil {
		return nil, err
	}
	command := a.Command(ctx, in.ID, "delete")
	command.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}}
	if _, err := a.AskUntilSettled(ctx, command); err != nil {
		return nil, err
	}
	return &deletedSession{ID: in.ID, Object: objectSession, Deleted: true}, nil
}
