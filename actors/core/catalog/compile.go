package catalog

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/definition"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// DraftVersion asks for what was last saved of an agent, published or not.
const DraftVersion = -1

// Defaults is what the server's configuration adds to what is compiled. It is copied, never changed.
type Defaults struct {
	Policy      *agentpb.ToolPolicy  // of a tool that sets none
	Model       *agentpb.Model       // limits of a model that sets none
	Experience  *agentpb.Experience  // of every agent
	Attachments *agentpb.Attachments // limits of an agent that accepts files and sets none
	// The most that the policy of a tool may set.
	MaxToolTimeoutMs, MaxToolResultBytes int64
}

// CompilerEnv is what compiling needs besides the records. All of it is required.
type CompilerEnv struct {
	Defaults Defaults
	Open     func(sealed []byte, about string) ([]byte, error) // decrypts what Env.Seal has encrypted
	// Report is called for each record that cannot be used.
	Report func(key string, err error)
	// CheckTools says what is wrong with an agent's tools. Its error wraps one that does not name the agent.
	CheckTools func(*agentpb.Agent) error
	// Home is the URL of a kind of provider whose settings have none, "" = there is none.
	Home func(agentpb.Provider) string
	// IsBuiltinTool says whether the server has a tool of this name, which a tool binding may offer.
	IsBuiltinTool func(name string) bool
}

// ReadRecord returns the value of a record of the directory, nil = there is none.
type ReadRecord func(collection, key string) []byte

// Compiler turns the records of agents and models into what turns and the gateway run. It keeps nothing between calls and is safe
// for concurrent use.
type Compiler struct{ env CompilerEnv }

// NewCompiler returns a compiler.
func NewCompiler(env CompilerEnv) *Compiler { return &Compiler{env} }

// Agent compiles a version of an agent: 0 = the published one, or the draft while none was published; DraftVersion = the draft.
// false = there is no such version. An agent that cannot be compiled, or whose model is gone, is returned nevertheless: it has a
// model without a provider, so that its turns fail and name the reason.
func (c *Compiler) Agent(read ReadRecord, projectID, key string, version int64) (*agentpb.Agent, bool) {
	from, found := c.source(read, projectID, key, version)
	if !found {
		return nil, false
	}
	agent, err := c.compile(read, from)
	if err != nil {
		c.env.Report(from.key, err)
		return c.unusable(from), true
	}
	return agent, true
}

// Model compiles a model and returns its record, nil = there is none. The model is nil when it cannot be called: its provider is
// gone or disabled, or a record cannot be used.
func (c *Compiler) Model(read ReadRecord, projectID, key string) (*agentpb.Model, *directorypb.Model) {
	record, provider := new(directorypb.Model), new(directorypb.Provider)
	name := Key(projectID, key)
	if raw := read(Models, name); raw == nil {
		var builtin bool
		if record, provider, builtin = definition.BuiltinModel(projectID, key); !builtin {
			return nil, nil
		}
	} else if !c.decode(raw, record, name) {
		return nil, nil
	} else if !c.provider(read, projectID, record.GetProviderKey(), provider) {
		return nil, record
	}
	model, err := c.model(record, provider)
	if err != nil {
		c.env.Report(name, err)
		return nil, record
	}
	return model, record
}

// CheckAgent says why an agent with this config could not be run: a credential would go to another host than its provider's, or
// its tools are not valid.
func (c *Compiler) CheckAgent(read ReadRecord, projectID string, config *definition.Config) error {
	if config.IsConnected() {
		_, err := c.credential(read, projectID, config.Connection)
		return err
	}
	agent := &agentpb.Agent{Capabilities: &agentpb.Capabilities{}}
	c.addTools(agent, config, nil)
	err := c.env.CheckTools(agent)
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without the agent's name, which it does not have yet
	}
	return err
}

// source is what an agent is compiled from.
type source struct {
	projectID  string
	key        string // of the record
	record     *directorypb.Agent
	definition *directorypb.Definition
	version    int64 // 0 = the draft
	config     *definition.Config
}

func (c *Compiler) source(read ReadRecord, projectID, key string, version int64) (*source, bool) {
	from := &source{projectID: projectID, key: Key(projectID, key), record: new(directorypb.Agent), config: new(definition.Config)}
	if !c.decode(read(Agents, from.key), from.record, from.key) {
		return nil, false
	}
	if version == 0 {
		version = from.record.GetPublishedVersion()
	}
	switch {
	case version == 0, version == DraftVersion:
		from.definition = from.record.GetDraft()
	case version > 0:
		snapshot := new(directorypb.AgentVersion)
		if !c.decode(read(AgentVersions, VersionKey(from.key, version)), snapshot, from.key) {
			return nil, false
		}
		from.definition, from.version = snapshot.GetDefinition(), version
	default:
		return nil, false
	}
	return from, true
}

// decode is false when there is no record or, which it reports, the record cannot be decoded.
func (c *Compiler) decode(raw []byte, into proto.Message, key string) bool {
	if raw == nil {
		return false
	}
	if err := proto.Unmarshal(raw, into); err != nil {
		c.env.Report(key, fmt.Errorf("decode: %w", err))
		return false
	}
	return true
}

// provider reads a provider that may be called.
func (c *Compiler) provider(read ReadRecord, projectID, key string, into *directorypb.Provider) bool {
	name := Key(projectID, key)
	raw := read(Providers, name)
	if raw == nil {
		builtin, ok := definition.BuiltinProvider(projectID, key)
		if ok {
			proto.Merge(into, builtin)
		}
		return ok
	}
	return c.decode(raw, into, name) && into.GetStatus() != ProviderDisabled
}

// credential returns the credential of a connection's provider, "" when there is none. It is sent to the provider's own host only.
// That is checked whenever an agent is compiled: a version published long ago must not get a credential that the provider was
// given since.
func (c *Compiler) credential(read ReadRecord, projectID string, to *definition.Connection) (string, error) {
	provider := new(directorypb.Provider)
	if to.CredentialProviderKey == "" || !c.provider(read, projectID, to.CredentialProviderKey, provider) {
		return "", nil
	}
	settings, err := definition.ParseProviderSettings(provider.GetSettings())
	if err != nil {
		return "", err
	}
	own := definition.Origin(cmp.Or(settings.BaseURL, c.env.Home(driver(provider.GetDriver()))))
	if own == "" || own != definition.Origin(to.URL) {
		return "", fmt.Errorf("connection.url is not on the host of provider %q, whose credential is sent nowhere else",
			to.CredentialProviderKey)
	}
	secrets, err := c.providerSecrets(provider)
	if err != nil {
		c.env.Report(Key(projectID, to.CredentialProviderKey), err)
	}
	return secrets.Credential(), nil
}

func (c *Compiler) providerSecrets(provider *directorypb.Provider) (definition.Secrets, error) {
	sealed, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return nil, err
	}
	return sealed.Open(definition.ProviderRecordKey(provider.GetProjectId(), provider.GetKey()), c.env.Open)
}
