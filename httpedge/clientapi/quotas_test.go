package clientapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/catalog"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/directorypb"
	"parley/proto/tracepb"
)

// TestQuotasRefuse: of what a policy counts one more than it says is refused, however many ask at once; what is there stays, and what is
// deleted makes room.
func TestQuotasRefuse(t *testing.T) {
	k := serveClient(t, func(_ *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		parts.Entities, parts.IDs = endpointtest.Entities{}, new(endpointtest.IDs)
		api := clientapi.New(clientapi.DefaultConfig(), *parts)
		return map[string]endpoint.Surface{"/api": api.Quotas()}
	})
	signedIn := *k
	signedIn.url = strings.TrimSuffix(k.url, "/client/v1")
	owner := k.mint("owner of default", "default", nil)
	k.put("quota_policies", catalog.Key("other", "qp"), &directorypb.QuotaPolicy{
		Id: "qp", TenantId: "other", Scope: "tenant", Domain: "global", Enabled: true, Limits: []byte(`{"quotas":{"maxAgents":0,"maxModels":0,"maxUsers":0,"maxApiTokens":0}}`),
	})
	post := func(path, body string) (int, answer) { return k.ask(owner, "POST", path, body) }
	status, got := post("/models/providers", `{"key":"acme","driver":"scripted"}`)
	require.Equal(t, 201, status, got)
	for _, kind := range []struct{ quota, domain, path, body, refused, at, id string }{
		{"maxAgents", "global", "/agents", `{"name":"a","config":{"modelKey":"scripted"}}`, "agents limit reached (2/2)", "agent", "key"},
		{"maxModels", "embedding", "/models", `{"name":"m","providerKey":"acme","category":"embedding","modelId":"m","pricing":{},"settings":{}}`, "models limit reached (2/2)", "model", "key"},
		{"maxUsers", "global", "/users", `{"name":"u","role":"user"}`, "users limit reached (2/2)", "user", "id"},
		{"maxApiTokens", "file", "/users/owner%20of%20default/tokens", `{"label":"one more"}`, "apiTokens limit reached (2/2)", "", "id"},
	} {
		status, got = signedIn.ask(owner, "POST", "/quota/policies", fmt.Sprintf(`{"domain":%q,"limits":{"quotas":{%q:2}}}`, kind.domain, kind.quota))
		require.Equal(t, 201, status, got)
		var mu sync.Mutex
		var ids []string
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() {
				answered, made := post(kind.path, kind.body)
				mu.Lock()
				defer mu.Unlock()
				if answered == 429 {
					require.Equal(t, answer{"error": kind.refused, "code": "quota_reached"}, made)
					return
				}
				require.Equal(t, 201, answered, made)
				if kind.at != "" {
					made = inner(t, made, kind.at)
				}
				id, _ := made[kind.id].(string)
				ids = append(ids, id)
			})
		}
		calls.Wait()
		most := 2
		if strings.HasPrefix(kind.path, "/users") {
			most = 1 // the owner, and the owner's token
		}
		require.Len(t, ids, most, kind.quota)
		if kind.path == "/users" { // no route deletes one
			continue
		}
		status, got = k.ask(owner, "DELETE", kind.path+"/"+ids[0], "")
		require.Contains(t, []int{200, 204}, status, got)
		status, got = post(kind.path, kind.body)
		require.Equal(t, 201, status, got)
		status, got = post(kind.path, kind.body)
		require.Equal(t, 429, status, got)
	}
	status, got = post("/models", `{"name":"m","providerKey":"acme","category":"llm","modelId":"m","pricing":{},"settings":{}}`)
	require.Equal(t, 201, status, "of another domain: %v", got)
}

// TestQuotasOfTraces: how many events a session may have, and for how long it is kept, by the policies that fit reports.
func TestQuotasOfTraces(t *testing.T) {
	k := serveTraces(t)
	token := k.mint("owner of default", "default", nil)
	policy := func(id, domain, limits string) {
		k.put("quota_policies", catalog.Key("default", id), &directorypb.QuotaPolicy{
			Id: id, TenantId: "default", Scope: "tenant", Domain: domain, Enabled: true, Priority: 100, Limits: []byte(limits),
		})
	}
	report := func(id string, from, to int) (int, answer) {
		var events []string
		for i := from; i < to; i++ {
			events = append(events, fmt.Sprintf(`{"id":"%d"}`, i))
		}
		return k.ask(token, "POST", "/tracing/sessions", fmt.Sprintf(`{"sessionId":%q,"events":[%s]}`, id, strings.Join(events, ",")))
	}
	kept := func(id string) (session *tracepb.Session) {
		for _, head := range k.world.heads {
			if s, is := head.(*tracepb.Session); is && s.GetSessionId() == id {
				session = s
			}
		}
		return session
	}
	policy("qp_llm", "llm", `{"perRequest":{"maxEventsPerSession":0},"quotas":{"maxTracingRetentionDays":0}}`)
	status, got := report("s", 0, 5)
	require.Equal(t, 200, status, got)
	until := kept("s").GetExpiresAt()
	whole := until - k.world.now.UnixMilli()
	policy("qp_tracing", "tracing", `{"perRequest":{"maxEventsPerSession":3},"quotas":{"maxTracingRetentionDays":2}}`)
	status, got = report("s", 0, 5)
	require.Equal(t, 200, status, "what is there stays, and is known: %v", got)
	for id, from := range map[string]int{"s": 5, "new": 0} {
		status, got = report(id, from, from+4)
		require.Equal(t, []any{429, answer{"error": "A session has at most 3 events", "code": "quota_reached"}}, []any{status, got}, id)
	}
	require.Nil(t, kept("new"), "as a whole")
	status, got = report("new", 0, 3)
	require.Equal(t, 200, status, got)
	require.Equal(t, int64(2*24*3_600_000), kept("new").GetExpiresAt()-k.world.now.UnixMilli())
	require.Equal(t, until, kept("s").GetExpiresAt(), "it was promised for longer")
	policy("qp_short", "tracing", `{"perRequest":{"maxSessionDurationMs":1000}}`)
	for _, c := range []struct{ id, events, refused string }{
		{"short", `{"id":"a","timestamp":1700000001000}`, ""},
		{"short", `{"id":"b","timestamp":1700000000500},{"id":"c","timestamp":1700000001001}`, "Events of a session are at most 1000 ms after its start"},
		{"short", `{"id":"a","timestamp":1700000001000},{"id":"b","timestamp":1700000000500}`, ""},
		{"late", `{"id":"c","timestamp":1700000001001}`, "Events of a session are at most 1000 ms after its start"},
	} {
		status, got = k.ask(token, "POST", "/tracing/sessions", fmt.Sprintf(`{"sessionId":%q,"startedAt":1700000000000,"events":[%s]}`, c.id, c.events))
		if c.refused == "" {
			require.Equal(t, 200, status, got)
			continue
		}
		require.Equal(t, []any{429, answer{"error": c.refused, "code": "quota_reached"}}, []any{status, got})
	}
	require.Equal(t, int64(2), kept("short").GetEvents())
	require.Nil(t, kept("late"))
	status, got = k.ask(token, "POST", "/tracing/sessions", `{"sessionId":"short","startedAt":1700000005000,"events":[{"id":"d","timestamp":1700000005000}]}`)
	require.Equal(t, 429, status, "it started when it was said to have first: %v", got)
	policy("qp_unlimited", "tracing", `{"perRequest":{"maxEventsPerSession":-1,"maxSessionDurationMs":-1},"quotas":{"maxTracingRetentionDays":99999999999999}}`)
	status, got = report("new", 0, 10)
	require.Equal(t, 200, status, got)
	require.Equal(t, whole, kept("new").GetExpiresAt()-k.world.now.UnixMilli())
}
