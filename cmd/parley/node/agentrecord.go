package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/definition"
	"parley/actors/core/money"
	"parley/actors/turn/tool"
	"parley/cmd/parley/config"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// connectedTimeoutMs bounds a call of a connected agent (document 3, 7.11).
const connectedTimeoutMs = 120_000

// compiler makes of records what turns run. It does not read any: everything is handed to it.
type compiler struct {
	open   func(sealed []byte, about string) ([]byte, error)
	policy *agentpb.ToolPolicy // of a tool that says nothing of it
	most   limits
}

// limits is the most that a tool's policy may ask for.
type limits struct{ timeoutMs, resultBytes, actionTimeoutMs int64 }

const yearMs = 365 * 24 * 3600 * 1000

func newCompiler(c *config.Config, open func(sealed []byte, about string) ([]byte, error)) *compiler {
	return &compiler{
		open: open, policy: c.DefaultPolicy(),
		most: limits{c.Turn.Timeout.Milliseconds(), int64(c.Tools.MaxTurnResults), yearMs},
	}
}

// source is what an agent is made of.
type source struct {
	key        string // of the record
	record     *directorypb.Agent
	definition *directorypb.Definition
	config     *definition.Config
	version    int64          // 0 = the draft
	model      *agentpb.Model // nil = it is gone
	sees       bool           // the model takes pictures
	credential string         // of the connection's provider, "" = the inline key
}

// agent compiles an agent.
func (c *compiler) agent(from *source) (*agentpb.Agent, error) {
	sealed, err := definition.ParseSealed(from.definition.GetSealed())
	if err != nil {
		return nil, err
	}
	secrets, err := sealed.Open(from.key, c.open)
	if err != nil {
		return nil, err
	}
	agent := c.frame(from)
	if err = withMetadata(agent, from); err != nil {
		return nil, err
	}
	if from.config.IsConnected() {
		agent.Model = connectedModel(from, secrets)
		return agent, nil
	}
	agent.Instructions, agent.MaxTurns = from.config.SystemPrompt, int32(from.config.MaxTurns)
	agent.Experience.Titles = from.config.Titles
	agent.Model = tunedModel(from)
	c.withTools(agent, from.config, secrets)
	return agent, nil
}

// broken is an agent that cannot be compiled: it is there, and its turns end in an error.
func (c *compiler) broken(from *source, settings *definition.Config) *agentpb.Agent {
	agent := c.frame(from)
	agent.Model = &agentpb.Model{Key: settings.ModelKey} // which the turn's error names
	if to := settings.Connection; to != nil {
		agent.Model.Key = cmp.Or(to.CredentialProviderKey, to.Model, to.Protocol)
	}
	return agent
}

// frame is what every agent has.
func (*compiler) frame(from *source) *agentpb.Agent {
	agent := &agentpb.Agent{
		Id: from.record.GetKey(), Name: from.definition.GetName(), Description: from.definition.GetDescription(),
		ProjectId: from.record.GetProjectId(), Status: from.record.GetStatus(), RunningVersion: from.version,
		Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{}},
		Experience:   config.DefaultExperience(),
	}
	if from.version > 0 {
		agent.Version = strconv.FormatInt(from.version, 10)
	}
	return agent
}

// withMetadata gives the agent what its metadata means. Clients are shown the rest of it.
func withMetadata(agent *agentpb.Agent, from *source) error {
	stored := from.record.GetMetadata()
	known, err := definition.ParseMetadata(stored)
	if err != nil {
		return err
	}
	agent.Background = known.Background != nil && known.Background.Enabled
	if budget := known.SessionBudget; budget != nil {
		if nano, ok := money.FromUSD(budget.MaxCostUSD); ok {
			agent.DefaultBudget = &agentpb.Budget{MaxCostNanoUsd: nano, OnReach: cmp.Or(budget.OnReach, "pause")}
			agent.BudgetBinds = true
		}
	}
	switch files := known.Files; {
	case files == nil && from.sees: // nothing was said: what its model takes
		takes := config.DefaultAttachments()
		takes.AllowedMimeTypes, takes.AcceptsImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}, true
		agent.Capabilities.Attachments = takes
	case files != nil && files.Enabled:
		takes := config.DefaultAttachments()
		takes.MaxFiles = cmp.Or(files.MaxFiles, takes.GetMaxFiles())
		takes.MaxFileSize = cmp.Or(files.MaxFileSize, takes.GetMaxFileSize())
		takes.AllowedMimeTypes, takes.RetentionDays = files.AllowedMIMETypes, files.RetentionDays
		takes.AcceptsImages = files.AcceptsImages || from.sees
		agent.Capabilities.Attachments = takes
	}
	if len(stored) == 0 {
		return nil
	}
	var keys map[string]json.RawMessage
	if err = json.Unmarshal(stored, &keys); err != nil {
		return err
	}
	for _, key := range []string{"a2a", "background", "session_budget", "files"} {
		delete(keys, key)
	}
	if len(keys) > 0 {
		agent.Metadata, err = json.Marshal(keys)
	}
	return err
}

func connectedModel(from *source, secrets definition.Secrets) *agentpb.Model {
	c := from.config.Connection
	model := config.DefaultModel()
	model.Provider, model.Name = agentpb.Provider_CONNECTED, cmp.Or(c.Model, c.Protocol)
	model.FirstTokenTimeoutMs, model.IdleTimeoutMs, model.TotalTimeoutMs = connectedTimeoutMs, connectedTimeoutMs, connectedTimeoutMs
	model.MaxRetries = -1 // the other side may have begun to work
	model.Connection = &agentpb.Connection{
		Protocol: c.Protocol, Url: c.URL, Model: c.Model, ResponsePath: c.ResponsePath,
		Headers:        secrets.ConnectionHeaders(c.Headers),
		ApiKey:         cmp.Or(from.credential, secrets.ConnectionKey()),
		RuntimeHeaders: runtimeHeaders(c.RuntimeHeaders),
	}
	return model
}

// tunedModel is the agent's model with what the agent says of it. Of a model that is gone only the key is left.
func tunedModel(from *source) *agentpb.Model {
	if from.model == nil {
		return &agentpb.Model{Key: from.config.ModelKey}
	}
	said := from.config
	model := proto.CloneOf(from.model)
	if said.Temperature != nil {
		model.Temperature, model.HasTemperature = *said.Temperature, true
	}
	if said.TopP != nil {
		model.TopP, model.HasTopP = *said.TopP, true
	}
	if said.MaxTokens != nil {
		model.MaxOutputTokens = int32(*said.MaxTokens) //nolint:gosec // bounded when it was read
	}
	return model
}

func (c *compiler) withTools(agent *agentpb.Agent, from *definition.Config, secrets definition.Secrets) {
	can := agent.GetCapabilities()
	for i := range from.Tools {
		said := &from.Tools[i]
		made := &agentpb.Tool{
			Name: said.Name, Description: said.Description, Schema: said.InputSchema, Client: said.Client,
			Builtin: said.Builtin, Policy: c.toolPolicy(&said.Policy),
		}
		if said.URL != "" {
			made.Http = &agentpb.HTTP{
				Method: cmp.Or(said.Method, "POST"), Url: said.URL, Headers: secrets.ToolHeaders(said.Name, said.Headers),
				RuntimeHeaders: runtimeHeaders(said.RuntimeHeaders),
			}
		}
		agent.Tools = append(agent.Tools, made)
		can.ClientTools = can.ClientTools || said.Client
		can.ToolApproval = can.ToolApproval || asksPerson(made.GetPolicy())
	}
	for i := range from.ToolBindings {
		c.bind(agent, &from.ToolBindings[i])
	}
	for i := range from.MCPServers {
		said := &from.MCPServers[i]
		policy := c.toolPolicy(&said.Policy)
		agent.Servers = append(agent.Servers, &agentpb.MCP{
			Name: said.Name, Url: said.URL, Headers: secrets.ServerHeaders(said.Name, said.Headers), Tools: said.ToolNames,
			Policy: policy, RuntimeHeaders: runtimeHeaders(said.RuntimeHeaders),
		})
		can.ToolApproval = can.ToolApproval || asksPerson(policy)
	}
	if from.AskUser {
		can.AskUser = true
		agent.AskUser = &agentpb.AskUser{ActionTimeoutMs: c.policy.GetActionTimeoutMs()}
	}
}

// bind offers the built-in tools that a binding names. Others are skipped (document 3, 7.10).
func (c *compiler) bind(agent *agentpb.Agent, binding *definition.Binding) {
	if binding.Source != "system" {
		return
	}
	names := binding.ToolNames
	if len(names) == 0 {
		names = []string{binding.SourceKey}
	}
	for _, name := range names {
		taken := slices.ContainsFunc(agent.GetTools(), func(t *agentpb.Tool) bool { return t.GetName() == name })
		if !taken && (name == tool.CurrentTime || name == tool.RandomNumber) {
			agent.Tools = append(agent.Tools, &agentpb.Tool{Name: name, Builtin: name, Policy: c.toolPolicy(&definition.Policy{})})
		}
	}
}

func (c *compiler) toolPolicy(said *definition.Policy) *agentpb.ToolPolicy {
	policy := proto.CloneOf(c.policy)
	policy.Approval = cmp.Or(said.Approval, policy.GetApproval())
	policy.When, policy.ApprovalPrompt, policy.Idempotent = said.When, said.ApprovalPrompt, said.Idempotent
	policy.TimeoutMs = min(cmp.Or(said.TimeoutMs, policy.GetTimeoutMs()), c.most.timeoutMs)
	policy.MaxResultBytes = min(cmp.Or(said.MaxResultBytes, policy.GetMaxResultBytes()), c.most.resultBytes)
	policy.ActionTimeoutMs = min(cmp.Or(said.ActionTimeoutMs, policy.GetActionTimeoutMs()), c.most.actionTimeoutMs)
	return policy
}

func asksPerson(policy *agentpb.ToolPolicy) bool {
	return policy.GetApproval() == "always" || policy.GetApproval() == "when"
}

func runtimeHeaders(said *definition.RuntimeHeaders) *agentpb.RuntimeHeaders {
	if said == nil {
		return nil
	}
	return &agentpb.RuntimeHeaders{Allow: said.Allow, AllowedNames: said.AllowedNames}
}

// model compiles a model as its provider is called.
func (c *compiler) model(record *directorypb.Model, provider *directorypb.Provider) (*agentpb.Model, error) {
	settings, err := definition.ParseSettings(record.GetSettings())
	if err != nil {
		return nil, err
	}
	of, err := definition.ParseProviderSettings(provider.GetSettings())
	if err != nil {
		return nil, err
	}
	secrets, err := c.providerSecrets(provider)
	if err != nil {
		return nil, err
	}
	model := config.DefaultModel()
	model.Provider, model.Name, model.Key = driver(provider.GetDriver()), record.GetModelId(), record.GetKey()
	model.BaseUrl, model.ApiKey, model.Headers = of.BaseURL, secrets.Credential(), secrets.ProviderHeaders(of.Headers)
	model.Guarded = true // who records a model need not be whose network this is
	if model.Price, err = definition.Price(record.GetPricing()); err != nil {
		return nil, err
	}
	if model.Provider == agentpb.Provider_SCRIPTED {
		script := settings.Script
		if len(script) == 0 {
			script = of.Script
		}
		parsed, failure := definition.ParseScript("script", script)
		if failure != nil {
			return nil, failure
		}
		model.Script = parsed
	}
	applySettings(model, settings)
	return model, nil
}

func applySettings(model *agentpb.Model, said *definition.Settings) {
	if said.Temperature != nil {
		model.Temperature, model.HasTemperature = *said.Temperature, true
	}
	if said.TopP != nil {
		model.TopP, model.HasTopP = *said.TopP, true
	}
	model.MaxOutputTokens = int32(said.MaxOutputTokens)                          //nolint:gosec // bounded when it was read
	model.ContextTokens = cmp.Or(int32(said.ContextTokens), model.ContextTokens) //nolint:gosec // as above
	model.FirstTokenTimeoutMs = cmp.Or(said.FirstTokenTimeoutMs, model.FirstTokenTimeoutMs)
	model.IdleTimeoutMs = cmp.Or(said.IdleTimeoutMs, model.IdleTimeoutMs)
	model.TotalTimeoutMs = cmp.Or(said.TotalTimeoutMs, model.TotalTimeoutMs)
	if said.MaxRetries != nil {
		model.MaxRetries = cmp.Or(int32(*said.MaxRetries), -1) //nolint:gosec // as above; 0 of an agent's record is the default
	}
}

func driver(name string) agentpb.Provider {
	switch name {
	case "openai":
		return agentpb.Provider_OPENAI
	case "openai-responses":
		return agentpb.Provider_OPENAI_RESPONSES
	case "anthropic":
		return agentpb.Provider_ANTHROPIC
	case "scripted":
		return agentpb.Provider_SCRIPTED
	}
	return agentpb.Provider_PROVIDER_UNSPECIFIED
}

func (c *compiler) providerSecrets(provider *directorypb.Provider) (definition.Secrets, error) {
	sealed, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return nil, err
	}
	return sealed.Open(definition.ProviderRecordKey(provider.GetProjectId(), provider.GetKey()), c.open)
}

// CheckAgent says what is wrong with a config: tools that could not be run.
func (c *compiler) CheckAgent(from *definition.Config) error {
	if from.IsConnected() {
		return nil
	}
	agent := &agentpb.Agent{Capabilities: &agentpb.Capabilities{}}
	c.withTools(agent, from, nil)
	err := tool.Check(agent)
	if inner := errors.Unwrap(err); inner != nil {
		return inner // without the agent's name, which it does not have yet
	}
	return err
}

var _ endpoint.Agents = (*registry)(nil)
