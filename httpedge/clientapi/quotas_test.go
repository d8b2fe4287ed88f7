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
