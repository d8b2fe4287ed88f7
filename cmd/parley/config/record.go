package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"parley/proto/agentpb"
)

// Defaults of a model's settings.
const (
	defaultContextTokens     = 128_000
	defaultFirstTokenTimeout = time.Minute
	defaultIdleTimeout       = time.Minute
	defaultTotalTimeout      = 10 * time.Minute
	defaultRetries           = 2
)

// AgentRecords returns the records of the agents on offer, in order of their listing, the built-in ones first. API keys
// are read from where the settings point.
func (c *Config) AgentRecords() ([]*agentpb.Agent, error) {
	agents, builtin := c.offered()
	if len(agents) == 0 {
		return nil, errors.New("agents: there is none: define one, or leave builtin_assistant on")
	}
	k := &checker{}
	seen := map[string]string{}
	records := make([]*agentpb.Agent, 0, len(agents))
	for i := range agents {
		key := fmt.Sprintf("agents[%d]", i-builtin)
		if agents[i].ID != "" {
			key += fmt.Sprintf(" (%s)", agents[i].ID)
		}
		if first, ok := seen[agents[i].ID]; ok && agents[i].ID != "" {
			k.failf(key+".id", "is the id of %s, too", first)
		}
		seen[agents[i].ID] = fmt.Sprintf("agents[%d]", i-builtin)
		records = append(records, c.agentRecord(k, key, &agents[i]))
	}
	if len(k.problems) > 0 {
		return nil, errors.Join(k.problems...)
	}
	return records, nil
}

// offered returns the built-in agents followed by the configured ones, and how many are built in. A configured agent
// with the same id replaces the built-in assistant. The demo is only offered if no agents are configured.
func (c *Config) offered() (agents []Agent, builtin int) {
	taken := slices.ContainsFunc(c.Agents, func(a Agent) bool { return a.ID == assistant().ID })
	if c.BuiltinAssistant && !taken {
		agents = append(agents, assistant())
	}
	if c.BuiltinAssistant && len(c.Agents) == 0 {
		agents = append(agents, demo())
	}
	return append(agents, c.Agents...), len(agents)
}

// FirstAgent returns the id of the first agent on offer, "" if there is none.
func (c *Config) FirstAgent() string {
	if agents, _ := c.offered(); len(agents) > 0 {
		return agents[0].ID
	}
	return ""
}

func (c *Config) agentRecord(k *checker, key string, a *Agent) *agentpb.Agent {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(a.ID) {
		k.failf(key+".id", "%q needs 1 to 64 letters, digits, '.', '-', '_', beginning with a letter or digit", a.ID)
	}
	if len(a.Name) > 200 {
		k.failf(key+".name", "is longer than 200 bytes")
	}
	if slices.Contains(a.Projects, "") {
		k.failf(key+".projects", "must not hold an empty id")
	}
	if len(a.Shield) > 128 {
		k.failf(key+".shield", "is longer than 128 bytes")
	}
	c.checkItem(k, key, a)
	record := &agentpb.Agent{
		Id: a.ID, Name: a.Name, Description: a.Description, Version: a.Version, Instructions: a.Instructions,
		MaxTurns:     int32(a.MaxTurns),
		Background:   a.Background,
		Exposed:      a.Exposed,
		Shield:       a.Shield,
		Projects:     a.Projects,
		Metadata:     agentMetadata(k, key, a),
		Capabilities: capabilityRecord(&a.Capabilities),
		Experience:   experienceRecord(&a.Experience),
	}
	if record.Name == "" {
		record.Name = a.ID
	}
	if a.Model == nil {
		k.failf(key+".model", "is missing")
	} else {
		record.Model = c.modelRecord(k, key+".model", a.Model)
	}
	if a.DefaultBudget != nil {
		record.DefaultBudget = budgetRecord(k, key+".default_budget", a)
		record.BudgetBinds = a.DefaultBudget.Binding
	}
	c.toolRecords(k, key, a, record)
	return record
}

func agentMetadata(k *checker, key string, a *Agent) []byte {
	metadata := make(map[string]any, len(a.Metadata)+2)
	for name, value := range a.Metadata {
		metadata[name] = value
	}
	if a.Welcome != "" {
		metadata["welcome"] = a.Welcome
	}
	if len(a.Starters) > 0 {
		metadata["starters"] = a.Starters
	}
	if len(metadata) == 0 {
		return nil
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		k.failf(key+".metadata", "%w", err)
	}
	return text
}

func (c *Config) modelRecord(k *checker, key string, m *Model) *agentpb.Model {
	providers := map[string]agentpb.Provider{
		"scripted": agentpb.Provider_SCRIPTED, "openai": agentpb.Provider_OPENAI,
		"openai-responses": agentpb.Provider_OPENAI_RESPONSES, "anthropic": agentpb.Provider_ANTHROPIC,
	}
	record := &agentpb.Model{
		Provider: providers[m.Provider], Name: m.Name, BaseUrl: m.BaseURL,
		MaxOutputTokens:     int32(m.MaxOutputTokens),
		ContextTokens:       int32(or(m.ContextTokens, defaultContextTokens)),
		FirstTokenTimeoutMs: or(m.FirstTokenTimeout, defaultFirstTokenTimeout).Milliseconds(),
		IdleTimeoutMs:       or(m.IdleTimeout, defaultIdleTimeout).Milliseconds(),
		TotalTimeoutMs:      or(m.TotalTimeout, defaultTotalTimeout).Milliseconds(),
		MaxRetries:          maxRetries(m.Retries),
		Temperature:         valueOr(m.Temperature, 0), HasTemperature: m.Temperature != nil,
		TopP: valueOr(m.TopP, 0), HasTopP: m.TopP != nil,
	}
	if m.Price != nil {
		record.Price = &agentpb.Price{
			InputNanoUsdPerMtok:       int64(m.Price.Input),
			CachedInputNanoUsdPerMtok: int64(valueOr(m.Price.CachedInput, m.Price.Input)),
			OutputNanoUsdPerMtok:      int64(m.Price.Output),
		}
	}
	checkModel(k, key, m)
	if m.Provider == "scripted" {
		record.Name = or(m.Name, "scripted")
		record.Script = scriptRecord(k, key+".script", m.Script)
		return record
	}
	record.ApiKey = c.apiKey(k, key, m)
	return record
}

// maxRetries returns the retries for an agent's record, in which 0 means the default of package model and a negative
// value none.
func maxRetries(configured *int) int32 {
	if retries := valueOr(configured, defaultRetries); retries != 0 {
		return int32(retries)
	}
	return -1
}

func checkModel(k *checker, key string, m *Model) {
	if m.Provider != "scripted" {
		if m.Name == "" {
			k.failf(key+".name", "must not be empty")
		}
		if m.Script != nil {
			k.failf(key+".script", "is only for provider scripted")
		}
	}
	if m.BaseURL != "" {
		if _, err := serviceURL(m.BaseURL); err != nil {
			k.failf(key+".base_url", "%w", err)
		}
	}
}

// apiKey returns the model's key. A service given by base_url may need none.
func (c *Config) apiKey(k *checker, key string, m *Model) string {
	if m.APIKey == "" && m.APIKeyEnv == "" && m.APIKeyFile == "" && m.BaseURL == "" && m.Provider != "" {
		k.failf(key+".api_key", "is missing: give api_key, api_key_env or api_key_file (or base_url of a server that needs none)")
	}
	return c.secret(k, key, secretSource{
		text: m.APIKey.Reveal(), env: m.APIKeyEnv, file: m.APIKeyFile, names: "api_key, api_key_env and api_key_file",
		envKey: ".api_key_env", fileKey: ".api_key_file",
	})
}

// secretSource is the three places where a secret may be given, with their names.
type secretSource struct {
	text, env, file        string
	names, envKey, fileKey string
}

// secret returns a secret from the one place that is given, "" if there is none.
func (c *Config) secret(k *checker, key string, from secretSource) string {
	given := 0
	for _, text := range []string{from.text, from.env, from.file} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		k.failf(key, "give one of %s", from.names)
	case from.env != "":
		lookup := c.lookupEnv
		if lookup == nil {
			lookup = os.LookupEnv
		}
		value, _ := lookup(from.env)
		if value == "" {
			k.failf(key+from.envKey, "environment variable %s is not set", from.env)
		}
		return value
	case from.file != "":
		value, err := readSecret(key+from.fileKey, from.file)
		if err != nil {
			k.problems = append(k.problems, err)
		}
		return string(value)
	}
	return from.text
}

func scriptRecord(k *checker, key string, s *Script) *agentpb.Script {
	if s == nil {
		return nil
	}
	record := &agentpb.Script{
		FirstTokenDelayMs: s.FirstTokenDelay.Milliseconds(), TokenIntervalMs: s.TokenInterval.Milliseconds(),
		Tokens: int32(s.Tokens), Text: s.Text,
	}
	if s.Usage != nil {
		record.Usage = &agentpb.Script_Usage{
			InputTokens: int64(s.Usage.InputTokens), OutputTokens: int64(s.Usage.OutputTokens),
			CachedInputTokens: int64(s.Usage.CachedInputTokens),
		}
	}
	for i, step := range s.Steps {
		at := fmt.Sprintf("%s.steps[%d]", key, i)
		out := &agentpb.Script_Step{
			Text: step.Text, ErrorCode: step.ErrorCode, ErrorMessage: step.ErrorMessage,
			ErrorAfterTokens: int32(step.ErrorAfterTokens), FailTimes: int32(step.FailTimes), DelayMs: step.Delay.Milliseconds(),
		}
		for j, call := range step.ToolCalls {
			if call.Name == "" {
				k.failf(fmt.Sprintf("%s.tool_calls[%d].name", at, j), "must not be empty")
			}
			out.ToolCalls = append(out.ToolCalls, &agentpb.Script_ToolCall{Name: call.Name, Arguments: argumentText(k, at, call)})
		}
		record.Steps = append(record.Steps, out)
	}
	return record
}

func argumentText(k *checker, key string, call ToolCall) string {
	if len(call.Arguments) == 0 {
		return "{}"
	}
	text, err := json.Marshal(call.Arguments)
	if err != nil {
		k.failf(key+".tool_calls", "%w", err)
	}
	return string(text)
}

func budgetRecord(k *checker, key string, a *Agent) *agentpb.Budget {
	if a.DefaultBudget.MaxCost <= 0 {
		k.failf(key+".max_cost", "must be above 0")
	}
	if a.Model != nil && a.Model.Price == nil {
		k.failf(key, "needs model.price: what has no price cannot be kept within a budget")
	}
	return &agentpb.Budget{MaxCostNanoUsd: int64(a.DefaultBudget.MaxCost), OnReach: or(a.DefaultBudget.OnReach, "pause")}
}

func capabilityRecord(c *Capabilities) *agentpb.Capabilities {
	files := c.Attachments
	record := &agentpb.Capabilities{
		ToolApproval: c.ToolApproval, AskUser: c.AskUser, ClientTools: c.ClientTools,
		Attachments: &agentpb.Attachments{Enabled: files.Enabled},
	}
	if files.Enabled {
		record.Attachments.MaxFiles = int32(or(files.MaxFiles, 10))
		record.Attachments.MaxFileSize = int64(or(files.MaxFileSize, 10*MiB))
		record.Attachments.AllowedMimeTypes = files.AllowedMIMETypes
		record.Attachments.AcceptsImages = files.AcceptsImages
		record.Attachments.RetentionDays = int32(files.RetentionDays)
	}
	return record
}

// experienceRecord fills in the defaults of the switches.
func experienceRecord(e *Experience) *agentpb.Experience {
	record := &agentpb.Experience{
		Copy: valueOr(e.Copy, true), Regenerate: valueOr(e.Regenerate, true), Edit: valueOr(e.Edit, true),
		Rename: valueOr(e.Rename, true), Pin: valueOr(e.Pin, true), BulkDelete: valueOr(e.BulkDelete, true),
		Titles:          valueOr(e.Titles, false),
		FeedbackEnabled: valueOr(e.Feedback.Enabled, true), FeedbackComments: valueOr(e.Feedback.Comments, true),
		FeedbackReasons:          e.Feedback.Reasons,
		FeedbackMaxCommentLength: int32(or(e.Feedback.MaxCommentLength, 1000)),
		ExportEnabled:            valueOr(e.Export.Enabled, true), ExportIncludeTools: e.Export.IncludeTools,
		ExportFormats: e.Export.Formats,
	}
	if len(record.FeedbackReasons) == 0 {
		record.FeedbackReasons = strings.Fields("inaccurate incomplete off_topic too_long unsafe other")
	}
	if len(record.ExportFormats) == 0 {
		record.ExportFormats = strings.Fields("md json html pdf")
	}
	return record
}

// or returns the value, or the fallback for its zero.
func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func valueOr[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}
