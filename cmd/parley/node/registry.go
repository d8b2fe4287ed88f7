package node

import "parley/proto/agentpb"

// registry holds the agents of the configuration, which every project may run. It never changes, so everybody may read it
// at once.
type registry struct {
	order []*agentpb.Agent
	byID  map[string]*agentpb.Agent
}

func newRegistry(agents []*agentpb.Agent) *registry {
	r := &registry{order: agents, byID: make(map[string]*agentpb.Agent, len(agents))}
	for _, agent := range agents {
		r.byID[agent.GetId()] = agent
	}
	return r
}

// Agent returns an agent by its id.
func (r *registry) Agent(_, id string) (*agentpb.Agent, bool) {
	agent, ok := r.byID[id]
	return agent, ok
}

// Agents returns all agents in the order of the configuration.
func (r *registry) Agents(string) []*agentpb.Agent { return r.order }

// versions is the registry as turns need it.
type versions struct{ *registry }

// Agent returns an agent as a version of it.
func (v versions) Agent(projectID, id string, _ int64) (*agentpb.Agent, bool) {
	return v.registry.Agent(projectID, id)
}
