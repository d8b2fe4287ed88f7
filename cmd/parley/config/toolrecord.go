package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"parley/actors/expression" // approval expressions are compiled here, so that mistakes are found at the start
	"parley/actors/schema"
	"parley/proto/agentpb"
)

// maxDocumentFile bounds an OpenAPI document.
const maxDocumentFile = 8 << 20

// toolRecords fills in the agent's tools and the capabilities that follow from them.
func (c *Config) toolRecords(k *checker, key string, a *Agent, record *agentpb.Agent) {
	seen, check := map[string]bool{}, new(schema.Checker)
	for i := range a.Tools {
		at := fmt.Sprintf("%s.tools[%d]", key, i)
		tool := c.toolRecord(k, at, &a.Tools[i], check)
		if seen[tool.GetName()] {
			k.failf(at+".name", "%q is the name of another tool, too", tool.GetName())
		}
		seen[tool.GetName()] = true
		record.Tools = append(record.Tools, tool)
		record.Capabilities.ClientTools = record.Capabilities.ClientTools || tool.GetClient()
		record.Capabilities.ToolApproval = record.Capabilities.ToolApproval || asks(tool.GetPolicy())
	}
	for i := range a.ToolSources {
		c.sourceRecord(k, fmt.Sprintf("%s.tool_sources[%d]", key, i), &a.ToolSources[i], record)
	}
	if a.Capabilities.AskUser {
		record.AskUser = &agentpb.AskUser{ActionTimeoutMs: c.HITL.Timeout.Milliseconds()}
	}
	if a.TitleModel != nil {
		record.TitleModel = c.modelRecord(k, key+".title_model", a.TitleModel)
	}
	if hook := a.FeedbackHook; hook != nil {
		checkRemote(k, key+".feedback_hook.url", hook.URL)
		record.FeedbackHook = &agentpb.FeedbackHook{Url: hook.URL, Secret: hook.Secret.Reveal()}
	}
}

func asks(policy *agentpb.ToolPolicy) bool {
	return policy.GetApproval() == "always" || policy.GetApproval() == "when"
}

func (c *Config) toolRecord(k *checker, key string, t *Tool, check *schema.Checker) *agentpb.Tool {
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`).MatchString(t.Name) {
		k.failf(key+".name", "%q needs 1 to 64 letters, digits, '_' and '-'", t.Name)
	}
	record := &agentpb.Tool{
		Name: t.Name, Description: t.Description, Client: t.Client, Builtin: t.Builtin,
		Policy: c.policyRecord(k, key, &ToolPolicy{
			Approval: t.Approval, When: t.When, ApprovalPrompt: t.ApprovalPrompt, Idempotent: t.Idempotent,
			Timeout: t.Timeout, MaxResult: t.MaxResult, ActionTimeout: t.ActionTimeout,
		}),
	}
	if len(t.Schema) > 0 {
		text, err := json.Marshal(t.Schema)
		if err == nil {
			err = check.Check(text)
		}
		if err != nil {
			k.failf(key+".schema", "%w", err)
		}
		record.Schema = text
	}
	ways := 0
	for _, given := range []bool{t.URL != "", t.Client, t.Builtin != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		k.failf(key, "needs exactly one of url, client and builtin")
	}
	runtimeHeaders := runtimeRecord(k, key+".runtime_headers", &t.RuntimeHeaders, t.URL != "")
	if t.URL == "" {
		return record
	}
	k.oneOf(key+".method", or(t.Method, "POST"), "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
	if _, err := serviceURL(t.URL); err != nil {
		k.failf(key+".url", "%w", err)
	}
	record.Http = &agentpb.HTTP{
		Method: or(t.Method, "POST"), Url: t.URL, Headers: c.headerRecord(k, key+".headers", t.Headers),
		RuntimeHeaders: runtimeHeaders,
	}
	return record
}

func (c *Config) policyRecord(k *checker, key string, p *ToolPolicy) *agentpb.ToolPolicy {
	approval := or(p.Approval, "never")
	if (approval == "when") != (p.When != "") {
		k.failf(key+".when", "belongs to approval: when")
	}
	if p.When != "" {
		if _, err := expression.Approval(p.When); err != nil {
			k.failf(key+".when", "%w", err)
		}
	}
	return &agentpb.ToolPolicy{
		Approval: approval, When: p.When, Idempotent: p.Idempotent, ApprovalPrompt: p.ApprovalPrompt,
		TimeoutMs:       or(p.Timeout, c.Tools.Timeout).Milliseconds(),
		MaxResultBytes:  int64(or(p.MaxResult, c.Tools.MaxResult)),
		ActionTimeoutMs: or(p.ActionTimeout, c.HITL.Timeout).Milliseconds(),
	}
}

func (c *Config) sourceRecord(k *checker, key string, s *ToolSource, record *agentpb.Agent) {
	policies := map[string]*agentpb.ToolPolicy{}
	policy := c.policyRecord(k, key+".policy", &s.Policy)
	needsPerson := asks(policy)
	for i := range s.Policies {
		at := fmt.Sprintf("%s.policies[%d]", key, i)
		if s.Policies[i].Tool == "" {
			k.failf(at+".tool", "must not be empty")
		}
		policies[s.Policies[i].Tool] = c.policyRecord(k, at+".policy", &s.Policies[i].Policy)
		needsPerson = needsPerson || asks(policies[s.Policies[i].Tool])
	}
	record.Capabilities.ToolApproval = record.Capabilities.ToolApproval || needsPerson
	if s.Name != "" && !regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`).MatchString(s.Name) {
		k.failf(key+".name", "%q needs 1 to 32 letters, digits, '_' and '-'", s.Name)
	}
	headers := c.headerRecord(k, key+".headers", s.Headers)
	runtimeHeaders := runtimeRecord(k, key+".runtime_headers", &s.RuntimeHeaders, s.MCPCommand == "")
	ways := 0
	for _, given := range []bool{s.OpenAPIFile != "", s.MCPURL != "", s.MCPCommand != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		k.failf(key, "needs exactly one of openapi_file, mcp_url and mcp_command")
	case s.OpenAPIFile != "":
		document, err := readDocument(s.OpenAPIFile)
		if err != nil {
			k.failf(key+".openapi_file", "%w", err)
		}
		if s.BaseURL != "" {
			if _, err := serviceURL(s.BaseURL); err != nil {
				k.failf(key+".base_url", "%w", err)
			}
		}
		record.Apis = append(record.Apis, &agentpb.OpenAPI{
			Name: s.Name, Document: document, BaseUrl: s.BaseURL, Headers: headers, Operations: s.Only,
			Policy: policy, Policies: policies, RuntimeHeaders: runtimeHeaders,
		})
	default:
		if s.Name == "" {
			k.failf(key+".name", "is needed for an MCP server")
		}
		if s.MCPURL != "" {
			if _, err := serviceURL(s.MCPURL); err != nil {
				k.failf(key+".mcp_url", "%w", err)
			}
		}
		record.Servers = append(record.Servers, &agentpb.MCP{
			Name: s.Name, Url: s.MCPURL, Headers: headers, Command: s.MCPCommand, Args: s.MCPArgs,
			Env: c.headerRecord(k, key+".mcp_env", s.MCPEnv), Tools: s.Only, Policy: policy, Policies: policies,
			RuntimeHeaders: runtimeHeaders,
		})
	}
}

// runtimeRecord returns nil if nothing is passed on.
func runtimeRecord(k *checker, key string, headers *RuntimeHeaders, hasHeaders bool) *agentpb.RuntimeHeaders {
	for i, name := range headers.AllowedNames {
		if !isHeaderName(name) {
			k.failf(fmt.Sprintf("%s.allowed_names[%d]", key, i), "%q is not a name", name)
		}
	}
	if len(headers.AllowedNames) > 0 && !headers.Allow {
		k.failf(key+".allowed_names", "belongs to allow: true")
	}
	if !headers.Allow {
		return nil
	}
	if !hasHeaders {
		k.failf(key, "belongs to what is called over HTTP")
	}
	return &agentpb.RuntimeHeaders{Allow: true, AllowedNames: headers.AllowedNames}
}

func readDocument(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxDocumentFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxDocumentFile)
	}
	return os.ReadFile(name) //nolint:gosec // the operator names it
}

// headerRecord reads the values of headers from where the settings point.
func (c *Config) headerRecord(k *checker, key string, headers []Header) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	record := make(map[string]string, len(headers))
	for i := range headers {
		at, h := fmt.Sprintf("%s[%d]", key, i), &headers[i]
		if !isHeaderName(h.Name) {
			k.failf(at+".name", "%q is not a name", h.Name)
		}
		record[h.Name] = c.secret(k, at, secretSource{
			text: h.Value.Reveal(), env: h.ValueEnv, file: h.ValueFile, names: "value, value_env and value_file",
			envKey: ".value_env", fileKey: ".value_file",
		})
	}
	return record
}
