package budgets

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// PolicyRoutes returns the routes of quota policies, for signed-in users, below /api (document 3, section 4).
func PolicyRoutes(shared *handler.API) []endpoint.Route {
	a := &api{shared}
	const (
		read, write = "projects:read", "projects:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		notFound    = failurepb.Code_NOT_FOUND
		conflict    = failurepb.Code_CONFLICT
	)
	tag, room := endpoint.Tag("Quotas"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		endpoint.On("GET /quota/policies", read, a.listPolicies, tag, endpoint.Errors(forbidden),
			endpoint.Summary("List the quota policies that bound the active project")),
		endpoint.On("POST /quota/policies", write, a.createPolicy, tag, room, endpoint.Once(), endpoint.Status(201),
			endpoint.Errors(invalid, forbidden, conflict, failurepb.Code_QUOTA_REACHED, failurepb.Code_UNAVAILABLE),
			endpoint.Summary("Make a quota policy; it holds at once, on every node")),
		endpoint.On("PATCH /quota/policies/{id}", write, a.updatePolicy, tag, room, endpoint.Errors(invalid, forbidden, notFound, conflict),
			endpoint.Summary("Change a quota policy; limits replaces all of them")),
		endpoint.On("DELETE /quota/policies/{id}", write, a.deletePolicy, tag, endpoint.Errors(forbidden, notFound, conflict),
			endpoint.Summary("Delete a quota policy")),
		endpoint.On("GET /quota/defaults", read, a.quotaDefaults, tag, endpoint.Errors(forbidden),
			endpoint.Summary("What holds where no policy says anything")),
	}
}

// limitsSchema is quota.Limits for the API documents; quota.Limits.Validate names what it does not know.
type limitsSchema struct {
	RateLimit  map[string]map[string]int64 `json:"rateLimit,omitempty" doc:"requests, tokens, vectors, files, storage by perSecond, perMinute, perHour, perDay, perMonth; -1 = unlimited"`
	PerRequest map[string]int64            `json:"perRequest,omitempty" doc:"maxInputTokens, maxOutputTokens, maxTotalTokens and others"`
	Quotas     map[string]int64            `json:"quotas,omitempty" doc:"maxModels, maxAgents and others"`
	Budget     *budgetLimits               `json:"budget,omitempty"`
}

type budgetLimits struct {
	Daily   *float64  `json:"dailySpendLimit,omitempty" doc:"US dollars; -1 = unlimited"`
	Monthly *float64  `json:"monthlySpendLimit,omitempty"`
	Alerts  []float64 `json:"alertThresholds,omitempty"`
}

func (l *limitsSchema) limits() quota.Limits {
	limits := quota.Limits{RateLimit: l.RateLimit, PerRequest: l.PerRequest, Quotas: l.Quotas}
	if b := l.Budget; b != nil {
		limits.Budget = &quota.Budget{Daily: b.Daily, Monthly: b.Monthly, Alerts: b.Alerts}
	}
	return limits
}

type policySchema struct {
	ID          string          `json:"_id"`
	TenantID    string          `json:"tenantId"`
	ProjectID   *string         `json:"projectId" doc:"null: of all projects"`
	Scope       string          `json:"scope" enum:"tenant,user,token,resource,provider"`
	ScopeID     *string         `json:"scopeId"`
	Domain      string          `json:"domain" enum:"global,llm,embedding,vector,file,tracing,stt,tts,ocr"`
	Label       *string         `json:"label"`
	Description *string         `json:"description"`
	Priority    int64           `json:"priority"`
	Enabled     bool            `json:"enabled"`
	Limits      json.RawMessage `json:"limits"`
	CreatedBy   *string         `json:"createdBy"`
	UpdatedBy   *string         `json:"updatedBy"`
	CreatedAt   string          `json:"createdAt" format:"date-time"`
	UpdatedAt   string          `json:"updatedAt" format:"date-time"`
}

func policyJSON(p *directorypb.QuotaPolicy) *policySchema {
	return &policySchema{
		ID: p.GetId(), TenantID: p.GetTenantId(), ProjectID: render.Nullable(p.GetProjectId()), Scope: p.GetScope(), ScopeID: render.Nullable(p.GetScopeId()),
		Domain: p.GetDomain(), Label: render.Nullable(p.GetLabel()), Description: render.Nullable(p.GetDescription()), Priority: p.GetPriority(),
		Enabled: p.GetEnabled(), Limits: render.Object(p.GetLimits()), CreatedBy: render.Nullable(p.GetCreatedBy()), UpdatedBy: render.Nullable(p.GetUpdatedBy()),
		CreatedAt: render.Time(p.GetCreatedAt()), UpdatedAt: render.Time(p.GetUpdatedAt()),
	}
}

type policyListOut struct {
	Policies []*policySchema `json:"policies"`
}

type policyOut struct {
	Policy *policySchema `json:"policy"`
}

func (a *api) listPolicies(ctx context.Context, _ *nothing) (*policyListOut, error) {
	caller := endpoint.CallerFrom(ctx)
	policies, err := a.Catalog.ListPolicies(caller.TenantID, caller.ProjectID)
	if err != nil {
		return nil, err
	}
	out := &policyListOut{Policies: []*policySchema{}}
	for _, p := range policies {
		out.Policies = append(out.Policies, policyJSON(p))
	}
	return out, nil
}

type createPolicyInput struct {
	Scope       *string          `json:"scope" doc:"tenant when absent"`
	ScopeID     *string          `json:"scopeId"`
	Domain      *string          `json:"domain" doc:"global when absent"`
	Label       *string          `json:"label"`
	Description *string          `json:"description"`
	ProjectID   optional[string] `json:"projectId" doc:"The active project when absent; null: all projects"`
	Priority    *int64           `json:"priority" doc:"100 when absent; of each limit the highest one is in force"`
	Enabled     *bool            `json:"enabled"`
	Limits      *limitsSchema    `json:"limits" required:"true"`
}

func (in *createPolicyInput) input() catalog.PolicyInput {
	made := catalog.PolicyInput{
		Scope: in.Scope, ScopeID: in.ScopeID, Domain: in.Domain, Label: in.Label, Description: in.Description, ProjectID: in.ProjectID.pointer(),
		Priority: in.Priority, Enabled: in.Enabled,
	}
	if said := in.Limits; said != nil {
		made.Edit = func(limits *quota.Limits) *failure.Failure {
			*limits = said.limits()
			return nil
		}
	}
	return made
}

func (a *api) createPolicy(ctx context.Context, in *createPolicyInput) (*policyOut, error) {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	made := in.input()
	if made.Domain == nil {
		domain := quota.Global
		made.Domain = &domain
	}
	if in.Limits == nil {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.Required).In("limits")
	}
	policy, err := a.Catalog.CreatePolicy(ctx, handler.Maker(ctx), made)
	if err != nil {
		return nil, err
	}
	return &policyOut{policyJSON(policy)}, nil
}

type updatePolicyInput struct {
	ID          string           `path:"id"`
	Scope       *string          `json:"scope"`
	ScopeID     *string          `json:"scopeId"`
	Domain      *string          `json:"domain"`
	Label       *string          `json:"label"`
	Description *string          `json:"description"`
	ProjectID   optional[string] `json:"projectId"`
	Priority    *int64           `json:"priority"`
	Enabled     *bool            `json:"enabled"`
	Limits      *limitsSchema    `json:"limits"`
}

func (a *api) updatePolicy(ctx context.Context, in *updatePolicyInput) (*policyOut, error) {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return nil, err
	}
	said := &createPolicyInput{in.Scope, in.ScopeID, in.Domain, in.Label, in.Description, in.ProjectID, in.Priority, in.Enabled, in.Limits}
	policy, err := a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), in.ID, said.input())
	if err != nil {
		return nil, err
	}
	return &policyOut{policyJSON(policy)}, nil
}

type policyInput struct {
	ID string `path:"id"`
}

func (a *api) deletePolicy(ctx context.Context, in *policyInput) (*handler.Success, error) {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return nil, err
	}
	return handler.Deleted(a.Catalog.DeletePolicy(ctx, handler.Maker(ctx), in.ID))
}

type defaultsOut struct {
	Defaults struct {
		Limits limitsSchema `json:"limits"`
	} `json:"defaults"`
}

// quotaDefaults are what the licence allows; nothing else is bounded by default.
func (a *api) quotaDefaults(ctx context.Context, _ *nothing) (*defaultsOut, error) {
	out := &defaultsOut{}
	unlimited := float64(quota.Unlimited)
	limits := endpoint.CallerFrom(ctx).Grant.Licence().Limits()
	out.Defaults.Limits = limitsSchema{
		RateLimit: map[string]map[string]int64{"requests": {"perMonth": limits.RequestsPerMonth}},
		Quotas: map[string]int64{
			"maxModels": int64(limits.MaxModels), "maxApiTokens": int64(limits.MaxAPITokens), "maxUsers": int64(limits.MaxUsers), "maxProjects": int64(limits.MaxProjects),
		},
		Budget: &budgetLimits{Daily: &unlimited, Monthly: &unlimited},
	}
	return out, nil
}
