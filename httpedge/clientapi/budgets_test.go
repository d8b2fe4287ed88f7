package clientapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/quota"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/allowancepb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// serveBudgets is a Client API over what a test says was used.
func serveBudgets(t *testing.T, used *allowancepb.State, ready *bool) *userKit {
	t.Helper()
	return serveClient(t, func(_ *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		entities := endpointtest.Entities{}
		endpointtest.On(entities, func(_ context.Context, query *allowancepb.UsedQuery) (*allowancepb.UsedReply, error) {
			if len(used.GetUsed()) == 0 {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.EntityNotFound)
			}
			return &allowancepb.UsedReply{State: used}, nil
		})
		parts.Entities, parts.IDs, parts.CanBudget = entities, new(endpointtest.IDs), func() bool { return *ready }
		return nil
	})
}

// TestBudgets: made, listed, changed and deleted by owners and admins, within their tenant and project (document 3, 13.3).
func TestBudgets(t *testing.T) {
	ready := true
	k := serveBudgets(t, nil, &ready)
	owner := k.mint("owner of default", "default", nil)
	other := k.mint("owner of other", "other", nil)
	second, hash, prefix := identity.GenerateToken((*[32]byte)([]byte("the owner's in the second one...")))
	k.put(identity.Tokens, identity.TokenKey(hash), &directorypb.Token{
		Id: "tok_second", TenantId: "default", ProjectId: "second", UserId: "owner of default", Hash: hash, Prefix: prefix,
	})
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", ProjectIds: []string{"default"}, Role: "user"})
	ann := k.mint("ann", "default", nil)

	status, got := k.ask(owner, "POST", "/budgets", `{"daily_limit_usd":0.5,"alert_thresholds":[0.8]}`)
	require.Equal(t, 201, status, got)
	id, _ := got["id"].(string)
	_, err := time.Parse(time.RFC3339, got["created_at"].(string)) //nolint:errcheck,forcetypeassert // a test
	require.NoError(t, err)
	want := answer{
		"id": id, "object": "budget", "label": "Budget", "description": nil, "domain": "llm", "scope": "tenant", "scope_id": nil, "project_id": "default",
		"daily_limit_usd": 0.5, "monthly_limit_usd": nil, "alert_thresholds": []any{0.8}, "enabled": true, "priority": 100.0,
		"created_at": got["created_at"], "updated_at": got["updated_at"],
	}
	require.Equal(t, want, got)
	status, got = k.ask(owner, "GET", "/budgets", "")
	require.Equal(t, []any{200, answer{"object": "list", "data": []any{want}}}, []any{status, got})
	for _, token := range []string{second, other} {
		_, got = k.ask(token, "GET", "/budgets", "")
		require.Equal(t, answer{"object": "list", "data": []any{}}, got)
		k.refused(token, "PATCH /budgets/"+id, `{"enabled":false}`, 404, "Budget not found")
		k.refused(token, "DELETE /budgets/"+id, "", 404, "Budget not found")
	}
	_, got = k.ask(ann, "GET", "/budgets", "")
	require.Len(t, got["data"], 1, "whoever may read models sees them")

	const admins = "Budget management requires an owner/admin API token"
	k.refused(ann, "POST /budgets", `{"daily_limit_usd":1}`, 403, admins)
	k.refused(ann, "PATCH /budgets/"+id, `{"daily_limit_usd":1}`, 403, admins)
	k.refused(ann, "DELETE /budgets/"+id, "", 403, admins)

	for body, text := range map[string]string{
		`{}`: "At least one of `daily_limit_usd` or `monthly_limit_usd` is required", `{"daily_limit_usd":null,"label":"x"}`: "At least one of `daily_limit_usd` or `monthly_limit_usd` is required",
		`{"daily_limit_usd":-2}`:                                            "`daily_limit_usd` must be a non-negative number (or -1 for unlimited)",
		`{"monthly_limit_usd":"5"}`:                                         "`monthly_limit_usd` must be a non-negative number (or -1 for unlimited)",
		`{"monthly_limit_usd":1e300}`:                                       "`monthly_limit_usd` must be a non-negative number (or -1 for unlimited)",
		`{"daily_limit_usd":1,"alert_thresholds":[-1]}`:                     "`alert_thresholds` must be at most 20 non-negative numbers",
		`{"daily_limit_usd":1,"scope":"planet"}`:                            "scope must be one of: tenant, user, token, resource, provider",
		`{"daily_limit_usd":1,"domain":"x"}`:                                "domain must be one of: global, llm, embedding, vector, file, tracing, stt, tts, ocr",
		`{"daily_limit_usd":1,"scope":"token"}`:                             "scope_id is required",
		`{"daily_limit_usd":1,"priority":-1}`:                               "`priority` must be a non-negative whole number",
		`{"daily_limit_usd":1,"project_id":"second"}`:                       "project_id must be one of: default",
		`{"daily_limit_usd":1,"scope":"user","scope_id":"ann","enabled":2}`: "enabled must be true or false",
	} {
		k.refused(owner, "POST /budgets", body, 400, text)
	}

	status, got = k.ask(owner, "PATCH", "/budgets/"+id, `{"daily_limit_usd":-1,"monthly_limit_usd":0,"project_id":null,"scope":"token","scope_id":"tok_1","enabled":false,"priority":7,"label":"L","description":"D","alert_thresholds":[]}`)
	require.Equal(t, 200, status, got)
	for name, value := range (answer{
		"daily_limit_usd": -1.0, "monthly_limit_usd": 0.0, "project_id": nil, "scope": "token", "scope_id": "tok_1", "enabled": false, "priority": 7.0, "label": "L",
		"description": "D", "alert_thresholds": []any{}, "domain": "llm", "id": id,
	}) {
		require.Equal(t, value, got[name], name)
	}
	_, got = k.ask(second, "GET", "/budgets", "")
	require.Len(t, got["data"], 1, "it is of all projects now")
	_, got = k.ask(other, "GET", "/budgets", "")
	require.Empty(t, got["data"])
	k.refused(owner, "PATCH /budgets/"+id, `{"daily_limit_usd":null,"monthly_limit_usd":null}`, 400, "At least one of `daily_limit_usd` or `monthly_limit_usd` is required")
	_, got = k.ask(owner, "PATCH", "/budgets/"+id, `{"daily_limit_usd":null}`)
	require.Equal(t, []any{nil, 0.0}, []any{got["daily_limit_usd"], got["monthly_limit_usd"]})
	_, got = k.ask(owner, "PATCH", "/budgets/"+id, `{"description":null}`)
	require.Nil(t, got["description"])
	k.refused(owner, "PATCH /budgets/"+id, `{"enabled":null}`, 400, "enabled must be true or false")
	ready = false
	k.refused(owner, "POST /budgets", `{"daily_limit_usd":1}`, 503, "A node of the cluster is of an older release, which keeps no budgets")
	status, got = k.ask(owner, "DELETE", "/budgets/"+id, "")
	require.Equal(t, []any{200, answer{"deleted": true, "id": id}}, []any{status, got})
	k.refused(owner, "DELETE /budgets/"+id, "", 404, "Budget not found")
	k.refused(owner, "PATCH /budgets/no%20key", `{}`, 404, "Budget not found")
}

// TestBudgetStatus: what is in force for a call, what was used of it and what is left.
func TestBudgetStatus(t *testing.T) {
	ready, used := true, &allowancepb.State{}
	k := serveBudgets(t, used, &ready)
	owner := k.mint("owner of default", "default", nil)
	window := func(limit any, spent float64, left any) answer {
		return answer{"limit_usd": limit, "used_usd": spent, "remaining_usd": left}
	}
	ask := func(query string) answer {
		status, got := k.ask(owner, "GET", "/budgets/status?"+query, "")
		require.Equal(t, 200, status, got)
		return got
	}
	require.Equal(t, answer{
		"object": "budget.status", "domain": "llm", "configured": false, "per_day": window(nil, 0, nil), "per_month": window(nil, 0, nil), "alert_thresholds": []any{},
	}, ask(""))
	budget := func(body string) string {
		status, got := k.ask(owner, "POST", "/budgets", body)
		require.Equal(t, 201, status, got)
		id, _ := got["id"].(string)
		return id
	}
	whole := budget(`{"daily_limit_usd":2,"monthly_limit_usd":10,"alert_thresholds":[0.5]}`)
	now := time.Now().UnixMilli()
	spent := func(policy string, unit allowancepb.Unit, nano int64) {
		used.Used = append(used.Used, &allowancepb.Used{Policy: policy, Measure: allowancepb.Measure_COST, Unit: unit, Start: quota.Window(unit, now), Amount: nano})
	}
	require.Equal(t, window(2.0, 0, 2.0), ask("")["per_day"])
	spent(whole, allowancepb.Unit_DAY, 1_500_000_001)
	spent(whole, allowancepb.Unit_MONTH, 11_000_000_000)
	require.Equal(t, answer{
		"object": "budget.status", "domain": "llm", "configured": true, "per_day": window(2.0, 1.500000001, 0.499999999), "per_month": window(10.0, 11, 0.0),
		"alert_thresholds": []any{0.5},
	}, ask(""))
	mine := budget(`{"daily_limit_usd":-1,"scope":"user","scope_id":"owner of default","priority":200}`)
	spent(mine, allowancepb.Unit_DAY, 5)
	require.Equal(t, window(nil, 5e-9, nil), ask("scope=user")["per_day"], "a later one wins, limit by limit")
	require.Equal(t, window(nil, 5e-9, nil), ask("scope=token")["per_day"])
	require.Equal(t, window(10.0, 11, 0.0), ask("scope=user")["per_month"])
	require.Equal(t, window(2.0, 1.500000001, 0.499999999), ask("scope=tenant")["per_day"])
	require.Equal(t, false, ask("domain=embedding")["configured"])
	budget(`{"daily_limit_usd":7,"scope":"resource","scope_id":"scripted","domain":"global"}`)
	require.Equal(t, window(7.0, 0, 7.0), ask("domain=embedding&model=scripted")["per_day"])
	require.Equal(t, false, ask("domain=embedding&model=else")["configured"])
	k.refused(owner, "GET /budgets/status?domain=x", "", 400, "domain must be one of: global, llm, embedding, vector, file, tracing, stt, tts, ocr")
	k.refused(owner, "GET /budgets/status?scope=resource", "", 400, "scope must be one of: tenant, user, token")
}

// TestQuotaPolicies: made and changed by owners and admins; what is no limit is refused by name (document 3, section 4).
func TestQuotaPolicies(t *testing.T) {
	k := serveClient(t, func(_ *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		parts.Entities = endpointtest.Entities{}
		return map[string]endpoint.Surface{"/api": clientapi.New(clientapi.DefaultConfig(), *parts).Quotas()}
	})
	k.url = strings.TrimSuffix(k.url, "/client/v1")
	owner := k.mint("owner of default", "default", nil)
	k.put(identity.Users, "ann", &directorypb.User{Id: "ann", TenantId: "default", ProjectIds: []string{"default"}, Role: "user"})
	ann := k.mint("ann", "default", nil)
	const limits = `{"rateLimit":{"requests":{"perMinute":60}},"perRequest":{"maxInputTokens":8000},"quotas":{"maxAgents":-1},"budget":{"dailySpendLimit":2,"alertThresholds":[0.5]}}`
	status, got := k.ask(owner, "POST", "/quota/policies", `{"scope":"user","scopeId":"ann","label":"Guests","limits":`+limits+`}`)
	require.Equal(t, 201, status, got)
	made := inner(t, got, "policy")
	id, _ := made["_id"].(string)
	require.Equal(t, answer{
		"_id": id, "tenantId": "default", "projectId": "default", "scope": "user", "scopeId": "ann", "domain": "global", "label": "Guests", "description": nil,
		"priority": 100.0, "enabled": true, "createdBy": "owner of default", "updatedBy": "owner of default", "createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
		"limits": answer{
			"rateLimit": answer{"requests": answer{"perMinute": 60.0}}, "perRequest": answer{"maxInputTokens": 8000.0}, "quotas": answer{"maxAgents": -1.0},
			"budget": answer{"dailySpendLimit": 2.0, "alertThresholds": []any{0.5}},
		},
	}, made)
	_, got = k.ask(ann, "GET", "/quota/policies", "")
	require.Equal(t, []any{made}, got["policies"])
	k.refused(ann, "POST /quota/policies", `{"limits":{}}`, 403, "Quota policies are managed by owners and admins")
	k.refused(ann, "DELETE /quota/policies/"+id, "", 403, "Quota policies are managed by owners and admins")
	k.refused(owner, "POST /quota/policies", `{}`, 400, "limits is required")
	k.refused(owner, "POST /quota/policies", `{"limits":{"rateLimit":{"requests":{"perYear":1}}}}`, 400, "`rateLimit.requests.perYear` is not a limit")
	k.refused(owner, "POST /quota/policies", `{"limits":{"rateLimits":{"requests":{"perDay":1}}}}`, 400, "`rateLimits` is not a limit")
	k.refused(owner, "POST /quota/policies", `{"limits":{"budget":{"daily":5,"monthlySpendLimit":1}}}`, 400, "`budget.daily` is not a limit")
	k.refused(owner, "POST /quota/policies", `{"limits":{"budget":{"dailySpendLimit":"x"}}}`, 400, "limits.budget.dailySpendLimit must be a number")
	k.refused(owner, "PATCH /quota/policies/"+id, `{"limits":{"perRequest":{"maxInputTokens":-2}}}`, 400, "`perRequest.maxInputTokens` must be a non-negative number (or -1 for unlimited)")
	k.refused(owner, "PATCH /quota/policies/none", `{"enabled":false}`, 404, "Quota policy not found")
	status, got = k.ask(owner, "PATCH", "/quota/policies/"+id, `{"enabled":false,"priority":3,"limits":{"budget":{"monthlySpendLimit":1}}}`)
	require.Equal(t, 200, status, got)
	changed := inner(t, got, "policy")
	require.Equal(t, []any{false, 3.0, answer{"budget": answer{"monthlySpendLimit": 1.0}}, "Guests"}, []any{changed["enabled"], changed["priority"], changed["limits"], changed["label"]})
	status, got = k.ask(owner, "GET", "/quota/defaults", "")
	require.Equal(t, 200, status)
	require.Equal(t, -1.0, inner(t, inner(t, inner(t, got, "defaults"), "limits"), "budget")["dailySpendLimit"]) //nolint:testifylint // exactly
	status, _ = k.ask(owner, "DELETE", "/quota/policies/"+id, "")
	require.Equal(t, 200, status)
	k.refused(owner, "DELETE /quota/policies/"+id, "", 404, "Quota policy not found")
}
