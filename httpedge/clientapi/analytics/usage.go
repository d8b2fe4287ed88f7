package analytics

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/actors/machine"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

// currency is what all prices are in.
const currency = "USD"

type usageInput struct {
	spanInput

	GroupBy  string `query:"group_by" doc:"model (default), user, token, service or agent"`
	Interval string `query:"interval" doc:"hour, day (default) or month: of the series of group_by=model"`
	Model    string `query:"model" doc:"Key of the only model that counts; nothing to group_by=service"`

	part     machine.UsagePart
	interval machine.UsageInterval
}

// Validate implements endpoint.Validator.
func (in *usageInput) Validate() *failure.Failure {
	if refused := in.read(); refused != nil {
		return refused
	}
	var known bool
	if in.interval, known = map[string]machine.UsageInterval{
		"hour": machine.UsageHourly, "day": machine.UsageDaily, "month": machine.UsageMonthly,
	}[cmp.Or(in.Interval, "day")]; !known {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadInterval)
	}
	if in.part, known = map[string]machine.UsagePart{
		"model": machine.UsageByModel, "user": machine.UsageByUser, "token": machine.UsageByToken, "service": machine.UsageByService,
		"agent": machine.UsageByAgent,
	}[cmp.Or(in.GroupBy, "model")]; !known {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadGroupBy)
	}
	return nil
}

// cost is nano-dollars, on the wire a number of dollars, exactly.
type cost int64

// MarshalJSON implements json.Marshaler.
func (c cost) MarshalJSON() ([]byte, error) { return money.Append(nil, int64(c)), nil }

// Described implements openapi.Described.
func (cost) Described() (value any, nullable bool) { return float64(0), false }

// tokens is what rows and totals of all groups have in common.
type tokens struct {
	Input  int64 `json:"input_tokens" doc:"Cached ones included"`
	Output int64 `json:"output_tokens"`
	Total  int64 `json:"total_tokens"`
	Cost   cost  `json:"cost" doc:"0 also when nothing was priced"`
	// Unpriced tells a cost of 0 from one that is not known.
	Unpriced int64 `json:"unpriced" doc:"Calls whose cost is not known, or only a lower bound"`

	AudioSeconds float64 `json:"audio_seconds,omitempty" doc:"That were heard or spoken"`
	Characters   int64   `json:"characters,omitempty" doc:"That were spoken"`
	CacheHits    int64   `json:"cache_hits,omitempty" doc:"Calls that the gateway answered with an answer that was kept: they took no tokens"`
}

func tokensOf(n *machine.UsageNumbers) tokens {
	return tokens{
		Input: n[machine.UsageInputTokens], Output: n[machine.UsageOutputTokens], Total: totalTokens(n),
		Cost: cost(n[machine.UsageCostNanoUSD]), Unpriced: n[machine.UsageUnpriced],
		AudioSeconds: float64(n[machine.UsageAudioMillis]) / 1000, Characters: n[machine.UsageCharacters],
		CacheHits: n[machine.UsageCacheHits],
	}
}

func totalTokens(n *machine.UsageNumbers) int64 {
	return money.Add(n[machine.UsageInputTokens], n[machine.UsageOutputTokens])
}

type callTotals struct {
	Calls int64 `json:"calls"`
	tokens
}

type modelRow struct {
	ModelKey    string  `json:"model_key" doc:"Empty: turns that failed before they called a model"`
	ModelName   *string `json:"model_name"`
	Category    *string `json:"category" doc:"null of a model that is no more"`
	ProviderKey *string `json:"provider_key"`
	callTotals
	RoutedCalls int64 `json:"routed_calls,omitempty" doc:"Of a dynamic model: calls of the models that it chose, and of its decider, which count there"`
	RoutedCost  cost  `json:"routed_cost,omitempty" doc:"What they cost"`
}

type periodRow struct {
	Period      string `json:"period" doc:"Where it begins, UTC"`
	Calls       int64  `json:"calls"`
	TotalTokens int64  `json:"total_tokens"`
	Cost        cost   `json:"cost"`
}

type requestTotals struct {
	Requests int64 `json:"requests"`
	Errors   int64 `json:"errors"`
	tokens
}

func requestsOf(n *machine.UsageNumbers) requestTotals {
	return requestTotals{n[machine.UsageRequests], n[machine.UsageErrors], tokensOf(n)}
}

// groupRow is a row of any group but models. It has the id of its group, and no other.
type groupRow struct {
	UserID   *string `json:"user_id,omitempty" doc:"Empty: nobody's"`
	TokenID  *string `json:"api_token_id,omitempty" doc:"Empty: used without a token"`
	Service  *string `json:"service,omitempty"`
	AgentKey *string `json:"agent_key,omitempty" doc:"Empty: used without an agent"`
	Name     *string `json:"name,omitempty" doc:"Of a user or agent that is known"`
	Label    *string `json:"label,omitempty" doc:"Email of a user, label of a token"`
	requestTotals
}

// analyticsUsageOut is of one of two kinds: of models, or of another group.
type analyticsUsageOut struct {
	Object     string       `json:"object" enum:"analytics.usage"`
	GroupBy    string       `json:"group_by" enum:"model,user,token,service,agent"`
	Interval   string       `json:"interval,omitempty" enum:"hour,day,month" doc:"Of models"`
	From       *string      `json:"from" doc:"Of models a time, else a day"`
	To         *string      `json:"to"`
	Currency   string       `json:"currency"`
	Totals     any          `json:"totals"`
	ByModel    *[]modelRow  `json:"by_model,omitempty" doc:"Costliest first"`
	Timeseries *[]periodRow `json:"timeseries,omitempty"`
	Breakdown  *[]groupRow  `json:"breakdown,omitempty" doc:"Costliest first"`
}

func (a *api) analyticsUsage(ctx context.Context, in *usageInput) (*analyticsUsageOut, error) {
	caller, err := a.project(ctx)
	if err != nil {
		return nil, err
	}
	query := &nodepb.UsageQuery{By: uint32(in.part)}
	unit := day
	if in.part == machine.UsageByModel {
		unit, query.Interval = hour, uint32(in.interval)
	}
	if in.Model != "" && in.part != machine.UsageByService {
		query.Only, query.Value = uint32(machine.UsageByModel), in.Model
	}
	parts, periods, err := a.added(ctx, caller, in.span, unit, query)
	if err != nil {
		return nil, err
	}
	out := &analyticsUsageOut{Object: "analytics.usage", GroupBy: cmp.Or(in.GroupBy, "model"), Currency: currency}
	slices.SortStableFunc(parts, costliest)
	sum := machine.SumUsage(parts)
	if in.part == machine.UsageByModel {
		out.Interval, out.From, out.To = cmp.Or(in.Interval, "day"), textOf(in.span.from, render.Time), textOf(in.span.to, render.Time)
		out.Totals = callTotals{sum[machine.UsageRequests], tokensOf(&sum)}
		if out.ByModel, err = a.byModel(caller.ProjectID, parts); err != nil {
			return nil, err
		}
		out.Timeseries = series(periods)
		return out, nil
	}
	out.From, out.To = textOf(in.span.from, date), textOf(in.span.to, date)
	out.Totals = requestsOf(&sum)
	out.Breakdown, err = a.breakdown(caller, in.part, parts)
	return out, err
}

// added adds up a span in whole units.
func (a *api) added(
	ctx context.Context, caller endpoint.Caller, of span, unit int64, query *nodepb.UsageQuery,
) (parts, periods []machine.UsageTotal, err error) {
	start, end, empty := of.within(unit)
	if empty {
		return nil, nil, nil
	}
	query.TenantId, query.ProjectId, query.From, query.To = caller.TenantID, caller.ProjectID, start, end
	reply, err := entity.Read[*nodepb.UsageReply](ctx, a.Entities, query)
	if err != nil {
		return nil, nil, err
	}
	return totals(reply.GetRows()), totals(reply.GetPeriods()), nil
}

func totals(rows []*nodepb.UsageRow) []machine.UsageTotal {
	all := make([]machine.UsageTotal, len(rows))
	for i, row := range rows {
		all[i].Part, all[i].Start = row.GetPart(), row.GetStart()
		copy(all[i].Numbers[:], row.GetValues())
	}
	return all
}

func (a *api) byModel(project string, parts []machine.UsageTotal) (*[]modelRow, error) {
	models, err := a.Catalog.ListModels(project)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*directorypb.Model, len(models))
	for _, model := range models {
		known[machine.ListPart(model.GetKey())] = model
	}
	rows := make([]modelRow, 0, len(parts))
	for i := range parts {
		n := &parts[i].Numbers
		if n[machine.UsageRequests]+n[machine.UsageRouted] == 0 {
			continue
		}
		model := known[parts[i].Part]
		key := cmp.Or(model.GetKey(), machine.PartText(parts[i].Part))
		rows = append(rows, modelRow{
			ModelKey: key, ModelName: render.Nullable(cmp.Or(model.GetName(), key)), Category: render.Nullable(model.GetCategory()),
			ProviderKey: render.Nullable(model.GetProviderKey()), callTotals: callTotals{n[machine.UsageRequests], tokensOf(n)},
			RoutedCalls: n[machine.UsageRouted], RoutedCost: cost(n[machine.UsageRoutedCostNanoUSD]),
		})
	}
	return &rows, nil
}

func series(periods []machine.UsageTotal) *[]periodRow {
	rows := make([]periodRow, len(periods))
	for i := range periods {
		n := &periods[i].Numbers
		rows[i] = periodRow{
			time.UnixMilli(periods[i].Start).UTC().Format("2006-01-02T15:04:05Z"), n[machine.UsageRequests], totalTokens(n),
			cost(n[machine.UsageCostNanoUSD]),
		}
	}
	return &rows
}

func (a *api) breakdown(caller endpoint.Caller, part machine.UsagePart, parts []machine.UsageTotal) (*[]groupRow, error) {
	rows := make([]groupRow, len(parts))
	for i := range parts {
		id, row := machine.PartText(parts[i].Part), &rows[i]
		row.requestTotals = requestsOf(&parts[i].Numbers)
		switch part {
		case machine.UsageByUser:
			user := a.Accounts.KnownUser(caller.TenantID, id)
			row.UserID, row.Name, row.Label = &id, render.Nullable(user.GetName()), render.Nullable(user.GetEmail())
		case machine.UsageByToken:
			token, err := a.Accounts.KnownToken(caller.TenantID, id)
			if err != nil {
				return nil, err
			}
			row.TokenID, row.Label = &id, render.Nullable(token.GetLabel())
		case machine.UsageByAgent:
			agent, _ := a.Agents.Agent(caller.ProjectID, id)
			row.AgentKey, row.Name = &id, render.Nullable(agent.GetName())
		default:
			row.Service = &id
		}
	}
	return &rows, nil
}

func textOf(at *int64, format func(unixMS int64) string) *string {
	if at == nil {
		return nil
	}
	text := format(*at)
	return &text
}

func date(unixMS int64) string {
	text, _, _ := strings.Cut(render.Time(unixMS), "T")
	return text
}
