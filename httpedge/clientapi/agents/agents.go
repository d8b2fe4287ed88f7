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
	"parley/httpedge/resource"
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
	Agents     []*agentSummaryRecord `json:"agents"`
	Pagination resource.Pagination   `json:"pagination"`
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
	return &agentListOut{Agents: page, Pagination: resource.Paginate(in.Limit, in.Offset, total)}, nil
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

// agents declares the agents as their editors see them, without secrets.
func agents() *resource.Object[*directorypb.Agent, catalog.AgentInput] {
	type (
		record = *directorypb.Agent
		input  = catalog.AgentInput
	)
	o := resource.New[record, input]("agent", "AgentFull").Failures(handler.RecordError)
	o.Text("_id", record.GetId)
	o.Text("tenantId", record.GetTenantId)
	o.Text("projectId", record.GetProjectId)
	o.Text("key", record.GetKey)
	o.Text("name", func(agent record) string { return agent.GetDraft().GetName() }).
		Write(func(in *input) **string { return &in.Name }).Required()
	o.NullableText("description", func(agent record) string { return agent.GetDraft().GetDescription() }).
		Write(func(in *input) **string { return &in.Description }).Clearable()
	o.Document("config", func(agent record) []byte { return shownConfig(agent.GetDraft()) }).
		Take(func(in *input) *json.RawMessage { return &in.Config }).Required().
		Doc("hasApiKey says whether a connection has a key; values of headers are masked").
		CreateDoc("Native: modelKey, systemPrompt, temperature, topP, maxTokens, tools, ..., inputGuardrailKey (of a guardrail that blocks what people say or takes parts out " +
			"of it), outputGuardrailKey (of one that blocks what the model says), shieldId; connected: kind external, connection and shieldId").
		ChangeDoc("Replaces the stored one; an omitted connection.apiKey and masked headers stay while the URL names the same host. Ignored when it is native and the agent is connected")
	o.Text("status", record.GetStatus).Write(func(in *input) **string { return &in.Status }).
		Enum(catalog.AgentActive, catalog.AgentInactive, catalog.AgentDraft)
	resource.Value[int64](o, "publishedVersion", func(agent record) *int64 { return nullableVersion(agent.GetPublishedVersion()) })
	resource.Value[int64](o, "latestVersion", record.GetLatestVersion)
	o.Document("metadata", record.GetMetadata).Take(func(in *input) *json.RawMessage { return &in.Metadata }).ChangeDoc("Replaces the stored one")
	o.NullableText("createdBy", record.GetCreatedBy)
	o.NullableText("updatedBy", record.GetUpdatedBy)
	o.Time("createdAt", record.GetCreatedAt)
	o.Time("updatedAt", record.GetUpdatedAt)
	return o
}

// draft reads what the next change starts from. Agents of the configuration have none.
func (a *api) draft(ctx context.Context, key string) (*directorypb.Agent, error) {
	if _, ok := a.configured(ctx, key); ok {
		return nil, handler.AgentNotFound()
	}
	return a.Catalog.Agent(ctx, endpoint.CallerFrom(ctx).ProjectID, key)
}

func shownConfig(of *directorypb.Definition) json.RawMessage {
	sealed, err := definition.ParseSealed(of.GetSealed())
	if err != nil {
		sealed = nil
	}
	return render.Object(definition.Show(of.GetConfig(), sealed))
}
