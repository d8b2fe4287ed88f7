package agents

import (
	"context"
	"encoding/json"

	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/proto/directorypb"
)

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
