package agents

import (
	"cmp"
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

// modelSummary names the model that answers and its provider's driver. A connected agent has none.
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
	Agents     []*agentSummaryRecord   `json:"agents"`
	Pagination render.PaginationSchema `json:"pagination"`
}

func (a *api) listAgents(ctx context.Context, in *listAgentsInput) (*agentListOut, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	recorded, total, err := a.Catalog.PageAgents(project, in.Status, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	page := make([]*agentSummaryRecord, 0, len(recorded))
	for _, agent := range recorded {
		page = append(page, summaryOf(agent))
	}
	if in.Status == "" || in.Status == catalog.AgentActive { // those of the configuration come last
		for _, agent := range a.Agents.Agents(project) {
			if agent.GetProjectId() != "" {
				continue
			}
			if total >= in.Offset && len(page) < in.Limit {
				page = append(page, configuredSummary(agent))
			}
			total++
		}
	}
	return &agentListOut{Agents: page, Pagination: render.Pagination(in.Limit, in.Offset, total)}, nil
}

type agentInput struct {
	Key string `path:"agentKey"`
}

type agentSummaryOut struct {
	Agent *agentSummaryRecord `json:"agent"`
}

func (a *api) getAgent(ctx context.Context, in *agentInput) (*agentSummaryOut, error) {
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
func (a *api) configured(ctx context.Context, key string) (*agentpb.Agent, bool) {
	agent, ok := a.Agents.Agent(endpoint.CallerFrom(ctx).ProjectID, key)
	return agent, ok && agent.GetProjectId() == ""
}

// agentRecord returns an agent that is recorded in the caller's project.
func (a *api) agentRecord(ctx context.Context, key string) (*directorypb.Agent, error) {
	agent, err := a.Catalog.Agent(ctx, endpoint.CallerFrom(ctx).ProjectID, key)
	return agent, handler.RecordError(err)
}

func summaryOf(agent *directorypb.Agent) *agentSummaryRecord {
	draft := agent.GetDraft()
	summary := &agentSummaryRecord{
		Key: agent.GetKey(), Name: draft.GetName(), Description: render.Nullable(draft.GetDescription()), Status: agent.GetStatus(),
		CreatedAt: render.NullableTime(agent.GetCreatedAt()), PublishedVersion: nullableVersion(agent.GetPublishedVersion()),
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
		Key: agent.GetId(), Name: agent.GetName(), Description: render.Nullable(agent.GetDescription()), Status: catalog.AgentActive,
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

// agentFullRecord is an agent as its editors see it, without secrets.
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
		Name: draft.GetName(), Description: render.Nullable(draft.GetDescription()), Config: shownConfig(draft),
		Status: agent.GetStatus(), PublishedVersion: nullableVersion(agent.GetPublishedVersion()),
		LatestVersion: agent.GetLatestVersion(), Metadata: render.Object(agent.GetMetadata()),
		CreatedBy: render.Nullable(agent.GetCreatedBy()), UpdatedBy: render.Nullable(agent.GetUpdatedBy()),
		CreatedAt: render.Time(agent.GetCreatedAt()), UpdatedAt: render.Time(agent.GetUpdatedAt()),
	}
}

// getDraft reads what the next change starts from. Agents of the configuration have none.
func (a *api) getDraft(ctx context.Context, in *agentInput) (*agentOut, error) {
	if _, ok := a.configured(ctx, in.Key); ok {
		return nil, handler.AgentNotFound()
	}
	return agentAnswer(a.Catalog.Agent(ctx, endpoint.CallerFrom(ctx).ProjectID, in.Key))
}

func shownConfig(of *directorypb.Definition) json.RawMessage {
	sealed, err := definition.ParseSealed(of.GetSealed())
	if err != nil {
		sealed = nil
	}
	return render.Object(definition.Show(of.GetConfig(), sealed))
}
