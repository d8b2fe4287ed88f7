package handler

import (
	"context"
	"errors"
	"strings"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// ActiveAgent returns the agent for a new session, response or run.
func (a *API) ActiveAgent(ctx context.Context, key string) (*agentpb.Agent, error) {
	const longest = 256
	if len(key) > longest || strings.Contains(key, "/") {
		return nil, AgentNotFound()
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
			return nil, AgentNotFound()
		}
	}
	if status := agent.GetStatus(); status != "" && status != statusActive {
		return nil, agentNotActive()
	}
	return agent, nil
}

const statusActive = "active"

// storedStatus explains by its record why an agent cannot be run: AGENT_NOT_ACTIVE or AGENT_NOT_FOUND.
func (a *API) storedStatus(ctx context.Context, project, key string) (string, error) {
	agent, err := a.Catalog.Agent(ctx, project, key)
	if _, missing := errors.AsType[*collection.MissingError](err); missing {
		return "", AgentNotFound()
	}
	return agent.GetStatus(), err
}

// AgentOf returns the current definition of a session's agent, or why there is none.
func (a *API) AgentOf(ctx context.Context, state *conversationpb.State) (*agentpb.Agent, error) {
	return a.ActiveAgent(ctx, state.GetAgentId())
}

// KnownAgent is the part of the session's agent that the rules read; nil when the agent was deleted.
func (a *API) KnownAgent(state *conversationpb.State) *agentpb.Agent {
	if agent, ok := a.Agents.Agent(state.GetProjectId(), state.GetAgentId()); ok {
		return agent
	}
	return nil
}

// AgentNotFound says that there is no agent for the caller under that key.
func AgentNotFound() *failure.Failure {
	return failure.New(failurepb.Code_AGENT_NOT_FOUND, failure.AgentMissing)
}

func agentNotActive() *failure.Failure {
	return failure.New(failurepb.Code_AGENT_NOT_ACTIVE, failure.AgentNotActive)
}

// Pricing is the part of an agent that the rules of budgets read. The rest, which holds secrets, does not leave the process. The
// agent's switches apply to users of the conversation server only.
func Pricing(agent *agentpb.Agent) *agentpb.Agent {
	if agent == nil {
		return nil
	}
	return &agentpb.Agent{Id: agent.GetId(), Model: &agentpb.Model{Price: agent.GetModel().GetPrice()}}
}

// BackgroundDisabled refuses a run of an agent that may not run in the background.
func BackgroundDisabled() *failure.Failure {
	return failure.New(failurepb.Code_AGENT_BACKGROUND_DISABLED, failure.BackgroundDisabled)
}

// Creation completes the command that creates a session, with the budget of the request, or else the agent's.
func (a *API) Creation(
	ctx context.Context, id string, agent *agentpb.Agent, budget *BudgetInput, create *conversationpb.Create,
) error {
	if refused := budget.May(agent); refused != nil {
		return refused
	}
	if err := a.mayBudget(ctx, id, agent, budget); err != nil {
		return err
	}
	create.Source, create.Budget = conversationpb.SourceSession, budget.Budget
	create.Agent = Pricing(agent)
	create.Agent.Name = agent.GetName()
	if !budget.Null {
		create.Agent.DefaultBudget = agent.GetDefaultBudget()
	}
	return nil
}
