package quota

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/core/money"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Scopes of a policy: whose calls it bounds.
const (
	Tenant   = "tenant"
	User     = "user"
	Token    = "token"
	Resource = "resource" // the key of a model
	Provider = "provider" // the key of a provider
)

// Domains of a policy: which calls it bounds.
const (
	Global    = "global"
	LLM       = "llm"
	Embedding = "embedding"
	Speech    = "tts"
	Listening = "stt"
	Tracing   = "tracing"
	File      = "file"
)

// Scopes returns all scopes.
func Scopes() []string { return []string{Tenant, User, Token, Resource, Provider} }

// Domains returns all domains. Calls are made in those that have a name here; the others are kept for what they will bound.
func Domains() []string {
	return []string{Global, LLM, Embedding, "vector", File, Tracing, Listening, Speech, "ocr"}
}

// Unlimited says that there is no limit.
const Unlimited = -1

// Names of limits within a request.
const (
	MaxInputTokens  = "maxInputTokens"
	MaxOutputTokens = "maxOutputTokens"
	MaxTotalTokens  = "maxTotalTokens"
	MaxFileSize     = "maxFileSize" // in bytes
	MaxFiles        = "maxFilesPerRequest"
	MaxEvents       = "maxEventsPerSession" // of a reported session
	MaxDuration     = "maxSessionDurationMs"
	MaxConcurrent   = "maxConcurrentRequests" // that are on their way at once
)

// Limits are what a policy bounds, as clients write it.
type Limits struct {
	// RateLimit is by what is counted (requests, tokens, ...), then by window (perSecond, ...).
	RateLimit map[string]map[string]int64 `json:"rateLimit,omitempty"`
	// PerRequest bounds one request.
	PerRequest map[string]int64 `json:"perRequest,omitempty"`
	// Quotas bound what there is.
	Quotas map[string]int64 `json:"quotas,omitempty"`
	Budget *Budget          `json:"budget,omitempty"`
}

// Budget bounds what calls cost, in US dollars.
type Budget struct {
	Daily   *float64  `json:"dailySpendLimit,omitempty"`
	Monthly *float64  `json:"monthlySpendLimit,omitempty"`
	Alerts  []float64 `json:"alertThresholds,omitempty"`
}

// Names of what there is in Limits.
func rated() []string { return []string{"requests", "tokens", "vectors", "files", "storage"} }

func windows() []string { return []string{"perSecond", "perMinute", "perHour", "perDay", "perMonth"} }

func perRequest() []string {
	return []string{
		MaxInputTokens, MaxOutputTokens, MaxTotalTokens, "maxVectorsPerUpsert", "maxQueryResults", "maxDimensions", MaxFileSize, MaxFiles,
		MaxEvents, MaxDuration, MaxConcurrent,
	}
}

func quotas() []string {
	return []string{
		MaxProjects, MaxModels, "maxVectorIndexes", "maxVectorsTotal", "maxFileBuckets", MaxStorage, MaxFilesTotal, MaxSessions,
		MaxRetention, MaxAPITokens, MaxUsers, MaxAgents,
	}
}

// maxAlerts bounds the thresholds of a budget.
const maxAlerts = 20

// Validate says what is wrong with limits that a client wrote.
func (l *Limits) Validate() *failure.Failure {
	for what, in := range l.RateLimit {
		if !slices.Contains(rated(), what) {
			return unknownLimit("rateLimit." + what)
		}
		if wrong := checkLimits("rateLimit."+what, in, windows()); wrong != nil {
			return wrong
		}
	}
	if wrong := checkLimits("perRequest", l.PerRequest, perRequest()); wrong != nil {
		return wrong
	}
	if wrong := checkLimits("quotas", l.Quotas, quotas()); wrong != nil {
		return wrong
	}
	return l.Budget.Validate("budget.dailySpendLimit", "budget.monthlySpendLimit", "budget.alertThresholds")
}

func checkLimits(field string, limits map[string]int64, known []string) *failure.Failure {
	for name, most := range limits {
		switch {
		case !slices.Contains(known, name):
			return unknownLimit(field + "." + name)
		case most < Unlimited:
			return notALimit(field + "." + name)
		}
	}
	return nil
}

// Validate says what is wrong with a budget, whose fields have these names for the client.
func (b *Budget) Validate(daily, monthly, alerts string) *failure.Failure {
	if b == nil {
		return nil
	}
	for _, limit := range []struct {
		name string
		usd  *float64
	}{{daily, b.Daily}, {monthly, b.Monthly}} {
		if _, ok := nano(limit.usd); !ok {
			return notALimit(limit.name)
		}
	}
	if len(b.Alerts) > maxAlerts || slices.ContainsFunc(b.Alerts, func(at float64) bool { return !(at >= 0) || math.IsInf(at, 0) }) {
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadThresholds).Param("name", alerts).Param("most", maxAlerts)
	}
	return nil
}

// nano is a limit of money in nano-dollars; nil is unlimited. ok is false for what is no limit.
func nano(usd *float64) (most int64, ok bool) {
	switch {
	case usd == nil || *usd == Unlimited:
		return Unlimited, true
	case *usd == 0:
		return 0, true
	}
	return money.FromUSD(*usd)
}

func unknownLimit(name string) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, failure.UnknownLimit).Param("name", name)
}

func notALimit(name string) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, failure.BadLimit).Param("name", name)
}

// Empty says that the limits bound nothing.
func (l *Limits) Empty() bool {
	return len(l.RateLimit)+len(l.PerRequest)+len(l.Quotas) == 0 && l.Budget == nil
}

// LimitsOf are the limits of a record.
func LimitsOf(record *directorypb.QuotaPolicy) (*Limits, error) {
	limits := &Limits{}
	if len(record.GetLimits()) == 0 {
		return limits, nil
	}
	return limits, json.Unmarshal(record.GetLimits(), limits)
}

// Policy is a record that is ready to be asked.
type Policy struct {
	*directorypb.QuotaPolicy
	Said *Limits
	caps []*allowancepb.Cap
}

// Read makes records ready to be asked, in the order in which they are merged. What is not enabled, or cannot be read, is left out.
func Read(records []*directorypb.QuotaPolicy) []*Policy {
	var policies []*Policy
	for _, record := range records {
		limits, err := LimitsOf(record)
		if err != nil || !record.GetEnabled() {
			continue
		}
		policies = append(policies, &Policy{record, limits, capsOf(record, limits)})
	}
	slices.SortStableFunc(policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(a.GetPriority(), b.GetPriority()), cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return policies
}

// capsOf are the limits that are counted, in the order in which they are checked.
func capsOf(record *directorypb.QuotaPolicy, limits *Limits) []*allowancepb.Cap {
	id := record.GetId()
	var caps []*allowancepb.Cap
	for _, what := range []struct {
		name    string
		measure allowancepb.Measure
	}{{"requests", allowancepb.Measure_REQUESTS}, {"tokens", allowancepb.Measure_TOKENS}, {"files", allowancepb.Measure_FILES}, {"storage", allowancepb.Measure_STORAGE}} {
		for i, window := range windows() {
			if most, said := limits.RateLimit[what.name][window]; said {
				caps = append(caps, &allowancepb.Cap{
					Policy: id, Measure: what.measure, Unit: allowancepb.Unit_SECOND + allowancepb.Unit(i), Most: most, //nolint:gosec // of five
				})
			}
		}
	}
	if most, said := limits.PerRequest[MaxConcurrent]; said {
		caps = append(caps, &allowancepb.Cap{Policy: id, Measure: allowancepb.Measure_REQUESTS, Unit: allowancepb.Unit_MOMENT, Most: most})
	}
	caps = append(caps, keptOf(record, limits)...)
	if limits.Budget == nil {
		return caps
	}
	for _, window := range []struct {
		unit allowancepb.Unit
		usd  *float64
	}{{allowancepb.Unit_DAY, limits.Budget.Daily}, {allowancepb.Unit_MONTH, limits.Budget.Monthly}} {
		if most, ok := nano(window.usd); ok && window.usd != nil {
			caps = append(caps, &allowancepb.Cap{
				Policy: id, ProjectId: record.GetProjectId(), Measure: allowancepb.Measure_COST, Unit: window.unit, Most: most, Alerts: limits.Budget.Alerts,
			})
		}
	}
	return caps
}

// keptOf are the limits of the files and reported sessions that are kept. They do not say by which token they came: policies of one bind
// nothing.
func keptOf(record *directorypb.QuotaPolicy, limits *Limits) (caps []*allowancepb.Cap) {
	user := ""
	switch record.GetScope() {
	case Tenant:
	case User:
		user = record.GetScopeId()
	default:
		return nil
	}
	for _, what := range []struct {
		name    string
		measure allowancepb.Measure
	}{{MaxFilesTotal, allowancepb.Measure_FILES}, {MaxStorage, allowancepb.Measure_STORAGE}, {MaxSessions, allowancepb.Measure_SESSIONS}} {
		if most, said := limits.Quotas[what.name]; said {
			caps = append(caps, &allowancepb.Cap{Policy: record.GetId(), ProjectId: record.GetProjectId(), UserId: user, Measure: what.measure, Most: most})
		}
	}
	return caps
}
