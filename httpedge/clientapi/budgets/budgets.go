package budgets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"parley/actors/core/catalog"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// budgetSchema is a quota policy with spend limits, as this surface shows it.
type budgetSchema struct {
	ID          string    `json:"id"`
	Object      string    `json:"object" enum:"budget"`
	Label       string    `json:"label"`
	Description *string   `json:"description"`
	Domain      string    `json:"domain"`
	Scope       string    `json:"scope" enum:"tenant,user,token,resource,provider"`
	ScopeID     *string   `json:"scope_id"`
	ProjectID   *string   `json:"project_id" doc:"null: the calls of all projects"`
	Daily       *float64  `json:"daily_limit_usd" doc:"-1 = unlimited, null = not said"`
	Monthly     *float64  `json:"monthly_limit_usd" doc:"-1 = unlimited, null = not said"`
	Alerts      []float64 `json:"alert_thresholds"`
	Enabled     bool      `json:"enabled"`
	Priority    int64     `json:"priority"`
	CreatedAt   string    `json:"created_at" format:"date-time"`
	UpdatedAt   string    `json:"updated_at" format:"date-time"`
}

func budgetJSON(p *directorypb.QuotaPolicy) (*budgetSchema, error) {
	limits, err := quota.LimitsOf(p)
	if err != nil {
		return nil, err
	}
	out := &budgetSchema{
		ID: p.GetId(), Object: "budget", Label: p.GetLabel(), Description: render.Nullable(p.GetDescription()), Domain: p.GetDomain(), Scope: p.GetScope(),
		ScopeID: render.Nullable(p.GetScopeId()), ProjectID: render.Nullable(p.GetProjectId()), Alerts: []float64{}, Enabled: p.GetEnabled(),
		Priority: p.GetPriority(), CreatedAt: render.Time(p.GetCreatedAt()), UpdatedAt: render.Time(p.GetUpdatedAt()),
	}
	if b := limits.Budget; b != nil {
		out.Daily, out.Monthly, out.Alerts = b.Daily, b.Monthly, append(out.Alerts, b.Alerts...)
	}
	return out, nil
}

// optional is a field that may be absent, null, or a value.
type optional[T any] struct {
	given bool
	value *T
	wrong bool
}

// UnmarshalJSON implements json.Unmarshaler. What is of another type is kept as wrong, so that the field is named.
func (o *optional[T]) UnmarshalJSON(raw []byte) error {
	o.given, o.value = true, nil
	o.wrong = json.Unmarshal(raw, &o.value) != nil
	return nil
}

// Described implements openapi.Described.
func (o optional[T]) Described() (value any, nullable bool) {
	var like T
	return like, true
}

// pointer is the value to set, nil where the field is absent; null is the empty one.
func (o *optional[T]) pointer() *T {
	if o.given && o.value == nil {
		return new(T)
	}
	return o.value
}

// createBudgetInput is what a body may say of a budget.
type createBudgetInput struct {
	Label       *string           `json:"label" doc:"Budget when absent"`
	Description *string           `json:"description"`
	Domain      *string           `json:"domain" doc:"llm when absent"`
	Scope       *string           `json:"scope" enum:"tenant,user,token,resource,provider" doc:"tenant when absent"`
	ScopeID     *string           `json:"scope_id" doc:"Id of the user or token, key of the model or provider"`
	ProjectID   optional[string]  `json:"project_id" doc:"The token's project when absent; null: the calls of all projects"`
	Daily       optional[float64] `json:"daily_limit_usd" doc:"-1 = unlimited"`
	Monthly     optional[float64] `json:"monthly_limit_usd" doc:"-1 = unlimited"`
	Alerts      *[]float64        `json:"alert_thresholds"`
	Enabled     *bool             `json:"enabled"`
	Priority    *int64            `json:"priority" doc:"100 when absent; of each limit the highest one is in force"`
}

// input is the change of a policy that the body asks for.
func (f *createBudgetInput) input() catalog.PolicyInput {
	in := catalog.PolicyInput{
		Scope: f.Scope, ScopeID: f.ScopeID, Domain: f.Domain, Label: f.Label, Description: f.Description, ProjectID: f.ProjectID.pointer(),
		Priority: f.Priority, Enabled: f.Enabled,
	}
	in.Edit = func(limits *quota.Limits) *failure.Failure {
		if limits.Budget == nil {
			limits.Budget = &quota.Budget{}
		}
		for _, limit := range []struct {
			said *optional[float64]
			into **float64
			name string
		}{{&f.Daily, &limits.Budget.Daily, dailyField}, {&f.Monthly, &limits.Budget.Monthly, monthlyField}} {
			if limit.said.wrong {
				return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadLimit).Param("name", limit.name)
			}
			if limit.said.given {
				*limit.into = limit.said.value
			}
		}
		if f.Alerts != nil {
			limits.Budget.Alerts = *f.Alerts
		}
		if limits.Budget.Daily == nil && limits.Budget.Monthly == nil {
			return failure.New(failurepb.Code_INVALID_REQUEST, failure.BudgetLimitless)
		}
		return limits.Budget.Validate(dailyField, monthlyField, "alert_thresholds")
	}
	return in
}

// Names of the limits, in bodies and in refusals.
const (
	dailyField   = "daily_limit_usd"
	monthlyField = "monthly_limit_usd"
)

// updateBudgetInput is the same for one that is there. An embedded struct would be named in refusals.
type updateBudgetInput struct {
	ID          string            `path:"id"`
	Label       *string           `json:"label"`
	Description *string           `json:"description"`
	Domain      *string           `json:"domain"`
	Scope       *string           `json:"scope" enum:"tenant,user,token,resource,provider"`
	ScopeID     *string           `json:"scope_id"`
	ProjectID   optional[string]  `json:"project_id" doc:"null: the calls of all projects"`
	Daily       optional[float64] `json:"daily_limit_usd" doc:"-1 = unlimited, null removes it"`
	Monthly     optional[float64] `json:"monthly_limit_usd" doc:"-1 = unlimited, null removes it"`
	Alerts      *[]float64        `json:"alert_thresholds"`
	Enabled     *bool             `json:"enabled"`
	Priority    *int64            `json:"priority"`
}

func (in *updateBudgetInput) input() catalog.PolicyInput {
	said := &createBudgetInput{
		in.Label, in.Description, in.Domain, in.Scope, in.ScopeID, in.ProjectID, in.Daily, in.Monthly, in.Alerts, in.Enabled, in.Priority,
	}
	return said.input()
}

type budgetInput struct {
	ID string `path:"id"`
}

type nothing struct{}

type budgetListOut struct {
	Object string          `json:"object" enum:"list"`
	Data   []*budgetSchema `json:"data"`
}

func (a *api) listBudgets(ctx context.Context, _ *nothing) (*budgetListOut, error) {
	caller := endpoint.CallerFrom(ctx)
	policies, err := a.Catalog.ListPolicies(caller.TenantID, caller.ProjectID)
	if err != nil {
		return nil, err
	}
	out := &budgetListOut{Object: "list", Data: []*budgetSchema{}}
	for _, p := range policies {
		if limits, err := quota.LimitsOf(p); err != nil || limits.Budget == nil {
			continue // it bounds something else
		}
		shown, err := budgetJSON(p)
		if err != nil {
			return nil, err
		}
		out.Data = append(out.Data, shown)
	}
	return out, nil
}

func (a *api) createBudget(ctx context.Context, in *createBudgetInput) (*budgetSchema, error) {
	if err := manages(ctx, failure.BudgetNotAdmin); err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	made := in.input()
	label := cmp.Or(deref(made.Label), "Budget")
	made.Label = &label
	policy, err := a.Catalog.CreatePolicy(ctx, handler.Maker(ctx), made)
	if err != nil {
		return nil, err
	}
	return budgetJSON(policy)
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// budget finds a budget.
func (a *api) budget(ctx context.Context, id string) (*quota.Limits, error) {
	policy, err := a.Catalog.Policy(ctx, handler.Maker(ctx), id)
	if err != nil {
		return nil, budgetError(err)
	}
	limits, err := quota.LimitsOf(policy)
	if err == nil && limits.Budget == nil {
		err = noBudget()
	}
	return limits, err
}

func noBudget() error { return failure.New(failurepb.Code_NOT_FOUND, failure.BudgetNotFound) }

// budgetError words the absence of a policy as that of a budget.
func budgetError(err error) error {
	if refused, is := errors.AsType[*failure.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return noBudget()
	}
	return err
}

func (a *api) updateBudget(ctx context.Context, in *updateBudgetInput) (*budgetSchema, error) {
	if err := manages(ctx, failure.BudgetNotAdmin); err != nil {
		return nil, err
	}
	if _, err := a.budget(ctx, in.ID); err != nil {
		return nil, err
	}
	policy, err := a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), in.ID, in.input())
	if err != nil {
		return nil, budgetError(err)
	}
	return budgetJSON(policy)
}

type budgetDeletedOut struct {
	Deleted bool   `json:"deleted"`
	ID      string `json:"id"`
}

// deleteBudget deletes the policy, or of one that has other limits, too, its spend limits.
func (a *api) deleteBudget(ctx context.Context, in *budgetInput) (*budgetDeletedOut, error) {
	if err := manages(ctx, failure.BudgetNotAdmin); err != nil {
		return nil, err
	}
	limits, err := a.budget(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if limits.Budget = nil; limits.Empty() {
		err = a.Catalog.DeletePolicy(ctx, handler.Maker(ctx), in.ID)
	} else {
		_, err = a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), in.ID, catalog.PolicyInput{Edit: func(limits *quota.Limits) *failure.Failure {
			limits.Budget = nil
			return nil
		}})
	}
	if err != nil {
		return nil, budgetError(err)
	}
	return &budgetDeletedOut{Deleted: true, ID: in.ID}, nil
}
