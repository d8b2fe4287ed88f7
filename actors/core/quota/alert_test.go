package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/quota"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
)

func TestCrossed(t *testing.T) {
	for name, c := range map[string]struct {
		most          int64
		alerts        []float64
		before, after int64
		crossed       []float64
	}{
		"below":            {100, []float64{0.5}, 0, 49, nil},
		"to it":            {100, []float64{0.5}, 49, 50, []float64{0.5}},
		"from it":          {100, []float64{0.5}, 50, 51, nil},
		"several at once":  {100, []float64{0.9, 0.5, 1}, 40, 99, []float64{0.9, 0.5}},
		"all of it":        {100, []float64{1}, 99, 100, []float64{1}},
		"percentages":      {1000, []float64{80, 100, 150}, 799, 1000, []float64{80, 100}},
		"beyond the limit": {100, []float64{120}, 100, 130, []float64{120}},
		"nothing spent":    {100, []float64{0}, 0, 5, nil},
		"not exact":        {1_000_000_000, []float64{0.7}, 699_999_999, 700_000_000, []float64{0.7}},
		"no limit":         {-1, []float64{0.5}, 0, 1000, nil},
		"nothing to spend": {0, []float64{0.5}, 0, 1, nil},
		"none":             {100, nil, 0, 100, nil},
	} {
		limit := &allowancepb.Cap{Measure: allowancepb.Measure_COST, Unit: allowancepb.Unit_DAY, Most: c.most, Alerts: c.alerts}
		require.Equal(t, c.crossed, quota.Crossed(limit, c.before, c.after), name)
	}
	require.Nil(t, quota.Crossed(&allowancepb.Cap{Measure: allowancepb.Measure_TOKENS, Most: 10, Alerts: []float64{0.5}}, 0, 10))
}

// TestAlertsAreMerged: a policy's thresholds are of its limits; where a limit in force has none, those in force are its own.
func TestAlertsAreMerged(t *testing.T) {
	policies := quota.Read([]*directorypb.QuotaPolicy{
		said("whole", "", "tenant", "global", 1, `{"budget":{"dailySpendLimit":9,"monthlySpendLimit":90,"alertThresholds":[0.5]}}`),
		said("mine", "p", "user", "llm", 2, `{"budget":{"dailySpendLimit":3}}`),
		said("only", "", "tenant", "llm", 3, `{"budget":{"alertThresholds":[0.9]}}`),
	})
	got := map[string][]float64{}
	for _, c := range quota.InForce(policies, &quota.Call{TenantID: "t", ProjectID: "p", UserID: "x", Domain: "llm"}).Caps {
		got[c.GetPolicy()+" "+c.GetProjectId()+" "+c.GetUnit().String()] = c.GetAlerts()
	}
	require.Equal(t, map[string][]float64{"whole  DAY": {0.5}, "whole  MONTH": {0.5}, "mine p DAY": {0.9}}, got)
	again := quota.InForce(policies, &quota.Call{TenantID: "t", ProjectID: "q", UserID: "x", Domain: "tts"})
	require.Equal(t, []float64{0.5}, again.Caps[0].GetAlerts())
	require.Equal(t, []float64{0.5}, again.Alerts)
}
