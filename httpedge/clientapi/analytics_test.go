package clientapi_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/tracepb"
)

// counted is a Client API over usage that a test has made up.
type counted struct {
	*userKit

	asked  []*nodepb.UsageQuery
	usage  *nodepb.UsageReply
	whole  *conversationpb.OverviewReply
	listed *conversationpb.OverviewQuery
	old    bool // another node of the cluster does not add up

	reported *tracepb.RecentReply
	recent   *tracepb.RecentQuery
}

func serveCounted(t *testing.T) *counted {
	t.Helper()
	k := &counted{usage: &nodepb.UsageReply{}, whole: &conversationpb.OverviewReply{}, reported: &tracepb.RecentReply{}}
	k.userKit = serveClient(t, func(_ *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		entities := endpointtest.Entities{}
		endpointtest.On(entities, func(_ context.Context, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
			k.asked = append(k.asked, query)
			return k.usage, nil
		})
		endpointtest.On(entities, func(_ context.Context, query *conversationpb.OverviewQuery) (*conversationpb.OverviewReply, error) {
			k.listed = query
			return k.whole, nil
		})
		endpointtest.On(entities, func(_ context.Context, query *tracepb.RecentQuery) (*tracepb.RecentReply, error) {
			k.recent = query
			return k.reported, nil
		})
		endpointtest.On(entities, func(_ context.Context, query *nodepb.TokensQuery) (*nodepb.TokensReply, error) {
			if query.GetId() == "conv_gone" {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
			}
			return &nodepb.TokensReply{Tokens: 42}, nil
		})
		parts.Entities, parts.Current = entities, func() bool { return !k.old }
		parts.Agents = endpointtest.Agents{{Id: "helper", Name: "Helper"}}
		return map[string]endpoint.Surface{"/api": clientapi.New(clientapi.DefaultConfig(), *parts).Dashboard()}
	})
	return k
}

func used(part string, start int64, requests, failed, input, output, nano, unpriced int64, more ...int64) *nodepb.UsageRow {
	numbers := machine.UsageNumbers{requests, failed, input, output, 0, nano, unpriced}
	copy(numbers[machine.UsageAudioMillis:], more)
	return &nodepb.UsageRow{Part: part, Start: start, Values: numbers[:]}
}

// TestAnalyticsParameters: what is asked of the rows, and what is refused in which words.
func TestAnalyticsParameters(t *testing.T) {
	k := serveCounted(t)
	owner := k.mint("owner of default", "default", nil)
	const newYear, h = int64(1_767_225_600_000), int64(3_600_000) // 2026-01-01
	for query, want := range map[string]*nodepb.UsageQuery{
		"":                                 {By: 1, Interval: 2},
		"from=&to=&interval=&group_by=":    {By: 1, Interval: 2},
		"from=2026-01-01&to=2026-01-01":    {By: 1, Interval: 2, From: newYear, To: newYear + 24*h},
		"from=2026-01-01T10:30:00Z":        {By: 1, Interval: 2, From: newYear + 10*h},
		"from=2026-01-01T00:30:00%2B02:00": {By: 1, Interval: 2, From: newYear - 2*h},
		"to=2026-01-01T10:59:59.999":       {By: 1, Interval: 2, To: newYear + 11*h},
		"to=2026-01-01T11:00:00Z":          {By: 1, Interval: 2, To: newYear + 12*h},
		"interval=hour":                    {By: 1, Interval: 1},
		"interval=month&model=a/b":         {By: 1, Interval: 3, Only: 1, Value: "a/b"},
		"group_by=user&from=2026-01-01T10:30:00Z&to=2026-01-01T10:31:00Z": {By: 2, From: newYear, To: newYear + 24*h},
		"group_by=token&model=m":                 {By: 3, Only: 1, Value: "m"},
		"group_by=service&model=m&interval=hour": {By: 4},
		"group_by=agent&model=m":                 {By: 5, Only: 1, Value: "m"},
	} {
		k.asked = nil
		status, got := k.ask(owner, "GET", "/analytics/usage?"+query, "")
		require.Equal(t, 200, status, "%s: %v", query, got)
		want.TenantId, want.ProjectId = "default", "default"
		require.Len(t, k.asked, 1, query)
		require.Equal(t, want.String(), k.asked[0].String(), query)
	}
	k.asked = nil
	for _, query := range []string{"from=2026-02-01&to=2026-01-01", "to=1969-12-31"} {
		status, got := k.ask(owner, "GET", "/analytics/usage?"+query, "")
		require.Equal(t, 200, status)
		require.Equal(t, []any{}, got["by_model"], "nothing is read")
	}
	require.Empty(t, k.asked)
	for query, text := range map[string]string{
		"from=yesterday": "`from` must be an ISO date", "from=2026-02-30": "`from` must be an ISO date", "from=1767225600000": "`from` must be an ISO date",
		"to=2026-13-01": "`to` must be an ISO date", "interval=week": "`interval` must be hour, day, or month",
		"group_by=user&interval=week": "`interval` must be hour, day, or month",
		"group_by=metadata.x":         "`group_by` must be model, user, token, service, or agent",
		"group_by=Model":              "`group_by` must be model, user, token, service, or agent",
	} {
		k.refused(owner, "GET /analytics/usage?"+query, "", 400, text)
	}
	k.refused(owner, "GET /analytics/overview?to="+url.QueryEscape("2026-01-01T25:00"), "", 400, "`to` must be an ISO date")
	k.old = true
	status, _ := k.ask(owner, "GET", "/analytics/usage", "")
	require.Equal(t, 503, status, "a node of the release before does not add up")
	k.old = false
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", ProjectIds: []string{"default"}, Role: "user"})
	agentsOnly := k.mint("ann", "default", map[string]string{"agents": "write"})
	for _, path := range []string{"/analytics/usage", "/analytics/overview"} {
		status, _ = k.ask(agentsOnly, "GET", path, "")
		require.Equal(t, 403, status, path)
	}
}

// TestAnalyticsShapes: the answer of each group, by the letter.
func TestAnalyticsShapes(t *testing.T) {
	k := serveCounted(t)
	owner := k.mint("owner of default", "default", nil)
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", Name: "Ann", Email: "ann@x.test"})
	k.put(identity.Users, "eve", &directorypb.User{Id: "eve", TenantId: "other", Name: "Eve", Email: "eve@x.test"})
	k.usage.Rows = []*nodepb.UsageRow{used("", 0, 0, 0, 0, 0, 0, 0), used("a%2Fb", 0, 2, 1, 10, 5, 1, 1), used("scripted", 0, 3, 0, 100, 50, 1_500_000_000, 0)}
	k.usage.Periods = []*nodepb.UsageRow{used("", 1_767_225_600_000, 5, 1, 110, 55, 1_500_000_001, 1)}
	status, got := k.ask(owner, "GET", "/analytics/usage?to=2026-01-31", "")
	require.Equal(t, 200, status)
	rows, _ := got["by_model"].([]any)
	require.NotEmpty(t, rows)
	scripted, _ := rows[0].(answer) // it has a record, or not, as others left it
	require.Equal(t, answer{
		"object": "analytics.usage", "group_by": "model", "interval": "day", "from": nil, "to": "2026-01-31T23:59:59.999Z", "currency": "USD",
		"totals": answer{"calls": 5.0, "input_tokens": 110.0, "output_tokens": 55.0, "total_tokens": 165.0, "cost": 1.500000001, "unpriced": 1.0},
		"by_model": []any{
			answer{
				"model_key": "scripted", "model_name": scripted["model_name"], "category": scripted["category"], "provider_key": scripted["provider_key"],
				"calls": 3.0, "input_tokens": 100.0, "output_tokens": 50.0, "total_tokens": 150.0, "cost": 1.5, "unpriced": 0.0,
			},
			answer{
				"model_key": "a/b", "model_name": "a/b", "category": nil, "provider_key": nil,
				"calls": 2.0, "input_tokens": 10.0, "output_tokens": 5.0, "total_tokens": 15.0, "cost": 1e-9, "unpriced": 1.0,
			},
		},
		"timeseries": []any{answer{"period": "2026-01-01T00:00:00Z", "calls": 5.0, "total_tokens": 165.0, "cost": 1.500000001}},
	}, got)

	k.usage = &nodepb.UsageReply{Rows: []*nodepb.UsageRow{used("any", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1_500_000_000), used("b", 0, 5, 0, 10, 5, 0, 0, 0, 0, 3)}}
	_, got = k.ask(owner, "GET", "/analytics/usage", "")
	require.Equal(t, []any{5.0, 3.0}, []any{inner(t, got, "totals")["calls"], inner(t, got, "totals")["cache_hits"]})
	rows, _ = got["by_model"].([]any)
	require.Len(t, rows, 2)
	dynamic, _ := rows[0].(answer)
	require.Equal(t, []any{"any", 0.0, 0.0, 2.0, 1.5}, []any{dynamic["model_key"], dynamic["calls"], dynamic["cost"], dynamic["routed_calls"], dynamic["routed_cost"]})

	k.usage = &nodepb.UsageReply{Rows: []*nodepb.UsageRow{used("", 0, 1, 1, 0, 0, 0, 0), used("ann", 0, 1, 0, 3, 4, 7_000_000_000, 0), used("eve", 0, 1, 0, 1, 1, 1, 0)}}
	numbers := func(requests, failed, input, output, dollars float64, more answer) answer {
		row := answer{"requests": requests, "errors": failed, "input_tokens": input, "output_tokens": output, "total_tokens": input + output, "cost": dollars, "unpriced": 0.0}
		for name, value := range more {
			row[name] = value
		}
		return row
	}
	_, got = k.ask(owner, "GET", "/analytics/usage?group_by=user&from=2026-01-31T23:30:00-01:00", "")
	require.Equal(t, answer{
		"object": "analytics.usage", "group_by": "user", "from": "2026-02-01", "to": nil, "currency": "USD", "totals": numbers(3, 1, 4, 5, 7.000000001, nil),
		"breakdown": []any{
			numbers(1, 0, 3, 4, 7, answer{"user_id": "ann", "name": "Ann", "label": "ann@x.test"}),
			numbers(1, 0, 1, 1, 1e-9, answer{"user_id": "eve"}), // of another tenant: it has no name here
			numbers(1, 1, 0, 0, 0, answer{"user_id": ""}),
		},
	}, got)
	for group, key := range map[string]string{"token": "api_token_id", "service": "service", "agent": "agent_key"} {
		_, got = k.ask(owner, "GET", "/analytics/usage?group_by="+group, "")
		rows, ok := got["breakdown"].([]any)
		require.True(t, ok)
		require.Equal(t, []any{"ann", "eve", ""}, keysOf(t, rows, key))
	}
}

// TestSpendReport: by model and time, and by whose it is (document 3, 13.3).
func TestSpendReport(t *testing.T) {
	k := serveCounted(t)
	owner := k.mint("owner of default", "default", nil)
	const newYear, h = int64(1_767_225_600_000), int64(3_600_000) // 2026-01-01
	for query, want := range map[string]*nodepb.UsageQuery{
		"":                                    {By: 1, Interval: 2},
		"group_by=hour&from=2026-01-01T10:30": {By: 1, Interval: 1, From: newYear + 10*h},
		"group_by=month&model=a/b":            {By: 1, Interval: 3, Only: 1, Value: "a/b"},
		"group_by_entity=user&to=2026-01-01":  {By: 2, To: newYear + 24*h},
		"group_by_entity=api_key&model=m":     {By: 3, Only: 1, Value: "m"},
		"group_by_entity=agent":               {By: 5},
	} {
		k.asked = nil
		status, got := k.ask(owner, "GET", "/spend/report?"+query, "")
		require.Equal(t, 200, status, "%s: %v", query, got)
		want.TenantId, want.ProjectId = "default", "default"
		require.Equal(t, want.String(), k.asked[0].String(), query)
	}
	for query, text := range map[string]string{
		"from=yesterday": "`from` must be an ISO date", "group_by=week": "`group_by` must be hour, day, or month",
		"group_by=user": "`group_by` must be hour, day, or month", "group_by_entity=model": "`group_by_entity` must be user, api_key, or agent",
	} {
		k.refused(owner, "GET /spend/report?"+query, "", 400, text)
	}
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", ProjectIds: []string{"default"}, Name: "Ann", Email: "ann@x.test", Role: "user"})
	status, _ := k.ask(k.mint("ann", "default", map[string]string{"agents": "write"}), "GET", "/spend/report", "")
	require.Equal(t, 403, status)

	k.usage.Rows = []*nodepb.UsageRow{used("a%2Fb", 0, 2, 1, 10, 5, 1, 1), used("c", 0, 3, 0, 100, 50, 1_500_000_000, 0)}
	k.usage.Periods = []*nodepb.UsageRow{used("", newYear, 5, 1, 110, 55, 1_500_000_001, 1)}
	row := func(key string, calls, input, output, dollars, unpriced float64) answer {
		return answer{
			"model_key": key, "model_name": key, "category": nil, "provider_key": nil, "currency": "USD",
			"calls": calls, "input_tokens": input, "output_tokens": output, "total_tokens": input + output, "cost": dollars, "unpriced": unpriced,
		}
	}
	_, got := k.ask(owner, "GET", "/spend/report?from=2026-01-01", "")
	require.Equal(t, answer{
		"object": "spend.report", "from": "2026-01-01T00:00:00.000Z", "to": nil, "group_by": "day", "model": nil, "currency": "USD",
		"total_cost": 1.500000001, "total_calls": 5.0, "total_input_tokens": 110.0, "total_output_tokens": 55.0, "total_tokens": 165.0, "unpriced": 1.0,
		"by_model":   []any{row("c", 3, 100, 50, 1.5, 0), row("a/b", 2, 10, 5, 1e-9, 1)},
		"timeseries": []any{answer{"period": "2026-01-01T00:00:00Z", "calls": 5.0, "total_tokens": 165.0, "cost": 1.500000001}},
	}, got)
	k.usage = &nodepb.UsageReply{Rows: []*nodepb.UsageRow{used("", 0, 1, 1, 0, 0, 0, 0), used("ann", 0, 1, 0, 3, 4, 7_000_000_000, 0)}}
	_, got = k.ask(owner, "GET", "/spend/report?group_by_entity=user&model=m&to=2026-01-31", "")
	require.Equal(t, answer{
		"object": "spend.breakdown", "group_by_entity": "user", "from": nil, "to": "2026-01-31", "model": "m", "currency": "USD",
		"total_requests": 2.0, "total_errors": 1.0, "total_input_tokens": 3.0, "total_output_tokens": 4.0, "total_tokens": 7.0, "total_cost": 7.0, "unpriced": 0.0,
		"breakdown": []any{
			answer{"user_id": "ann", "name": "Ann", "label": "ann@x.test", "requests": 1.0, "errors": 0.0, "input_tokens": 3.0, "output_tokens": 4.0, "total_tokens": 7.0, "cost": 7.0, "unpriced": 0.0},
			answer{"user_id": "", "requests": 1.0, "errors": 1.0, "input_tokens": 0.0, "output_tokens": 0.0, "total_tokens": 0.0, "cost": 0.0, "unpriced": 0.0},
		},
	}, got)
	k.old = true
	status, _ = k.ask(owner, "GET", "/spend/report", "")
	require.Equal(t, 503, status)
}

// TestAnalyticsOverview: what is counted, by which days, and what a trend compares.
func TestAnalyticsOverview(t *testing.T) {
	k := serveCounted(t)
	owner := k.mint("owner of default", "default", nil)
	for key, category := range map[string]string{"m1": "llm", "m2": "embedding", "m3": "ocr"} {
		status, got := k.ask(owner, "POST", "/models/providers", `{"key":"p`+key+`","driver":"scripted"}`)
		require.Equal(t, 201, status, got)
		status, got = k.ask(owner, "POST", "/models", `{"key":"`+key+`","name":"m","providerKey":"p`+key+`","category":"`+category+`","modelId":"m","pricing":{},"settings":{}}`)
		require.Equal(t, 201, status, got)
	}
	const first = int64(20_454) // 2026-01-01
	k.whole.Days = map[int64]int64{}
	for n := range int64(40) {
		k.whole.Days[first+n] = 1
	}
	k.whole.Days[first+39] = 3
	k.whole.Sessions = []*conversationpb.State{
		{Id: "conv_1", AgentName: "Helper", CreatedAt: 1_767_225_600_000, UpdatedAt: 1_767_225_601_500, LastSeq: 7, Lease: &conversationpb.Lease{}},
		{Id: "conv_gone", AgentName: "Helper", CreatedAt: 1_767_225_600_000, UpdatedAt: 1_767_225_600_000},
	}
	k.usage = &nodepb.UsageReply{
		Rows: []*nodepb.UsageRow{used("agents", 0, 1, 0, 10, 20, 0, 0)}, Periods: []*nodepb.UsageRow{used("", (first+39)*86_400_000, 1, 0, 10, 20, 0, 0)},
	}
	status, got := k.ask(owner, "GET", "/analytics/overview?from=2020-01-01&to=2100-01-01", "")
	require.Equal(t, 200, status, "%v", got)
	require.Equal(t, answer{
		"models": answer{"total": 3.0, "llm": 1.0, "embedding": 1.0}, "vectors": answer{"providers": 0.0, "indexes": 0.0},
		"tracing":  answer{"totalSessions": 42.0, "totalTokens": 30.0, "activeSessions": 1.0},
		"apiCalls": answer{"total": 42.0, "trend": 28.6},
	}, got["stats"])
	require.Equal(t, []any{
		answer{"sessionId": "conv_1", "agentName": "Helper", "status": "running", "startedAt": "2026-01-01T00:00:00.000Z", "durationMs": 1500.0, "totalEvents": 7.0, "totalTokens": 42.0},
		answer{"sessionId": "conv_gone", "agentName": "Helper", "status": "idle", "startedAt": "2026-01-01T00:00:00.000Z", "durationMs": 0.0, "totalEvents": 0.0, "totalTokens": 0.0},
	}, got["recent_sessions"])
	daily, ok := got["daily"].([]any)
	require.True(t, ok)
	require.Len(t, daily, 30)
	require.Equal(t, answer{"date": "2026-01-11", "sessionsCount": 1.0, "totalTokens": 0.0}, daily[0])
	require.Equal(t, answer{"date": "2026-02-09", "sessionsCount": 3.0, "totalTokens": 30.0}, daily[29])
	require.Equal(t, []string{"default", "default"}, []string{k.listed.GetTenantId(), k.listed.GetProjectId()})

	k.reported = &tracepb.RecentReply{
		Sessions: []*tracepb.Session{{
			SessionId: "theirs", Record: &tracepb.Record{AgentName: "Elsewhere", Status: "in_progress", StartedAt: 1_767_225_599_000, DurationMs: 20},
			Events: 3, Counted: &tracepb.Numbers{InputTokens: 4, OutputTokens: 1},
		}},
		Days: map[int64]int64{first + 39: 5}, Tokens: map[int64]int64{first + 39: 6},
	}
	_, got = k.ask(owner, "GET", "/analytics/overview?from=2020-01-01&to=2100-01-01", "")
	require.Equal(t, answer{"totalSessions": 47.0, "totalTokens": 36.0, "activeSessions": 2.0}, inner(t, inner(t, got, "stats"), "tracing"))
	require.Equal(t, answer{
		"sessionId": "theirs", "agentName": "Elsewhere", "status": "in_progress", "startedAt": "2025-12-31T23:59:59.000Z", "durationMs": 20.0, "totalEvents": 3.0, "totalTokens": 5.0,
	}, got["recent_sessions"].([]any)[2]) //nolint:errcheck,forcetypeassert // a test
	require.Equal(t, answer{"date": "2026-02-09", "sessionsCount": 8.0, "totalTokens": 36.0}, got["daily"].([]any)[29]) //nolint:errcheck,forcetypeassert // a test
	require.Equal(t, []any{"default", "default", int64(1_577_836_800_000)}, []any{k.recent.GetTenantId(), k.recent.GetProjectId(), k.recent.GetFrom()})

	k.whole, k.usage, k.reported = &conversationpb.OverviewReply{}, &nodepb.UsageReply{}, &tracepb.RecentReply{}
	_, got = k.ask(owner, "GET", "/analytics/overview?to=2020-01-01", "")
	require.Equal(t, []any{[]any{}, []any{}}, []any{got["recent_sessions"], got["daily"]})
	require.Equal(t, 0.0, inner(t, inner(t, got, "stats"), "models")["total"], "they were made later") //nolint:testifylint // exactly
}
