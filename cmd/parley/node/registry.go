package node

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/turn"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// maxCompiled bounds the agents, and the models, that are kept ready to be run.
const maxCompiled = 10_000

// registry finds agents for all surfaces and for the runner: those of the configuration, which never change, and those of
// the directory.
type registry struct {
	order    []*agentpb.Agent // of the configuration
	byID     map[string]*agentpb.Agent
	recorded *recordedAgents // nil = none
}

func newRegistry(agents []*agentpb.Agent) *registry {
	r := &registry{order: agents, byID: make(map[string]*agentpb.Agent, len(agents))}
	for _, agent := range agents {
		r.byID[agent.GetId()] = agent
	}
	return r
}

// Agent returns what a new turn of an active agent runs: its published version, or its draft while none was published.
func (r *registry) Agent(projectID, id string) (*agentpb.Agent, bool) {
	agent, ok := versions{r}.Agent(projectID, id, 0)
	if !ok || agent.GetStatus() != "" && agent.GetStatus() != statusActive {
		return nil, false
	}
	return agent, true
}

// configured returns an agent of the configuration that serves a project.
func (r *registry) configured(projectID, id string) (*agentpb.Agent, bool) {
	agent, ok := r.byID[id]
	return agent, ok && serves(agent, projectID)
}

func serves(agent *agentpb.Agent, projectID string) bool {
	return len(agent.GetProjects()) == 0 || slices.Contains(agent.GetProjects(), projectID)
}

// Agents returns the active agents of a project: those of the configuration in its order, then the recorded ones by key.
func (r *registry) Agents(projectID string) []*agentpb.Agent {
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
		if _, configured := r.configured(projectID, key); configured {
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
func (r *registry) Model(projectID, key string) (*agentpb.Model, *directorypb.Model, bool) {
	if r.recorded == nil {
		return nil, nil, false
	}
	found, ok := r.recorded.models.get(recordName{projectID, key}, r.recorded.makeModel)
	return found.model, found.record, ok && found.model != nil
}

// versions is the registry as turns need it: an agent that is not active any more may still end what it has begun.
type versions struct{ *registry }

// Agent returns an agent as a version of it.
func (v versions) Agent(projectID, id string, version int64) (*agentpb.Agent, bool) {
	if agent, ok := v.configured(projectID, id); ok {
		return agent, true
	}
	if v.recorded == nil {
		return nil, false
	}
	return v.recorded.agents.get(versionName{projectID, id, version}, v.recorded.makeAgent)
}

const (
	statusActive     = "active"
	providerDisabled = "disabled"
)

// recordedAgents makes what can be run out of the records of agents, models and providers.
type recordedAgents struct {
	records  collection.Store
	compiler *compiler
	log      *slog.Logger
	agents   *recordCache[versionName, *agentpb.Agent]
	models   *recordCache[recordName, callable]
}

type recordName struct{ project, key string }

type versionName struct {
	project, key string
	version      int64
}

// callable is a model; the model is nil when it cannot be called.
type callable struct {
	model  *agentpb.Model
	record *directorypb.Model
}

func newRecordedAgents(records collection.Store, compiler *compiler, log *slog.Logger) *recordedAgents {
	return &recordedAgents{
		records: records, compiler: compiler, log: log,
		agents: newRecordCache[versionName, *agentpb.Agent](records, maxCompiled),
		models: newRecordCache[recordName, callable](records, maxCompiled),
	}
}

// makeAgent makes a version of an agent. One that is broken, or whose model is gone, is found all the same: its turns say so.
func (a *recordedAgents) makeAgent(from *recipe, name versionName) (*agentpb.Agent, bool) {
	key := name.project + "/" + name.key
	record := new(directorypb.Agent)
	if raw := from.get(catalog.Agents, key); raw == nil || !a.decode(raw, record, key) {
		return nil, false
	}
	version := name.version
	if version == 0 {
		version = record.GetPublishedVersion()
	}
	source := &source{key: key, record: record, definition: record.GetDraft()}
	if version > 0 {
		snapshot := new(directorypb.AgentVersion)
		raw := from.get(catalog.AgentVersions, catalog.VersionKey(key, version))
		if raw == nil || !a.decode(raw, snapshot, key) {
			return nil, false
		}
		source.definition, source.version = snapshot.GetDefinition(), version
	} else if version != 0 && version != turn.DraftVersion {
		return nil, false
	}
	config, err := definition.Parse(source.definition.GetConfig())
	if err != nil {
		return a.compiler.broken(source, &definition.Config{}), a.complain(key, err)
	}
	source.config = config
	switch {
	case !config.IsConnected():
		found := a.model(from, name.project, config.ModelKey)
		source.model, source.sees = found.model, found.record.GetMultimodal()
	case config.Connection.CredentialProviderKey != "":
		if source.credential, err = a.credential(from, name.project, config.Connection); err != nil {
			return a.compiler.broken(source, config), a.complain(key, err)
		}
	}
	agent, err := a.compiler.agent(source)
	if err != nil {
		return a.compiler.broken(source, config), a.complain(key, err)
	}
	return agent, true
}

// complain tells the log that a record cannot be used. It is true.
func (a *recordedAgents) complain(key string, err error) bool {
	a.log.Error("record cannot be used", slog.String("record", key), slog.Any("err", err))
	return true
}

func (a *recordedAgents) decode(raw []byte, into proto.Message, key string) bool {
	if err := proto.Unmarshal(raw, into); err != nil {
		a.complain(key, fmt.Errorf("decode: %w", err))
		return false
	}
	return true
}

func (a *recordedAgents) makeModel(from *recipe, name recordName) (callable, bool) {
	found := a.model(from, name.project, name.key)
	return found, found.record != nil
}

func (a *recordedAgents) model(from *recipe, project, key string) callable {
	name := project + "/" + key
	record, provider := new(directorypb.Model), new(directorypb.Provider)
	if raw := from.get(catalog.Models, name); raw == nil {
		var builtin bool
		if record, provider, builtin = definition.BuiltinModel(project, key); !builtin {
			return callable{}
		}
	} else if !a.decode(raw, record, name) {
		return callable{}
	} else if !a.provider(from, project, record.GetProviderKey(), provider) {
		return callable{record: record}
	}
	made, err := a.compiler.model(record, provider)
	if err != nil {
		a.complain(name, err)
		return callable{record: record}
	}
	return callable{made, record}
}

// provider reads a provider that may be called.
func (a *recordedAgents) provider(from *recipe, project, key string, into *directorypb.Provider) bool {
	name := project + "/" + key
	raw := from.get(catalog.Providers, name)
	if raw == nil {
		_, builtin, ok := definition.BuiltinModel(project, key)
		if ok {
			proto.Merge(into, builtin)
		}
		return ok
	}
	return a.decode(raw, into, name) && into.GetStatus() != providerDisabled
}

// credential is that of a connection's provider, "" when there is none. It only goes to the provider's own host. This is asked
// whenever an agent is made to run: a version that was published long ago must not get what the provider has been given since.
func (a *recordedAgents) credential(from *recipe, project string, to *definition.Connection) (string, error) {
	provider := new(directorypb.Provider)
	if !a.provider(from, project, to.CredentialProviderKey, provider) {
		return "", nil
	}
	settings, err := definition.ParseProviderSettings(provider.GetSettings())
	if err != nil {
		return "", err
	}
	own := definition.Origin(cmp.Or(settings.BaseURL, model.Home(driver(provider.GetDriver()))))
	if own == "" || own != definition.Origin(to.URL) {
		return "", fmt.Errorf("connection.url is not on the host of provider %q, whose credential is sent nowhere else",
			to.CredentialProviderKey)
	}
	secrets, err := a.compiler.providerSecrets(provider)
	if err != nil {
		a.complain(project+"/"+to.CredentialProviderKey, err)
	}
	return secrets.Credential(), nil
}

// CheckAgent says what is wrong with a config before it is stored: a credential that would go to a stranger, or tools that
// could not be run.
func (a *recordedAgents) CheckAgent(projectID string, config *definition.Config) error {
	if config.IsConnected() && config.Connection.CredentialProviderKey != "" {
		_, err := a.credential(&recipe{records: a.records}, projectID, config.Connection)
		return err
	}
	return a.compiler.CheckAgent(config)
}
