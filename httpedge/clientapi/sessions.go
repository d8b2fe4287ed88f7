package clientapi

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"parley/actors/core/entity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// createSession makes a session. Nothing runs and nothing is spent.
func (a *API) createSession(ctx context.Context, in *createSessionIn) (*sessionRecord, error) {
	agent, err := a.activeAgent(ctx, in.Agent)
	if err != nil {
		return nil, err
	}
	id := a.mint(ctx, "conv", "")
	sealed, err := a.sealContext(ctx, id, in.RuntimeContext)
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
func (a *API) create(
	ctx context.Context, id string, agent *agentpb.Agent, budget *budgetInput, create *conversationpb.Create,
) (*conversationpb.State, error) {
	if err := a.creation(ctx, id, agent, budget, create); err != nil {
		return nil, err
	}
	command := a.command(ctx, id, "create")
	command.Body = &conversationpb.Command_Create{Create: create}
	reply, err := a.askUntilSettled(ctx, command)
	if isCode(err, failurepb.Code_ALREADY_EXISTS) { // the request was given before: the id is its own
		return a.session(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return reply.GetState(), nil
}

// creation completes what makes a session of an agent, under the budget that the request has for it, or else the agent's.
func (a *API) creation(
	ctx context.Context, id string, agent *agentpb.Agent, budget *budgetInput, create *conversationpb.Create,
) error {
	if failure := budget.may(agent); failure != nil {
		return failure
	}
	if err := a.mayBudget(ctx, id, agent, budget); err != nil {
		return err
	}
	create.Source, create.Budget = conversationpb.SourceSession, budget.budget
	create.Agent = pricing(agent)
	create.Agent.Name = agent.GetName()
	if !budget.Null {
		create.Agent.DefaultBudget = agent.GetDefaultBudget()
	}
	return nil
}

type listSessionsIn struct {
	Agent  string `query:"agent" doc:"Only sessions of this agent"`
	Status string `query:"status" doc:"idle (never-run sessions included), running, requires_action or budget_paused"`
	Limit  string `query:"limit" doc:"1 to 100; 20 when left out"`
	After  string `query:"after" doc:"next_cursor of the page before"`

	limit int
}

// Validate implements endpoint.Validator.
func (in *listSessionsIn) Validate() *machine.Failure {
	const usual, most = 20, 100
	in.limit = usual
	if in.Limit != "" {
		limit, err := strconv.Atoi(in.Limit)
		if err != nil || limit < 1 || limit > most {
			return machine.Fail(failurepb.Code_INVALID_LIMIT, "limit must be a whole number from 1 to %d", most)
		}
		in.limit = limit
	}
	if in.Status != "" && !slices.Contains(runtimeStatuses(), in.Status) {
		return machine.Fail(failurepb.Code_INVALID_STATUS, "status must be one of: %s", strings.Join(runtimeStatuses(), ", "))
	}
	return nil
}

func runtimeStatuses() []string {
	return []string{
		conversationpb.RuntimeIdle, conversationpb.RuntimeRunning, conversationpb.RuntimeRequiresAction,
		conversationpb.RuntimeBudgetPaused,
	}
}

// listSessions lists the sessions that the caller may see, newest created first.
func (a *API) listSessions(ctx context.Context, in *listSessionsIn) (*sessionList, error) {
	caller := endpoint.CallerFrom(ctx)
	after, failure := parseCursor(caller, in.After)
	if failure != nil {
		return nil, failure
	}
	page, err := entity.Read[*conversationpb.SessionsReply](ctx, a.Entities, &conversationpb.SessionsQuery{
		TenantId: caller.TenantID, ProjectId: caller.ProjectID, Anybody: caller.Trusted, UserId: caller.UserID,
		AgentId: in.Agent, Status: in.Status, After: after, Limit: int64(in.limit),
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

func (a *API) getSession(ctx context.Context, in *sessionIn) (*sessionRecord, error) {
	state, err := a.session(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &sessionRecord{state}, nil
}

// deleteSession removes a session with all that belongs to it, unless a run is queued or running on it. One that waits for a
// person goes with what it waits for.
func (a *API) deleteSession(ctx context.Context, in *sessionIn) (*deletedSession, error) {
	if _, err := a.session(ctx, in.ID); err != nil {
		return nil, err
	}
	command := a.command(ctx, in.ID, "delete")
	command.Body = &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}}
	if _, err := a.askUntilSettled(ctx, command); err != nil {
		return nil, err
	}
	return &deletedSession{ID: in.ID, Object: objectSession, Deleted: true}, nil
}
