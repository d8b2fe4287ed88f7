package budgets

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/actors/core/quota"
	"parley/httpedge/endpoint"
	"parley/proto/allowancepb"
	"parley/proto/failurepb"
)

// ready refuses policies while a node of the cluster does not keep to them.
func (a *api) ready() error {
	if a.CanBudget != nil && !a.CanBudget() {
		return failure.New(failurepb.Code_UNAVAILABLE, failure.QuotasNotReady)
	}
	return nil
}

type statusInput struct {
	Domain string `query:"domain" doc:"llm when absent"`
	Model  string `query:"model" doc:"Key of the model that would be called"`
	Scope  string `query:"scope" enum:"tenant,user,token" doc:"token (default): what is in force for calls with this token; user: for its user's; tenant: for all calls"`
}

// Validate implements endpoint.Validator.
func (in *statusInput) Validate() *failure.Failure {
	in.Domain, in.Scope = cmp.Or(in.Domain, quota.LLM), cmp.Or(in.Scope, quota.Token)
	for _, field := range []struct {
		name, said string
		choices    []string
	}{{"domain", in.Domain, quota.Domains()}, {"scope", in.Scope, []string{quota.Tenant, quota.User, quota.Token}}} {
		if !slices.Contains(field.choices, field.said) {
			return failure.New(failurepb.Code_INVALID_REQUEST, failure.NotOneOf).Param("name", field.name).Param("choices", strings.Join(field.choices, ", "))
		}
	}
	return nil
}

// usd is nano-dollars, on the wire a number of dollars, exactly.
type usd int64

// MarshalJSON implements json.Marshaler.
func (u usd) MarshalJSON() ([]byte, error) { return money.Append(nil, int64(u)), nil }

// Described implements openapi.Described.
func (usd) Described() (value any, nullable bool) { return float64(0), false }

type budgetWindow struct {
	Limit     *usd `json:"limit_usd" doc:"null: unlimited"`
	Used      usd  `json:"used_usd" doc:"Of the budget whose limit is in force, since midnight or the first of the month, UTC"`
	Remaining *usd `json:"remaining_usd" doc:"null: unlimited. What running calls may cost is not taken off"`
}

type budgetStatusOut struct {
	Object     string       `json:"object" enum:"budget.status"`
	Domain     string       `json:"domain"`
	Configured bool         `json:"configured" doc:"A budget says something of such calls"`
	PerDay     budgetWindow `json:"per_day"`
	PerMonth   budgetWindow `json:"per_month"`
	Alerts     []float64    `json:"alert_thresholds"`
}

func (a *api) budgetStatus(ctx context.Context, in *statusInput) (*budgetStatusOut, error) {
	caller := endpoint.CallerFrom(ctx)
	policies, err := a.Catalog.ListPolicies(caller.TenantID, caller.ProjectID)
	if err != nil {
		return nil, err
	}
	call := &quota.Call{TenantID: caller.TenantID, ProjectID: caller.ProjectID, Domain: in.Domain, Model: in.Model}
	if in.Scope != quota.Tenant {
		call.UserID = caller.UserID
	}
	if in.Scope == quota.Token {
		call.TokenID = caller.TokenID()
	}
	if in.Model != "" {
		if model, none := a.Catalog.Model(ctx, caller.ProjectID, in.Model); none == nil {
			call.Provider = model.GetProviderKey()
		}
	}
	force := quota.InForce(quota.Read(policies), call)
	out := &budgetStatusOut{Object: "budget.status", Domain: in.Domain, Alerts: []float64{}}
	if force != nil {
		out.Alerts = append(out.Alerts, force.Alerts...)
	}
	state, err := a.used(ctx, caller.TenantID, force)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	for unit, into := range map[allowancepb.Unit]*budgetWindow{allowancepb.Unit_DAY: &out.PerDay, allowancepb.Unit_MONTH: &out.PerMonth} {
		limit := force.Cap(allowancepb.Measure_COST, unit)
		if limit == nil {
			continue
		}
		out.Configured = true
		used := quota.Used(state, limit, now)
		into.Used = usd(used)
		if most := limit.GetMost(); most >= 0 {
			limit, remaining := usd(most), usd(max(most-used, 0))
			into.Limit, into.Remaining = &limit, &remaining
		}
	}
	return out, nil
}

// used is what the tenant has used; it is not asked for where nothing is in force.
func (a *api) used(ctx context.Context, tenantID string, force *quota.Force) (*allowancepb.State, error) {
	if force == nil {
		return nil, nil //nolint:nilnil // of no state nothing is used
	}
	reply, err := entity.Read[*allowancepb.UsedReply](ctx, a.Entities, &allowancepb.UsedQuery{Id: a.IDs.NewIDFrom(quota.Allowance, tenantID)})
	if refused, is := errors.AsType[*failure.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return nil, nil //nolint:nilnil // nothing was used yet
	}
	return reply.GetState(), err
}
