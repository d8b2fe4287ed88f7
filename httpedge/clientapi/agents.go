package clientapi

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"parley/actors/core/catalog"
	"parley/actors/machine"
	"parley/httpedge/definition"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Texts of agents (document 3, section 7).
const (
	textNoAgent         = "Agent not found"
	textNoVersion       = "Agent version not found"
	textConfiguredAgent = "The agent is defined in the server's configuration"
)

// States of an agent.
const (
	agentActive   = "active"
	agentInactive = "inactive"
	agentDraft    = "draft"
)

// modelSummary is which model answers, and how it is called. A connected agent has none.
type modelSummary struct {
	ModelKey    string   `json:"modelKey,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"topP,omitempty"`
	MaxTokens   *int     `json:"maxTokens,omitempty"`
}

// agentSummaryRecord is an agent in a list.
type agentSummaryRecord struct {
	Key              string       `json:"key"`
	Name             string       `json:"name"`
	Description      *string      `json:"description"`
	Status           string       `json:"status" enum:"active,inactive,draft"`
	CreatedAt        *string      `json:"createdAt" format:"date-time" doc:"null for an agent of the server's configuration"`
	Config           modelSummary `json:"config"`
	PublishedVersion *int64       `json:"publishedVersion" doc:"null while none was published"`
	LatestVersion    int64        `json:"latestVersion"`
}

type listAgentsInput struct {
	Status string `query:"status" doc:"active, inactive or draft"`
	Limit  int    `query:"limit" default:"100" max:"500"`
	Offset int    `query:"offset"`
}

type agentListOut struct {
	Agents     []*agentSummaryRecord `json:"agents"`
	Pagination paginationSchema      `json:"pagination"`
}

func (a *API) listAgents(ctx context.Context, in *listAgentsInput) (*agentListOut, error) {
	recorded, err := a.agentsOf(endpoint.CallerFrom(ctx).ProjectID)
	if err != nil {
		return nil, err
	}
	all := make([]*agentSummaryRecord, 0, len(recorded))
	for _, agent := range recorded {
		if in.Status == "" || agent.GetStatus() == in.Status {
			all = append(all, summaryOf(agent))
		}
	}
	if in.Status == "" || in.Status == agentActive {
		for _, agent := range a.Agents.Agents(endpoint.CallerFrom(ctx).ProjectID) {
			if agent.GetProjectId() == "" {
				all = append(all, configuredSummary(agent))
			}
		}
	}
	page, pagination := pageOf(all, in.Limit, in.Offset)
	return &agentListOut{Agents: page, Pagination: pagination}, nil
}

// agentsOf returns the recorded agents of a project, newest first.
func (a *API) agentsOf(projectID string) ([]*directorypb.Agent, error) {
	agents, err := decodeAll[directorypb.Agent](a.Records.List(catalog.Agents, catalog.Key(projectID, "")))
	newestFirst(agents, (*directorypb.Agent).GetKey)
	return agents, err
}

type agentInput struct {
	Key string `path:"agentKey"`
}

type agentSummaryOut struct {
	Agent *agentSummaryRecord `json:"agent"`
}

func (a *API) getAgent(ctx context.Context, in *agentInput) (*agentSummaryOut, error) {
	if agent, ok := a.configured(ctx, in.Key); ok {
		return &agentSummaryOut{configuredSummary(agent)}, nil
	}
	agent, err := a.agentRecord(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	return &agentSummaryOut{summaryOf(agent)}, nil
}

// configured returns an agent of the server's configuration.
func (a *API) configured(ctx context.Context, key string) (*agentpb.Agent, bool) {
	agent, ok := a.Agents.Agent(endpoint.CallerFrom(ctx).ProjectID, key)
	return agent, ok && agent.GetProjectId() == ""
}

// agentRecord reads an agent of the caller's project, or fails as not found.
func (a *API) agentRecord(ctx context.Context, key string) (*directorypb.Agent, error) {
	agent := new(directorypb.Agent)
	if !isKey(key) {
		return nil, machine.Fail(failurepb.Code_AGENT_NOT_FOUND, textNoAgent)
	}
	found, err := a.read(ctx, catalog.Agents, catalog.Key(endpoint.CallerFrom(ctx).ProjectID, key), agent)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, machine.Fail(failurepb.Code_AGENT_NOT_FOUND, textNoAgent)
	}
	return agent, nil
}

// agentVersion reads a version of an agent, or fails as not found.
func (a *API) agentVersion(ctx context.Context, key string, version int64) (*directorypb.AgentVersion, error) {
	found := false
	snapshot := new(directorypb.AgentVersion)
	if isKey(key) && version > 0 {
		var err error
		record := catalog.Key(endpoint.CallerFrom(ctx).ProjectID, key)
		if found, err = a.read(ctx, catalog.AgentVersions, catalog.VersionKey(record, version), snapshot); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, machine.Fail(failurepb.Code_VERSION_NOT_FOUND, textNoVersion)
	}
	return snapshot, nil
}

var keyRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// isKey says whether something can be the key of an agent, a model or a provider.
func isKey(text string) bool { return keyRule.MatchString(text) }

// slug makes the readable part of a key out of a name.
func slug(name, fallback string) string {
	const longest = 40
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= longest {
			break
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), fallback)
}

func summaryOf(agent *directorypb.Agent) *agentSummaryRecord {
	draft := agent.GetDraft()
	summary := &agentSummaryRecord{
		Key: agent.GetKey(), Name: draft.GetName(), Description: nullable(draft.GetDescription()), Status: agent.GetStatus(),
		CreatedAt: nullableTime(agent.GetCreatedAt()), PublishedVersion: nullableVersion(agent.GetPublishedVersion()),
		LatestVersion: agent.GetLatestVersion(),
	}
	if config, err := definition.Parse(draft.GetConfig()); err == nil {
		summary.Config = modelSummary{config.ModelKey, config.Temperature, config.TopP, config.MaxTokens}
	}
	return summary
}

func configuredSummary(agent *agentpb.Agent) *agentSummaryRecord {
	model := agent.GetModel()
	summary := &agentSummaryRecord{
		Key: agent.GetId(), Name: agent.GetName(), Description: nullable(agent.GetDescription()), Status: agentActive,
		Config: modelSummary{ModelKey: cmp.Or(model.GetKey(), model.GetName())},
	}
	if model.GetHasTemperature() {
		summary.Config.Temperature = &model.Temperature
	}
	if model.GetHasTopP() {
		summary.Config.TopP = &model.TopP
	}
	if tokens := int(model.GetMaxOutputTokens()); tokens > 0 {
		summary.Config.MaxTokens = &tokens
	}
	return summary
}

func nullableVersion(version int64) *int64 {
	if version == 0 {
		return nil
	}
	return &version
}

// agentFullRecord is an agent as those who write it see it: nothing in it is secret.
type agentFullRecord struct {
	InternalID       string          `json:"_id"`
	TenantID         string          `json:"tenantId"`
	ProjectID        string          `json:"projectId"`
	Key              string          `json:"key"`
	Name             string          `json:"name"`
	Description      *string         `json:"description"`
	Config           json.RawMessage `json:"config" doc:"hasApiKey says whether a connection has a key; values of headers are masked"`
	Status           string          `json:"status" enum:"active,inactive,draft"`
	PublishedVersion *int64          `json:"publishedVersion"`
	LatestVersion    int64           `json:"latestVersion"`
	Metadata         json.RawMessage `json:"metadata"`
	CreatedBy        *string         `json:"createdBy"`
	UpdatedBy        *string         `json:"updatedBy"`
	CreatedAt        string          `json:"createdAt" format:"date-time"`
	UpdatedAt        string          `json:"updatedAt" format:"date-time"`
}

func agentJSON(agent *directorypb.Agent) *agentFullRecord {
	draft := agent.GetDraft()
	return &agentFullRecord{
		InternalID: agent.GetId(), TenantID: agent.GetTenantId(), ProjectID: agent.GetProjectId(), Key: agent.GetKey(),
		Name: draft.GetName(), Description: nullable(draft.GetDescription()), Config: shownConfig(draft),
		Status: agent.GetStatus(), PublishedVersion: nullableVersion(agent.GetPublishedVersion()),
		LatestVersion: agent.GetLatestVersion(), Metadata: objectJSON(agent.GetMetadata()),
		CreatedBy: nullable(agent.GetCreatedBy()), UpdatedBy: nullable(agent.GetUpdatedBy()),
		CreatedAt: timeText(agent.GetCreatedAt()), UpdatedAt: timeText(agent.GetUpdatedAt()),
	}
}

func shownConfig(of *directorypb.Definition) json.RawMessage {
	sealed, err := definition.ParseSealed(of.GetSealed())
	if err != nil {
		sealed = nil
	}
	return objectJSON(definition.Show(of.GetConfig(), sealed))
}

// objectJSON is stored JSON, {} when nothing is stored.
func objectJSON(stored []byte) json.RawMessage {
	if len(stored) == 0 {
		return json.RawMessage(`{}`)
	}
	return stored
}
