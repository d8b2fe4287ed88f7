package quota_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
)

func TestWindows(t *testing.T) {
	at := time.Date(2028, 2, 29, 23, 59, 58, 999e6, time.UTC).UnixMilli()
	for unit, want := range map[allowancepb.Unit]string{
		allowancepb.Unit_SECOND: "2028-02-29T23:59:58Z", allowancepb.Unit_MINUTE: "2028-02-29T23:59:00Z", allowancepb.Unit_HOUR: "2028-02-29T23:00:00Z",
		allowancepb.Unit_DAY: "2028-02-29T00:00:00Z", allowancepb.Unit_MONTH: "2028-02-01T00:00:00Z",
	} {
		require.Equal(t, want, time.UnixMilli(quota.Window(unit, at)).UTC().Format(time.RFC3339))
	}
}

// TestMerge: which policies fit a call, and which of their limits is in force.
func TestMerge(t *testing.T) {
	policy := func(id, scope, scopeID, domain string, priority int64, limits string) *directorypb.QuotaPolicy {
		return &directorypb.QuotaPolicy{
			Id: id, TenantId: "t", Scope: scope, ScopeId: scopeID, Domain: domain, Priority: priority, Enabled: true, Limits: []byte(limits),
		}
	}
	off := policy("off", "tenant", "", "global", 900, `{"budget":{"dailySpendLimit":0}}`)
	off.Enabled = false
	elsewhere := policy("elsewhere", "tenant", "", "global", 900, `{"budget":{"dailySpendLimit":0}}`)
	elsewhere.ProjectId = "q"
	policies := quota.Read([]*directorypb.QuotaPolicy{
		policy("late", "token", "tok", "llm", 200, `{"budget":{"dailySpendLimit":-1,"alertThresholds":[0.9]},"perRequest":{"maxInputTokens":9}}`),
		policy("whole", "tenant", "", "global", 100, `{"budget":{"dailySpendLimit":1,"monthlySpendLimit":2.5},"rateLimit":{"tokens":{"perDay":7},"requests":{"perMinute":5}},"perRequest":{"maxInputTokens":5,"maxTotalTokens":6}}`),
		policy("mails", "tenant", "", "embedding", 300, `{"budget":{"dailySpendLimit":0}}`),
		policy("else", "user", "bob", "llm", 300, `{"budget":{"dailySpendLimit":0}}`),
		policy("model", "resource", "m", "llm", 50, `{"budget":{"monthlySpendLimit":0.5}}`),
		policy("broken", "tenant", "", "llm", 300, `{"budget":`), off, elsewhere,
	})
	shown := func(call *quota.Call) (caps []string) {
		force := quota.InForce(policies, call)
		if force == nil {
			return nil
		}
		for _, c := range force.Caps {
			caps = append(caps, c.String())
		}
		return caps
	}
	call := &quota.Call{TenantID: "t", ProjectID: "p", UserID: "ann", TokenID: "tok", Model: "m", Provider: "v", Domain: "llm"}
	require.Len(t, shown(call), 6)
	force := quota.InForce(policies, call)
	require.Equal(t, map[string]int64{"maxInputTokens": 9, "maxTotalTokens": 6}, force.PerRequest)
	require.Equal(t, []float64{0.9}, force.Alerts)
	for _, want := range []struct {
		measure allowancepb.Measure
		unit    allowancepb.Unit
		policy  string
		most    int64
	}{
		{allowancepb.Measure_COST, allowancepb.Unit_DAY, "late", -1},
		{allowancepb.Measure_COST, allowancepb.Unit_MONTH, "whole", 2_500_000_000},
		{allowancepb.Measure_REQUESTS, allowancepb.Unit_MINUTE, "whole", 5},
		{allowancepb.Measure_TOKENS, allowancepb.Unit_DAY, "whole", 7},
	} {
		got := force.Cap(want.measure, want.unit)
		require.Equal(t, []any{want.policy, want.most}, []any{got.GetPolicy(), got.GetMost()}, want)
	}
	require.Nil(t, force.Cap(allowancepb.Measure_REQUESTS, allowancepb.Unit_DAY))
	binding := map[string]bool{}
	for _, c := range force.Caps {
		if !c.GetCounts() {
			binding[c.GetPolicy()+" "+c.GetMeasure().String()+" "+c.GetUnit().String()] = true
		}
	}
	require.Equal(t, map[string]bool{"whole COST MONTH": true, "whole REQUESTS MINUTE": true, "whole TOKENS DAY": true}, binding, "an unlimited one lifts the limit of the day")
	require.Equal(t, "REQUESTS", force.Caps[0].GetMeasure().String(), "rates come before money")
	require.Equal(t, "TOKENS", force.Caps[1].GetMeasure().String())
	require.Nil(t, quota.InForce(quota.Read(nil), call))
}

// TestLimits: what is a limit.
func TestLimits(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"rateLimit":{"requests":{"perMinute":-1}},"quotas":{"maxAgents":0},"perRequest":{"maxDimensions":3}}`: "",
		`{"rateLimit":{"calls":{}}}`:                              "`rateLimit.calls` is not a limit",
		`{"rateLimit":{"requests":{"perYear":1}}}`:                "`rateLimit.requests.perYear` is not a limit",
		`{"perRequest":{"maxInputTokens":-2}}`:                    "`perRequest.maxInputTokens` must be a non-negative number (or -1 for unlimited)",
		`{"budget":{"dailySpendLimit":-0.5}}`:                     "`budget.dailySpendLimit` must be a non-negative number (or -1 for unlimited)",
		`{"budget":{"alertThresholds":[1,-0.1]}}`:                 "`budget.alertThresholds` must be at most 20 non-negative numbers",
		`{"budget":{"dailySpendLimit":0,"monthlySpendLimit":-1}}`: "",
	} {
		limits, err := quota.LimitsOf(&directorypb.QuotaPolicy{Limits: []byte(text)})
		require.NoError(t, err)
		if refused := limits.Validate(); wrong == "" {
			require.Nil(t, refused, text)
		} else {
			require.Equal(t, wrong, refused.DefaultText(), text)
		}
	}
}
