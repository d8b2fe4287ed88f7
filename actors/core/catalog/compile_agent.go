package catalog

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/definition"
	"parley/actors/core/money"
	"parley/proto/agentpb"
)

// maxActionTimeoutMs is the longest time that a tool's policy may give a person: one year.
const maxActionTimeoutMs = 365 * 24 * 3600 * 1000

// compile makes an agent of its records.
func (c *Compiler) compile(read ReadRecord, from *source) (*agentpb.Agent, error) {
	config, err := definition.Parse(from.definition.GetConfig())
	if err != nil {
		return nil, err
	}
	from.config = config
	var (
		model      *agentpb.Model
		credential string
		multimodal bool
	)
	if config.IsConnected() {
		if credential, err = c.credential(read, from.projectID, config.Connection); err != nil {
			return nil, err
		}
	} else {
		compiled, record := c.Model(read, from.projectID, config.ModelKey)
		model, multimodal = compiled, record.GetMultimodal()
	}
	sealed, err := definition.ParseSealed(from.definition.GetSealed())
	if err != nil {
		return nil, err
	}
	secrets, err := sealed.Open(from.key, c.env.Open)
	if err != nil {
		return nil, err
	}
	agent := c.base(from)
	agent.Shield, agent.InputGuardrail, agent.OutputGuardrail = config.ShieldID, config.InputGuardrail, config.OutputGuardrail
	if err = c.addMetadata(agent, from.record.GetMetadata(), multimodal); err != nil {
		return nil, err
	}
	if config.IsConnected() {
		agent.Model = c.connectedModel(config.Connection, secrets, credential)
		return agent, nil
	}
	agent.Instructions, agent.MaxTurns = config.SystemPrompt, int32(config.MaxTurns)
	agent.Experience.Titles = config.Titles
	agent.Model = withOverrides(model, config)
	c.addTools(agent, config, secrets)
	return agent, nil
}

// unusable stands for an agent that cannot be compiled. The error of its turns names the model.
func (c *Compiler) unusable(from *source) *agentpb.Agent {
	agent := c.base(from)
	agent.Model = &agentpb.Model{Key: from.config.ModelKey}
	agent.Shield, agent.InputGuardrail, agent.OutputGuardrail = from.config.ShieldID, from.config.InputGuardrail, from.config.OutputGuardrail
	if to := from.config.Connection; to != nil {
		agent.Model.Key = cmp.Or(to.CredentialProviderKey, to.Model, to.Protocol)
	}
	return agent
}

// base is what every agent has.
func (c *Compiler) base(from *source) *agentpb.Agent {
	known, err := definition.ParseMetadata(from.record.GetMetadata())
	agent := &agentpb.Agent{
		Exposed: err == nil && known.IsExposed(),
		Id:      from.record.GetKey(), Name: from.definition.GetName(), Description: from.definition.GetDescription(),
		ProjectId: from.record.GetProjectId(), Status: from.record.GetStatus(), RunningVersion: from.version,
		Capabilities: &agentpb.Capabilities{Attachments: &agentpb.Attachments{}},
		Experience:   proto.CloneOf(c.env.Defaults.Experience),
	}
	if from.version > 0 {
		agent.Version = strconv.FormatInt(from.version, 10)
	}
	return agent
}

// addMetadata applies the metadata that means something to the server. The rest of it is shown to clients.
func (c *Compiler) addMetadata(agent *agentpb.Agent, stored []byte, multimodal bool) error {
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
	c.addAttachments(agent.GetCapabilities(), known.Files, multimodal)
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

// addAttachments sets which files an agent accepts: what its metadata says, and without that the pictures that its model accepts.
func (c *Compiler) addAttachments(can *agentpb.Capabilities, files *definition.Files, multimodal bool) {
	accepted := proto.CloneOf(c.env.Defaults.Attachments)
	switch {
	case files == nil && multimodal:
		accepted.AllowedMimeTypes, accepted.AcceptsImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}, true
		can.Attachments = accepted
	case files != nil && files.Enabled:
		accepted.MaxFiles = cmp.Or(files.MaxFiles, accepted.GetMaxFiles())
		accepted.MaxFileSize = cmp.Or(files.MaxFileSize, accepted.GetMaxFileSize())
		accepted.AllowedMimeTypes, accepted.RetentionDays = files.AllowedMIMETypes, files.RetentionDays
		accepted.AcceptsImages = files.AcceptsImages || multimodal
		can.Attachments = accepted
	}
}

func (c *Compiler) addTools(agent *agentpb.Agent, config *definition.Config, secrets definition.Secrets) {
	can := agent.GetCapabilities()
	for i := range config.Tools {
		from := &config.Tools[i]
		tool := &agentpb.Tool{
			Name: from.Name, Description: from.Description, Schema: from.InputSchema, Client: from.Client,
			Builtin: from.Builtin, Policy: c.toolPolicy(&from.Policy),
		}
		if from.URL != "" {
			tool.Http = &agentpb.HTTP{
				Method: cmp.Or(from.Method, "POST"), Url: from.URL, Headers: secrets.ToolHeaders(from.Name, from.Headers),
				RuntimeHeaders: runtimeHeaders(from.RuntimeHeaders),
			}
		}
		agent.Tools = append(agent.Tools, tool)
		can.ClientTools = can.ClientTools || from.Client
		can.ToolApproval = can.ToolApproval || mayNeedApproval(tool.GetPolicy())
	}
	for i := range config.ToolBindings {
		c.addBoundTools(agent, &config.ToolBindings[i])
	}
	for i := range config.MCPServers {
		from := &config.MCPServers[i]
		policy := c.toolPolicy(&from.Policy)
		agent.Servers = append(agent.Servers, &agentpb.MCP{
			Name: from.Name, Url: from.URL, Headers: secrets.ServerHeaders(from.Name, from.Headers), Tools: from.ToolNames,
			Policy: policy, RuntimeHeaders: runtimeHeaders(from.RuntimeHeaders),
		})
		can.ToolApproval = can.ToolApproval || mayNeedApproval(policy)
	}
	if config.AskUser {
		can.AskUser = true
		agent.AskUser = &agentpb.AskUser{ActionTimeoutMs: c.env.Defaults.Policy.GetActionTimeoutMs()}
	}
}

// addBoundTools adds the built-in tools that a binding names. Other tools are skipped (document 3, 7.10).
func (c *Compiler) addBoundTools(agent *agentpb.Agent, binding *definition.Binding) {
	if binding.Source != "system" {
		return
	}
	names := binding.ToolNames
	if len(names) == 0 {
		names = []string{binding.SourceKey}
	}
	for _, name := range names {
		taken := slices.ContainsFunc(agent.GetTools(), func(t *agentpb.Tool) bool { return t.GetName() == name })
		if !taken && c.env.IsBuiltinTool(name) {
			agent.Tools = append(agent.Tools, &agentpb.Tool{Name: name, Builtin: name, Policy: c.toolPolicy(&definition.Policy{})})
		}
	}
}

func (c *Compiler) toolPolicy(from *definition.Policy) *agentpb.ToolPolicy {
	defaults := &c.env.Defaults
	policy := proto.CloneOf(defaults.Policy)
	policy.Approval = cmp.Or(from.Approval, policy.GetApproval())
	policy.When, policy.ApprovalPrompt, policy.Idempotent = from.When, from.ApprovalPrompt, from.Idempotent
	policy.TimeoutMs = min(cmp.Or(from.TimeoutMs, policy.GetTimeoutMs()), defaults.MaxToolTimeoutMs)
	policy.MaxResultBytes = min(cmp.Or(from.MaxResultBytes, policy.GetMaxResultBytes()), defaults.MaxToolResultBytes)
	policy.ActionTimeoutMs = min(cmp.Or(from.ActionTimeoutMs, policy.GetActionTimeoutMs()), maxActionTimeoutMs)
	return policy
}

// mayNeedApproval says whether a person may have to approve a call.
func mayNeedApproval(policy *agentpb.ToolPolicy) bool {
	return policy.GetApproval() == "always" || policy.GetApproval() == "when"
}

func runtimeHeaders(from *definition.RuntimeHeaders) *agentpb.RuntimeHeaders {
	if from == nil {
		return nil
	}
	return &agentpb.RuntimeHeaders{Allow: from.Allow, AllowedNames: from.AllowedNames}
}
