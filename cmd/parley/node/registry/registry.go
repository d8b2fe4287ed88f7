// Package registry finds the agents and models that can be run: those of the configuration and those of the directory.
package registry

import (
	"log/slog"
	"slices"
	"strings"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/cmd/parley/config"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// maxCompiled bounds the agents, and the models, that are kept ready to be run.
const maxCompiled = 10_000

// Registry finds agents for all surfaces and for the runner: those of the configuration, which never change, and those of
// the directory.
type Registry struct {
	order    []*agentpb.Agent // of the configuration
	byID     map[string]*agentpb.Agent
	recorded *Recorded // nil = none
}

// New returns a registry of the agents of the configuration.
func New(agents []*agentpb.Agent) *Registry {
	r := &Registry{order: agents, byID: make(map[string]*agentpb.Agent, len(agents))}
	for _, agent := range agents {
		r.byID[agent.GetId()] = agent
	}
	return r
}

// Record adds the agents and models of the directory.
func (r *Registry) Record(recorded *Recorded) { r.recorded = recorded }

// Agent returns what a new turn of an active agent runs: its published version, or its draft while none was published.
func (r *Registry) Agent(projectID, id string) (*agentpb.Agent, bool) {
	agent, ok := versions{r}.Agent(projectID, id, 0)
	if !ok || agent.GetStatus() != "" && agent.GetStatus() != catalog.AgentActive {
		return nil, false
	}
	return agent, true
}

// Configured returns an agent of the configuration that serves a project.
func (r *Registry) Configured(projectID, id string) (*agentpb.Agent, bool) {
	agent, ok := r.byID[id]
	return agent, ok && serves(agent, projectID)
}

func serves(agent *agentpb.Agent, projectID string) bool {
	return len(agent.GetProjects()) == 0 || slices.Contains(agent.GetProjects(), projectID)
}

// Agents returns the active agents of a project: those of the configuration in its order, then the recorded ones by key.
func (r *Registry) Agents(projectID string) []*agentpb.Agent {
	all := make([]*agentpb.Agent, 0, len(r.order))
	for _, agent := range r.order {
		if serves(agent, projectID) {
			all = append(all, agent)
		}
	}
	if r.recorded == nil {
		return all
	}
	for _, record := range r.recorded.records.List(catalog.Agents, projectID+"/") {
		key := strings.TrimPrefix(record.Key, projectID+"/")
		if _, configured := r.Configured(projectID, key); configured {
			continue
		}
		if agent, ok := r.Agent(projectID, key); ok {
			all = append(all, agent)
		}
	}
	return all
}

// Model returns a recorded model of a project as it is called, and its record. One whose provider is disabled, or whose secrets
// do not open, is not found.
func (r *Registry) Model(projectID, key string) (*agentpb.Model, *directorypb.Model, bool) {
	if r.recorded == nil {
		return nil, nil, false
	}
	found, ok := r.recorded.models.get(recordName{projectID, key}, r.recorded.compileModel)
	return found.model, found.record, ok && found.model != nil
}

// versions is the registry as turns need it: an agent that is not active any more may still end what it has begun.
type versions struct{ *Registry }

// Versions returns the registry as turns need it.
func (r *Registry) Versions() versions { return versions{r} }

// Agent returns an agent as a version of it.
func (v versions) Agent(projectID, id string, version int64) (*agentpb.Agent, bool) {
	if agent, ok := v.Configured(projectID, id); ok {
		return agent, true
	}
	if v.recorded == nil {
		return nil, false
	}
	return v.recorded.agents.get(versionName{projectID, id, version}, v.recorded.compileAgent)
}

// Recorded compiles the records of agents and models, and keeps what it has compiled while the records stay the same.
type Recorded struct {
	records  collection.Store
	compiler *catalog.Compiler
	agents   *recordCache[versionName, *agentpb.Agent]
	models   *recordCache[recordName, compiledModel]
}

type recordName struct{ project, key string }

type versionName struct {
	project, key string
	version      int64
}

// compiledModel is a model and its record; the model is nil when it cannot be called.
type compiledModel struct {
	model  *agentpb.Model
	record *directorypb.Model
}

// NewRecorded returns the agents and models of the directory's records, as the compiler makes them.
func NewRecorded(records collection.Store, compiler *catalog.Compiler) *Recorded {
	return &Recorded{
		records: records, compiler: compiler,
		agents: newRecordCache[versionName, *agentpb.Agent](records, maxCompiled),
		models: newRecordCache[recordName, compiledModel](records, maxCompiled),
	}
}

func (a *Recorded) compileAgent(read catalog.ReadRecord, name versionName) (*agentpb.Agent, bool) {
	return a.compiler.Agent(read, name.project, name.key, name.version)
}

func (a *Recorded) compileModel(read catalog.ReadRecord, name recordName) (compiledModel, bool) {
	compiled, record := a.compiler.Model(read, name.project, name.key)
	return compiledModel{compiled, record}, record != nil
}

// CheckAgent says why an agent of the directory with this config could not be run.
func (r *Registry) CheckAgent(projectID string, agent *definition.Config) error {
	return r.recorded.compiler.CheckAgent(func(name, key string) []byte {
		record, _ := r.recorded.records.Get(name, key)
		return record.Value
	}, projectID, agent)
}

// NewCompiler returns what makes agents and models of records: what a record leaves open is as the configuration has it.
func NewCompiler(c *config.Config, open func(sealed []byte, about string) ([]byte, error), log *slog.Logger) *catalog.Compiler {
	return catalog.NewCompiler(catalog.CompilerEnv{
		Defaults: catalog.Defaults{
			Policy: c.DefaultPolicy(), Model: config.DefaultModel(), Experience: config.DefaultExperience(),
			Attachments:      config.DefaultAttachments(),
			MaxToolTimeoutMs: c.Turn.Timeout.Milliseconds(), MaxToolResultBytes: int64(c.Tools.MaxTurnResults),
		},
		Open: open,
		Report: func(key string, err error) {
			log.Error("record cannot be used", slog.String("record", key), slog.Any("err", err))
		},
		CheckTools: tool.Check, Home: model.Home, IsBuiltinTool: tool.IsBuiltin,
	})
}

var _ endpoint.Agents = (*Registry)(nil)
