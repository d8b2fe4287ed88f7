package clientapi

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/proto/directorypb"
)

type createAgentInput struct {
	Name        string          `json:"name" required:"true"`
	Description string          `json:"description"`
	Config      json.RawMessage `json:"config" required:"true" doc:"Native: modelKey, systemPrompt, temperature, topP, maxTokens, tools, ...; connected: kind external and connection"`
	Status      string          `json:"status" enum:"active,inactive,draft"`
	Metadata    json.RawMessage `json:"metadata"`
}

type agentOut struct {
	Agent *agentFullRecord `json:"agent"`
}

func (a *API) createAgent(ctx context.Context, in *createAgentInput) (*agentOut, error) {
	return agentAnswer(a.Catalog.CreateAgent(ctx, maker(ctx), catalog.AgentInput{
		Name: &in.Name, Description: &in.Description, Status: &in.Status, Config: in.Config, Metadata: in.Metadata,
	}))
}

func agentAnswer(agent *directorypb.Agent, err error) (*agentOut, error) {
	if err != nil {
		return nil, recordError(err)
	}
	return &agentOut{agentJSON(agent)}, nil
}

type updateAgentInput struct {
	agentInput
	Name        *string         `json:"name"`
	Description given[string]   `json:"description"`
	Status      *string         `json:"status" enum:"active,inactive,draft"`
	Config      json.RawMessage `json:"config" doc:"Replaces the stored one; an omitted connection.apiKey and masked headers stay while the URL names the same host. Ignored when it is native and the agent is connected"`
	Metadata    json.RawMessage `json:"metadata" doc:"Replaces the stored one"`
}

func (a *API) updateAgent(ctx context.Context, in *updateAgentInput) (*agentOut, error) {
	return agentAnswer(a.Catalog.UpdateAgent(ctx, maker(ctx), in.Key, catalog.AgentInput{
		Name: in.Name, Description: in.Description.pointer(), Status: in.Status, Config: in.Config, Metadata: in.Metadata,
	}))
}

type successOut struct {
	Success bool `json:"success"`
}

// success is the answer of a deletion.
func success(err error) (*successOut, error) {
	if err != nil {
		return nil, recordError(err)
	}
	return &successOut{true}, nil
}

func (a *API) deleteAgent(ctx context.Context, in *agentInput) (*successOut, error) {
	return success(a.Catalog.DeleteAgent(ctx, maker(ctx), in.Key))
}

type publishAgentInput struct {
	agentInput
	Changelog string `json:"changelog"`
}

type snapshotRecord struct {
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Config      json.RawMessage `json:"config"`
	Status      string          `json:"status"`
}

type agentVersionRecord struct {
	InternalID  string         `json:"_id"`
	TenantID    string         `json:"tenantId"`
	ProjectID   string         `json:"projectId"`
	AgentID     string         `json:"agentId"`
	AgentKey    string         `json:"agentKey"`
	Version     int64          `json:"version"`
	Snapshot    snapshotRecord `json:"snapshot"`
	Changelog   *string        `json:"changelog"`
	PublishedBy *string        `json:"publishedBy"`
	CreatedAt   string         `json:"createdAt" format:"date-time"`
}

type versionOut struct {
	Version *agentVersionRecord `json:"version"`
}

func (a *API) publishAgent(ctx context.Context, in *publishAgentInput) (*versionOut, error) {
	version, err := a.Catalog.PublishAgent(ctx, maker(ctx), in.Key, in.Changelog)
	if err != nil {
		return nil, recordError(err)
	}
	return &versionOut{versionJSON(version)}, nil
}

func versionJSON(version *directorypb.AgentVersion) *agentVersionRecord {
	kept := version.GetDefinition()
	return &agentVersionRecord{
		InternalID: version.GetId(), TenantID: version.GetTenantId(), ProjectID: version.GetProjectId(),
		AgentID: version.GetAgentId(), AgentKey: version.GetAgentKey(), Version: version.GetVersion(),
		Snapshot: snapshotRecord{
			Name: kept.GetName(), Description: nullable(kept.GetDescription()), Config: shownConfig(kept),
			Status: version.GetStatus(),
		},
		Changelog: nullable(version.GetChangelog()), PublishedBy: nullable(version.GetPublishedBy()),
		CreatedAt: timeText(version.GetCreatedAt()),
	}
}
