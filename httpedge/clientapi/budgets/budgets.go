package budgets

import (
	"context"
	"encoding/json"
	"errors"

	"parley/actors/core/catalog"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// budget is a quota policy with spend limits.
type budget struct {
	*directorypb.QuotaPolicy
	limits quota.Budget
}

func budgetOf(p *directorypb.QuotaPolicy, err error) (*budget, error) {
	if err != nil {
		return nil, err
	}
	limits, err := quota.LimitsOf(p)
	if err == nil && limits.Budget == nil {
		err = noBudget()
	}
	if err != nil {
		return nil, err
	}
	return &budget{p, *limits.Budget}, nil
}

// budgetInput is what a body says of a budget.
type budgetInput struct {
	catalog.PolicyInput
	daily, monthly limit
	alerts         *[]float64
}

// limit is a number of dollars that may be absent or null. What is of another type is kept as wrong, so that the rules word it.
type limit struct {
	given, wrong bool
	value        *float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *limit) UnmarshalJSON(raw []byte) error {
	l.given, l.value = true, nil
	l.wrong = json.Unmarshal(raw, &l.value) != nil
	return nil
}

// Described implements openapi.Described.
func (limit) Described() (value any, nullable bool) { return float64(0), true }

// Names of the limits, in bodies and in refusals.
const (
	dailyField   = "daily_limit_usd"
	monthlyField = "monthly_limit_usd"
	alertsField  = "alert_thresholds"
)

// budgets declares the budgets.
func budgets() *resource.Object[*budget, budgetInput] {
	type (
		record = *budget
		input  = budgetInput
	)
	o := resource.New[record, input]("budget", "Budget").Bare().Failures(budgetError)
	o.Text("id", func(b record) string { return b.GetId() })
	o.Text("object", func(record) string { return "budget" }).Enum("budget")
	o.Text("label", func(b record) string { return b.GetLabel() }).Write(func(in *input) **string { return &in.Label }).Optional().
		CreateDoc("Budget when absent")
	declare(o, func(b record) *directorypb.QuotaPolicy { return b.QuotaPolicy }, func(in *input) *catalog.PolicyInput { return &in.PolicyInput },
		names{"description", "domain", "scope", "scope_id", "project_id", "priority", "enabled", "created_at", "updated_at"}, "llm")
	amount := func(name string, get func(record) *float64, in func(*input) *limit) {
		resource.Value[limit](o, name, get).Take(in).Doc("-1 = unlimited, null = not said").CreateDoc("-1 = unlimited").
			ChangeDoc("-1 = unlimited, null removes it")
	}
	amount(dailyField, func(b record) *float64 { return b.limits.Daily }, func(in *input) *limit { return &in.daily })
	amount(monthlyField, func(b record) *float64 { return b.limits.Monthly }, func(in *input) *limit { return &in.monthly })
	resource.Value[[]float64](o, alertsField, func(b record) []float64 { return append([]float64{}, b.limits.Alerts...) }).
		Write(func(in *input) **[]float64 { return &in.alerts }).Optional()
	return o
}

// policy is the change of a policy that a body asks for.
func (in *budgetInput) policy() catalog.PolicyInput {
	in.Edit = func(limits *quota.Limits) *failure.Failure {
		if limits.Budget == nil {
			limits.Budget = &quota.Budget{}
		}
		for _, amount := range []struct {
			said limit
			into **float64
			name string
		}{{in.daily, &limits.Budget.Daily, dailyField}, {in.monthly, &limits.Budget.Monthly, monthlyField}} {
			if amount.said.wrong {
				return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadLimit).Param("name", amount.name)
			}
			if amount.said.given {
				*amount.into = amount.said.value
			}
		}
		if in.alerts != nil {
			limits.Budget.Alerts = *in.alerts
		}
		if limits.Budget.Daily == nil && limits.Budget.Monthly == nil {
			return failure.New(failurepb.Code_INVALID_REQUEST, failure.BudgetLimitless)
		}
		return limits.Budget.Validate(dailyField, monthlyField, alertsField)
	}
	return in.PolicyInput
}

type nothing struct{}

func (a *api) listBudgets(ctx context.Context, _ *nothing) ([]*budget, error) {
	policies, err := a.listPolicies(ctx, nil)
	var all []*budget
	for _, p := range policies {
		if b, none := budgetOf(p, nil); none == nil { // otherwise it bounds something else
			all = append(all, b)
		}
	}
	return all, err
}

func (a *api) createBudget(ctx context.Context, in budgetInput) (*budget, error) {
	if err := manages(ctx, failure.BudgetNotAdmin); err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	if label := "Budget"; in.Label == nil || *in.Label == "" {
		in.Label = &label
	}
	return budgetOf(a.Catalog.CreatePolicy(ctx, handler.Maker(ctx), in.policy()))
}

// owned finds a budget that the caller may change.
func (a *api) owned(ctx context.Context, id string) (*budget, error) {
	if err := manages(ctx, failure.BudgetNotAdmin); err != nil {
		return nil, err
	}
	return budgetOf(a.Catalog.Policy(ctx, handler.Maker(ctx), id))
}

func noBudget() error { return failure.New(failurepb.Code_NOT_FOUND, failure.BudgetNotFound) }

// budgetError words the absence of a policy as that of a budget.
func budgetError(err error) error {
	if refused, is := errors.AsType[*failure.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
		return noBudget()
	}
	return err
}

func (a *api) updateBudget(ctx context.Context, id string, in budgetInput) (*budget, error) {
	if _, err := a.owned(ctx, id); err != nil {
		return nil, err
	}
	return budgetOf(a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), id, in.policy()))
}

// deleteBudget deletes the policy, or of one that has other limits, too, its spend limits.
func (a *api) deleteBudget(ctx context.Context, id string) error {
	b, err := a.owned(ctx, id)
	if err != nil {
		return err
	}
	limits, err := quota.LimitsOf(b.QuotaPolicy)
	if err != nil {
		return err
	}
	if limits.Budget = nil; limits.Empty() {
		return a.Catalog.DeletePolicy(ctx, handler.Maker(ctx), id)
	}
	_, err = a.Catalog.UpdatePolicy(ctx, handler.Maker(ctx), id, catalog.PolicyInput{Edit: func(limits *quota.Limits) *failure.Failure {
		limits.Budget = nil
		return nil
	}})
	return err
}
