package budgets

import (
	"context"
	"encoding/json"
	"reflect"

	"parley/actors/core/catalog"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/actors/machine/rawjson"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// PolicyRoutes returns the routes of quota policies, for signed-in users, below /api (document 3, section 4).
func PolicyRoutes(shared *handler.API) []endpoint.Route {
	a, o := &api{shared}, policies()
	const (
		read, write = "projects:read", "projects:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		notFound    = failurepb.Code_NOT_FOUND
		conflict    = failurepb.Code_CONFLICT
	)
	tag, room := endpoint.Tag("Quotas"), endpoint.MaxBody(maxBody)
	return []endpoint.Route{
		resource.List(o, "GET /quota/policies", read, a.listPolicies, tag, endpoint.Errors(forbidden),
			endpoint.Summary("List the quota policies that bound the active project")),
		o.Create("POST /quota/policies", write, a.createPolicy, tag, room,
			endpoint.Errors(invalid, forbidden, conflict, failurepb.Code_QUOTA_REACHED, failurepb.Code_UNAVAILABLE),
			endpoint.Summary("Make a quota policy; it holds at once, on every node")),
		o.Change("PATCH /quota/policies/{id}", write, "updatePolicy", a.updatePolicy, tag, room, endpoint.Errors(invalid, forbidden, notFound, conflict),
			endpoint.Summary("Change a quota policy; limits replaces all of them")),
		o.Delete("DELETE /quota/policies/{id}", write, a.deletePolicy, tag, endpoint.Errors(forbidden, notFound, conflict),
			endpoint.Summary("Delete a quota policy")),
		endpoint.On("GET /quota/defaults", read, a.quotaDefaults, tag, endpoint.Errors(forbidden),
			endpoint.Summary("What holds where no policy says anything")),
	}
}

// limitsSchema is quota.Limits for the API documents; quota.Limits.Validate names what it does not know.
type limitsSchema struct {
	RateLimit  map[string]map[string]int64 `json:"rateLimit,omitempty" doc:"requests, tokens, vectors, files, storage by perSecond, perMinute, perHour, perDay, perMonth; -1 = unlimited"`
	PerRequest map[string]int64            `json:"perRequest,omitempty" doc:"maxInputTokens, maxOutputTokens, maxTotalTokens, maxFileSize, maxFilesPerRequest, maxEventsPerSession, maxSessionDurationMs, maxConcurrentRequests and others"`
	Quotas     map[string]int64            `json:"quotas,omitempty" doc:"maxAgents, maxModels, maxApiTokens, maxUsers, maxProjects, maxFilesTotal, maxStorageBytes and maxTracingSessions refuse one more, maxTracingRetentionDays bounds what is reported; others are kept; -1 = unlimited"`
	Budget     *budgetLimits               `json:"budget,omitempty"`

	unknown []string // members that are no limits
}

// UnmarshalJSON notes what it does not know: a limit that is dropped bounds nothing.
func (l *limitsSchema) UnmarshalJSON(raw []byte) error {
	type plain limitsSchema
	if err := json.Unmarshal(raw, (*plain)(l)); err != nil {
		return err
	}
	l.unknown = unknown[limitsSchema](raw)
	return nil
}

type budgetLimits struct {
	Daily   *float64  `json:"dailySpendLimit,omitempty" doc:"US dollars; -1 = unlimited"`
	Monthly *float64  `json:"monthlySpendLimit,omitempty"`
	Alerts  []float64 `json:"alertThresholds,omitempty"`

	unknown []string
}

// UnmarshalJSON notes what it does not know.
func (b *budgetLimits) UnmarshalJSON(raw []byte) error {
	type plain budgetLimits
	if err := json.Unmarshal(raw, (*plain)(b)); err != nil {
		return err
	}
	b.unknown = unknown[budgetLimits](raw)
	return nil
}

// unknown are the names of members that no field is filled from, in their order.
func unknown[T any](raw []byte) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil // unreachable: it was just read
	}
	return rawjson.NamesOf(reflect.TypeFor[T]()).Unknown(members)
}

// check refuses members that are no limits.
func (l *limitsSchema) check() *failure.Failure {
	none := l.unknown
	if l.Budget != nil {
		for _, name := range l.Budget.unknown {
			none = append(none, "budget."+name)
		}
	}
	if len(none) == 0 {
		return nil
	}
	return failure.New(failurepb.Code_INVALID_REQUEST, failure.UnknownLimit).Param("name", failure.Shown(none[0]))
}

func (l *limitsSchema) limits() quota.Limits {
	limits := quota.Limits{RateLimit: l.RateLimit, PerRequest: l.PerRequest, Quotas: l.Quotas}
	if b := l.Budget; b != nil {
		limits.Budget = &quota.Budget{Daily: b.Daily, Monthly: b.Monthly, Alerts: b.Alerts}
	}
	return limits
}

// names are what the fields that budgets and policies share are called.
type names struct{ description, domain, scope, scopeID, projectID, priority, enabled, createdAt, updatedAt string }

// declare declares these fields of records that are policies and more.
func declare[R, I any](o *resource.Object[R, I], of func(R) *directorypb.QuotaPolicy, in func(*I) *catalog.PolicyInput, as names, domain string) {
	type policy = *directorypb.QuotaPolicy
	text := func(get func(policy) string) func(R) string { return func(r R) string { return get(of(r)) } }
	moment := func(get func(policy) int64) func(R) int64 { return func(r R) int64 { return get(of(r)) } }
	into := func(field func(*catalog.PolicyInput) **string) func(*I) **string {
		return func(body *I) **string { return field(in(body)) }
	}

	o.Text(as.scope, text(policy.GetScope)).Enum(quota.Scopes()...).Write(into(func(in *catalog.PolicyInput) **string { return &in.Scope })).
		Optional().CreateDoc("tenant when absent")
	o.NullableText(as.scopeID, text(policy.GetScopeId)).Write(into(func(in *catalog.PolicyInput) **string { return &in.ScopeID })).
		Optional().Clearable().CreateDoc("Id of the user or token, key of the model or provider, which need not exist yet")
	o.Text(as.domain, text(policy.GetDomain)).Enum(quota.Domains()...).Write(into(func(in *catalog.PolicyInput) **string { return &in.Domain })).
		Optional().CreateDoc(domain + " when absent")
	o.NullableText(as.description, text(policy.GetDescription)).Write(into(func(in *catalog.PolicyInput) **string { return &in.Description })).
		Optional().Clearable()
	o.NullableText(as.projectID, text(policy.GetProjectId)).Write(into(func(in *catalog.PolicyInput) **string { return &in.ProjectID })).
		Optional().Clearable().Doc("null: of all projects").CreateDoc("The caller's project when absent; null: all projects").ChangeDoc("null: all projects")
	o.Number(as.priority, moment(policy.GetPriority)).Write(func(body *I) **int64 { return &in(body).Priority }).
		Optional().CreateDoc("100 when absent; of each limit the highest one is in force")
	o.Flag(as.enabled, func(r R) bool { return of(r).GetEnabled() }).Write(func(body *I) **bool { return &in(body).Enabled }).Optional()
	o.Time(as.createdAt, moment(policy.GetCreatedAt))
	o.Time(as.updatedAt, moment(policy.GetUpdatedAt))
}

// policyBody is what a body says of a policy.
type policyBody struct {
	catalog.PolicyInput
	limits *limitsSchema
}

// policies declares the quota policies.
func policies() *resource.Object[*directorypb.QuotaPolicy, policyBody] {
	type (
		record = *directorypb.QuotaPolicy
		input  = policyBody
	)
	o := resource.New[record, input]("policy", "QuotaPolicy").Plural("policies").Failures(handler.RecordError)
	o.Text("_id", record.GetId)
	o.Text("tenantId", record.GetTenantId)
	o.NullableText("label", record.GetLabel).Write(func(in *input) **string { return &in.Label }).Optional().Clearable()
	declare(o, func(p record) record { return p }, func(in *input) *catalog.PolicyInput { return &in.PolicyInput },
		names{"description", "domain", "scope", "scopeId", "projectId", "priority", "enabled", "createdAt", "updatedAt"}, "global")
	resource.Value[limitsSchema](o, "limits", func(p record) json.RawMessage { return render.Object(p.GetLimits()) }).
		Write(func(in *input) **limitsSchema { return &in.limits }).Optional().Required().ChangeDoc("Replaces all of them")
	o.NullableText("createdBy", record.GetCreatedBy)
	o.NullableText("updatedBy", record.GetUpdatedBy)
	return o
}

// policy is the change of a policy that a body asks for.
func (in *policyBody) policy() catalog.PolicyInput {
	if said := in.limits; said != nil {
		in.Edit = func(limits *quota.Limits) *failure.Failure {
			*limits = said.limits()
			return said.check()
		}
	}
	return in.PolicyInput
}

func (a *api) listPolicies(ctx context.Context, _ *nothing) ([]*directorypb.QuotaPolicy, error) {
	caller := endpoint.CallerFrom(ctx)
	return a.Catalog.ListPolicies(caller.TenantID, caller.ProjectID)
}

func (a *api) createPolicy(ctx context.Context, in policyBody) (*directorypb.QuotaPolicy, error) {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	if domain := quota.Global; in.Domain == nil {
		in.Domain = &domain
	}
	if in.limits == nil {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.Required).In("limits")
	}
	return a.Catalog.CreatePolicy(ctx, handler.Maker(ctx), in.policy())
}

func (a *api) updatePolicy(ctx context.Context, id string, in policyBody) (*directorypb.QuotaPolicy, error) {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return nil, err
	}
	return a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), id, in.policy())
}

func (a *api) deletePolicy(ctx context.Context, id string) error {
	if err := manages(ctx, failure.PolicyNotAdmin); err != nil {
		return err
	}
	return a.Catalog.DeletePolicy(ctx, handler.Maker(ctx), id)
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
