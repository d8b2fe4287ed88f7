package analytics

import (
	"cmp"
	"context"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/clientapi/render"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

type spendInput struct {
	spanInput

	GroupBy string `query:"group_by" doc:"hour, day (default) or month: of the series; nothing to group_by_entity"`
	Entity  string `query:"group_by_entity" doc:"user, api_key or agent: whose the spend is, in place of models and series"`
	Model   string `query:"model" doc:"Key of the only model that counts"`

	part     machine.UsagePart
	interval machine.UsageInterval
}

// Validate implements endpoint.Validator.
func (in *spendInput) Validate() *failure.Failure {
	if refused := in.read(); refused != nil {
		return refused
	}
	var known bool
	if in.interval, known = map[string]machine.UsageInterval{
		"hour": machine.UsageHourly, "day": machine.UsageDaily, "month": machine.UsageMonthly,
	}[cmp.Or(in.GroupBy, "day")]; !known {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadSpendGroup)
	}
	if in.part, known = map[string]machine.UsagePart{
		"": machine.UsageByModel, "user": machine.UsageByUser, "api_key": machine.UsageByToken, "agent": machine.UsageByAgent,
	}[in.Entity]; !known {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadSpendEntity)
	}
	return nil
}

// spendTotals are what both forms have.
type spendTotals struct {
	Input    int64 `json:"total_input_tokens" doc:"Cached ones included"`
	Output   int64 `json:"total_output_tokens"`
	Total    int64 `json:"total_tokens"`
	Cost     cost  `json:"total_cost" doc:"0 also when nothing was priced"`
	Unpriced int64 `json:"unpriced" doc:"Calls whose cost is not known, or only a lower bound"`
}

type spentModelRow struct {
	modelRow
	Currency string `json:"currency"`
}

// spendReportOut is of one of two kinds: a report by model and time, or a breakdown by whose the spend is.
type spendReportOut struct {
	Object   string  `json:"object" enum:"spend.report,spend.breakdown"`
	GroupBy  string  `json:"group_by,omitempty" enum:"hour,day,month" doc:"Of a report"`
	Entity   string  `json:"group_by_entity,omitempty" enum:"user,api_key,agent" doc:"Of a breakdown"`
	From     *string `json:"from" doc:"Of a report a time, of a breakdown a day"`
	To       *string `json:"to"`
	Model    *string `json:"model" doc:"The only one that counts"`
	Currency string  `json:"currency"`
	Calls    *int64  `json:"total_calls,omitempty" doc:"Of a report"`
	Requests *int64  `json:"total_requests,omitempty" doc:"Of a breakdown"`
	Errors   *int64  `json:"total_errors,omitempty" doc:"Of a breakdown"`
	spendTotals
	ByModel    *[]spentModelRow `json:"by_model,omitempty" doc:"Costliest first"`
	Timeseries *[]periodRow     `json:"timeseries,omitempty"`
	Breakdown  *[]groupRow      `json:"breakdown,omitempty" doc:"Costliest first"`
}

func (a *api) spendReport(ctx context.Context, in *spendInput) (*spendReportOut, error) {
	caller, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	query, unit := &nodepb.UsageQuery{By: uint32(in.part)}, day
	if in.Entity == "" {
		unit, query.Interval = hour, uint32(in.interval)
	}
	if in.Model != "" {
		query.Only, query.Value = uint32(machine.UsageByModel), in.Model
	}
	parts, periods, err := a.added(ctx, caller, in.span, unit, query)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(parts, costliest)
	sum := machine.SumUsage(parts)
	spent := tokensOf(&sum)
	out := &spendReportOut{
		Object: "spend.report", Model: render.Nullable(in.Model), Currency: currency,
		spendTotals: spendTotals{spent.Input, spent.Output, spent.Total, spent.Cost, spent.Unpriced},
	}
	if in.Entity != "" {
		out.Object, out.Entity = "spend.breakdown", in.Entity
		out.From, out.To = textOf(in.span.from, date), textOf(in.span.to, date)
		out.Requests, out.Errors = &sum[machine.UsageRequests], &sum[machine.UsageErrors]
		out.Breakdown, err = a.breakdown(caller, in.part, parts)
		return out, err
	}
	out.GroupBy, out.Calls = cmp.Or(in.GroupBy, "day"), &sum[machine.UsageRequests]
	out.From, out.To = textOf(in.span.from, render.Time), textOf(in.span.to, render.Time)
	models, err := a.byModel(caller.ProjectID, parts)
	if err != nil {
		return nil, err
	}
	rows := make([]spentModelRow, len(*models))
	for i, row := range *models {
		rows[i] = spentModelRow{row, currency}
	}
	out.ByModel, out.Timeseries = &rows, series(periods)
	return out, nil
}

// costliest orders parts, the most expensive first.
func costliest(x, y machine.UsageTotal) int {
	return cmp.Compare(y.Numbers[machine.UsageCostNanoUSD], x.Numbers[machine.UsageCostNanoUSD])
}
