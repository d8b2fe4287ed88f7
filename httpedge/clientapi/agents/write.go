package agents

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
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

func (a *api) createAgent(ctx context.Context, in *createAgentInput) (*agentOut, error) {
	return agentAnswer(a.Catalog.CreateAgent(ctx, handler.Maker(ctx), catalog.AgentInput{
		Name: &in.Name, Description: &in.Description, Status: &in.Status, Config: in.Config, Metadata: in.Metadata,
	}))
}

func agentAnswer(agent *directorypb.Agent, err error) (*agentOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &agentOut{agentJSON(agent)}, nil
}

type updateAgentInput struct {
	agentInput
	Name        handler.Set[string]   `json:"name"`
	Description handler.Given[string] `json:"description"`
	Status      handler.Set[string]   `json:"status" enum:"active,inactive,draft"`
	Config      json.RawMessage       `json:"config" doc:"Replaces the stored one; an omitted connection.apiKey and masked headers stay while the URL names the same host. Ignored when it is native and the agent is connected"`
	Metadata    json.RawMessage       `json:"metadata" doc:"Replaces the stored one"`
}

func (a *api) updateAgent(ctx context.Context, in *updateAgentInput) (*agentOut, error) {
	return agentAnswer(a.Catalog.UpdateAgent(ctx, handler.Maker(ctx), in.Key, catalog.AgentInput{
		Name: in.Name.Pointer(), Description: in.Description.Pointer(), Status: in.Status.Pointer(), Config: in.Config, Metadata: in.Metadata,
	}))
}

func (a *api) deleteAgent(ctx context.Context, in *agentInput) (*handler.Success, error) {
	return handler.Deleted(a.Catalog.DeleteAgent(ctx, handler.Maker(ctx), in.Key))
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

func (a *api) publishAgent(ctx context.Context, in *publishAgentInput) (*versionOut, error) {
	version, err := a.Catalog.PublishAgent(ctx, handler.Maker(ctx), in.Key, in.Changelog)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	return &versionOut{versionJSON(version)}, nil
}

func versionJSON(version *directorypb.AgentVersion) *agentVersionRecord {
	kept := version.GetDefinition()
	return &agentVersionRecord{
		InternalID: version.GetId(), TenantID: version.GetTenantId(), ProjectID: version.GetProjectId(),
		AgentID: version.GetAgentId(), AgentKey: version.GetAgentKey(), Version: version.GetVersion(),
		Snapshot: snapshotRecord{
			Name: kept.GetName(), Description: render.Nullable(kept.GetDescription()), Config: shownConfig(kept),
			Status: version.GetStatus(),
		},
		Changelog: render.Nullable(version.GetChangelog()), PublishedBy: render.Nullable(version.GetPublishedBy()),
		CreatedAt: render.Time(version.GetCreatedAt()),
	}
}
