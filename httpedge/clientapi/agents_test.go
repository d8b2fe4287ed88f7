package clientapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

func (k *makers) agentNamed(name, config string) string {
	k.t.Helper()
	key, ok := k.done("POST /agents", fmt.Sprintf(`{"name":%q,"config":%s}`, name, config), "agent")["key"].(string)
	require.True(k.t, ok)
	return key
}

func TestAgentFromBeginningToEnd(t *testing.T) {
	k := serveMakers(t)
	agent := k.done("POST /agents", `{"name":" Ärger & Söhne: Help Desk ","description":"Helps","config":{"modelKey":"gpt","temperature":0.5,"systemPrompt":"Be kind.","x":1},
		"metadata":{"background":{"enabled":true},"a2a":{"enabled":true,"endpointSlug":"mine"}}}`, "agent")
	key, ok := agent["key"].(string)
	require.True(t, ok)
	require.Regexp(t, "^rger-s-hne-help-desk-[a-z0-9]{6}$", key)
	require.Equal(t, "Ärger & Söhne: Help Desk", agent["name"])
	require.Equal(t, "active", agent["status"])
	require.Nil(t, agent["publishedVersion"])
	require.Equal(t, answer{"modelKey": "gpt", "temperature": 0.5, "systemPrompt": "Be kind.", "x": 1.0}, agent["config"])
	require.Equal(t, "ann", agent["createdBy"])
	require.Regexp(t, "^[0-9a-f]{16}$", inner(t, inner(t, agent, "metadata"), "a2a")["endpointSlug"])

	summary := k.done("GET /agents/"+key, "", "agent")
	require.Equal(t, answer{"modelKey": "gpt", "temperature": 0.5}, summary["config"], "the resolved model, and no prompt")

	version := k.done("POST /agents/"+key+"/publish", "", "version")
	require.InDelta(t, 1, version["version"], 0)
	require.Equal(t, "Be kind.", inner(t, inner(t, version, "snapshot"), "config")["systemPrompt"])
	changed := k.done("PATCH /agents/"+key, `{"name":"Desk","description":null,"status":"inactive","config":{"modelKey":"other"},"key":"stolen","publishedVersion":9,"projectId":"elsewhere"}`, "agent")
	require.Equal(t, []any{"Desk", nil, "inactive", key, 1.0, "default"},
		[]any{changed["name"], changed["description"], changed["status"], changed["key"], changed["publishedVersion"], changed["projectId"]})
	require.Equal(t, answer{"modelKey": "other"}, changed["config"], "replaced whole")
	require.Equal(t, "Desk A", k.done("PATCH /agents/"+key, "{\"name\":\"\u202EDesk\u2028A\u2066\"}", "agent")["name"])
	k.refused("PATCH /agents/"+key, "{\"name\":\"\u202E\u200B\"}", 400, "invalid_request", "Agent name is required")
	k.refused("PATCH /agents/"+key, `{"name":null}`, 400, "invalid_request", "name must be a string")
	k.refused("PATCH /agents/"+key, `{"status":null}`, 400, "invalid_request", "status must be a string")
	k.refused("PATCH /agents/"+key, `{"config":null}`, 400, "invalid_request", "Agent config is required")
	require.Equal(t, agent["metadata"], changed["metadata"], "not named, not changed")

	version = k.done("POST /agents/"+key+"/publish", `{"changelog":"second"}`, "version")
	require.InDelta(t, 2, version["version"], 0)
	list := k.done("GET /agents/"+key+"/versions?limit=1", "", "")
	require.Equal(t, []any{2.0}, keysOf(t, list["versions"], "version"))
	require.Equal(t, []any{2.0, 2.0, answer{"limit": 1.0, "offset": 0.0, "hasMore": true}}, []any{list["total"], list["publishedVersion"], list["pagination"]})
	first := k.done("GET /agents/"+key+"/versions/1", "", "version")
	require.Equal(t, "Ärger & Söhne: Help Desk", inner(t, first, "snapshot")["name"], "a version never changes")
	k.refused("GET /agents/"+key+"/versions/3", "", 404, "agent_version_not_found", "Agent version not found")
	k.refused("GET /agents/"+key+"/versions/x", "", 404, "agent_version_not_found", "Agent version not found")

	require.Equal(t, answer{"success": true}, k.done("DELETE /agents/"+key, "", ""))
	k.refused("DELETE /agents/"+key, "", 404, "agent_not_found", "Agent not found")
	require.Empty(t, k.records.List(catalog.Agents, ""))
	require.Empty(t, k.records.List(catalog.AgentVersions, ""))
}

func TestAgentsAreListed(t *testing.T) {
	k := serveMakers(t)
	first := k.agentNamed("First", `{"modelKey":"m"}`)
	second := k.agentNamed("Second", `{"modelKey":"m"}`)
	age := func(key string, at int64) {
		record, _ := k.records.Get(catalog.Agents, catalog.Key("default", key))
		agent := new(directorypb.Agent)
		require.NoError(t, proto.Unmarshal(record.Value, agent))
		agent.CreatedAt = at
		value, err := proto.Marshal(agent)
		require.NoError(t, err)
		_, err = k.records.Put(t.Context(), catalog.Agents, record.Key, record.Version, value)
		require.NoError(t, err)
	}
	age(first, 1000)
	age(second, 2000)
	k.done("PATCH /agents/"+first, `{"status":"draft"}`, "")
	cases := map[string][]any{
		"":                   {second, first, "assistant"}, // newest first, the configuration's behind them
		"?status=active":     {second, "assistant"},
		"?status=draft":      {first},
		"?status=inactive":   {},
		"?status=wrong":      {},
		"?limit=1":           {second},
		"?limit=1&offset=1":  {first},
		"?offset=7":          {},
		"?limit=-1&offset=x": {second, first, "assistant"},
	}
	for query, want := range cases {
		list := k.done("GET /agents"+query, "", "")
		require.Equal(t, want, keysOf(t, list["agents"], "key"), query)
		require.Equal(t, query == "?limit=1" || query == "?limit=1&offset=1", inner(t, list, "pagination")["hasMore"], query)
	}
}

// TestConfiguredAgent can be read and not written.
func TestConfiguredAgent(t *testing.T) {
	k := serveMakers(t)
	const text = "The agent is defined in the server's configuration"
	agent := k.done("GET /agents/assistant", "", "agent")
	require.Equal(t, answer{"modelKey": "scripted", "maxTokens": 7.0}, agent["config"])
	require.Nil(t, agent["createdAt"])
	k.refused("PATCH /agents/assistant", `{"name":"x"}`, 403, "forbidden", text)
	k.refused("DELETE /agents/assistant", "", 403, "forbidden", text)
	k.refused("POST /agents/assistant/publish", "", 403, "forbidden", text)
	require.Empty(t, k.done("GET /agents/assistant/versions", "", "")["versions"])
	k.refused("GET /agents/assistant/versions/1", "", 404, "agent_version_not_found", "Agent version not found")
}

// TestConnectedAgentKeepsItsSecrets: they are sealed about the agent, show nowhere, and stay until they are replaced.
func TestConnectedAgentKeepsItsSecrets(t *testing.T) {
	k := serveMakers(t)
	k.secrets = []string{"key-one-secret", "header-one-secret", "key-two-secret", "planted-ciphertext"}
	key := k.agentNamed("Far", `{"kind":"external","modelKey":"m","connection":{"protocol":"a2a","url":"https://far.test",
		"apiKey":"key-one-secret","apiKeyEnc":"planted-ciphertext","headers":{"X-Tenant":"header-one-secret"}}}`)
	record := catalog.Key("default", key)
	opened := func() definition.Secrets {
		t.Helper()
		stored, ok := k.records.Get(catalog.Agents, record)
		require.True(t, ok)
		for _, secret := range k.secrets {
			require.NotContains(t, string(stored.Value), secret)
		}
		agent := new(directorypb.Agent)
		require.NoError(t, proto.Unmarshal(stored.Value, agent))
		sealed, err := definition.ParseSealed(agent.GetDraft().GetSealed())
		require.NoError(t, err)
		secrets, err := sealed.Open(record, k.sealer.Open)
		require.NoError(t, err)
		return secrets
	}
	both := definition.Secrets{"connection.apiKey": "key-one-secret", "connection.headers.X-Tenant": "header-one-secret"}
	require.Equal(t, both, opened())
	require.Equal(t, answer{}, k.done("GET /agents/"+key, "", "agent")["config"], "a connected agent has no model here")

	// A native config does not overwrite it; the other fields apply.
	agent := k.done("PATCH /agents/"+key, `{"name":"Farther","config":{"modelKey":"gpt"}}`, "agent")
	require.Equal(t, "Farther", agent["name"])
	connection := inner(t, inner(t, agent, "config"), "connection")
	require.Equal(t, answer{"protocol": "a2a", "url": "https://far.test", "headers": answer{"X-Tenant": "********"}, "hasApiKey": true}, connection)
	require.Equal(t, both, opened())

	// An omitted key stays; a mask keeps a header. Both do while they go to the host that they were given for.
	k.done("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"https://far.test/2","headers":{"X-Tenant":"********"}}}}`, "")
	require.Equal(t, both, opened())
	for _, moved := range []string{"https://b.test", "http://far.test", "https://far.test:8443"} {
		k.refused("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"`+moved+`"}}}`, 400, "invalid_request",
			"connection.apiKey: the stored value was given for another host and is not sent to this one: give it again")
		k.refused("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"`+moved+`","apiKey":"key-two-secret","headers":{"X-Tenant":"********"}}}}`,
			400, "invalid_request", "connection.headers.X-Tenant: the stored value was given for another host and is not sent to this one: give it again")
	}
	require.Equal(t, both, opened())
	version := k.done("POST /agents/"+key+"/publish", "", "version")
	require.Equal(t, true, inner(t, inner(t, inner(t, version, "snapshot"), "config"), "connection")["hasApiKey"])

	k.done("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"https://b.test","apiKey":"key-two-secret"}}}`, "")
	require.Equal(t, definition.Secrets{"connection.apiKey": "key-two-secret"}, opened())
	k.refused("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"https://b.test","headers":{"X-Tenant":"********"}}}}`,
		400, "invalid_request", "connection.headers.X-Tenant: there is no stored value to keep")
	agent = k.done("PATCH /agents/"+key, `{"config":{"kind":"external","connection":{"protocol":"a2a","url":"https://b.test","apiKey":null}}}`, "agent")
	require.Equal(t, false, inner(t, inner(t, agent, "config"), "connection")["hasApiKey"])
	require.Empty(t, opened())
	version = k.done("GET /agents/"+key+"/versions/1", "", "version")
	require.Equal(t, true, inner(t, inner(t, inner(t, version, "snapshot"), "config"), "connection")["hasApiKey"], "what was published stays")

	k.sealer.Locked = true
	k.refused("POST /agents", `{"name":"n","config":{"kind":"external","connection":{"protocol":"a2a","url":"https://b.test","apiKey":"k"}}}`,
		503, "secrets_unavailable", "nothing to encrypt secrets with is configured: set PROVIDER_ENCRYPTION_SECRET, alike on all nodes")
	k.agentNamed("Without", `{"kind":"external","connection":{"protocol":"a2a","url":"https://b.test"}}`)
}

func TestAgentsAreRefused(t *testing.T) {
	k := serveMakers(t)
	key := k.agentNamed("Desk", `{"modelKey":"m"}`)
	long := strings.Repeat("x", 201)
	for _, c := range []struct{ request, body, code, text string }{
		{"POST /agents", ``, "invalid_request", "Agent name is required"},
		{"POST /agents", `{"name":"  ","config":{"modelKey":"m"}}`, "invalid_request", "Agent name is required"},
		{"POST /agents", `{"name":"n"}`, "invalid_request", "Agent config is required"},
		{"POST /agents", `{"name":"n","config":null}`, "invalid_request", "Agent config is required"},
		{"POST /agents", `{"name":"n","config":{}}`, "invalid_request", "Model configuration is required"},
		{"POST /agents", `{"name":"n","config":{"kind":"external"}}`, "invalid_request", "Connection settings are required for a connected agent"},
		{"POST /agents", `{"name":"n","config":{"kind":"external","connection":{"protocol":"x"}}}`, "invalid_request", "Unsupported connected agent protocol: x"},
		{"POST /agents", `{"name":"n","config":{"modelKey":"m","tools":[{"name":"broken","client":true}]}}`, "invalid_request", `config: tool "broken": it does not work`},
		{"POST /agents", `{"name":"n","config":{"modelKey":"m"},"status":"busy"}`, "invalid_request", "status must be one of: active, inactive, draft"},
		{"POST /agents", `{"name":"n","config":{"modelKey":"m"},"metadata":{"session_budget":{"max_cost_usd":-1}}}`, "invalid_budget", "metadata.session_budget.max_cost_usd must be a number above 0"},
		{"POST /agents", `{"name":"` + long + `","config":{"modelKey":"m"}}`, "invalid_request", "name must be at most 200 characters"},
		{"POST /agents", `{"name":7}`, "invalid_request", "name must be a string"},
		{"PATCH /agents/" + key, `{"name":""}`, "invalid_request", "Agent name is required"},
		{"PATCH /agents/" + key, `{"status":""}`, "invalid_request", "status must be one of: active, inactive, draft"},
		{"PATCH /agents/" + key, `{"description":7}`, "invalid_request", "description must be a string"},
		{"PATCH /agents/" + key, `{"metadata":[]}`, "invalid_request", "metadata must be an object"},
		{"PATCH /agents/" + key, `{"metadata":7}`, "invalid_request", "metadata must be an object"},
		{"PATCH /agents/" + key, `{"config":{}}`, "invalid_request", "Model configuration is required"},
		{"PATCH /agents/" + key, `{"description":"` + strings.Repeat(long, 10) + `"}`, "invalid_request", "description must be at most 2000 characters"},
		{"POST /agents/" + key + "/publish", `{"changelog":"` + strings.Repeat(long, 21) + `"}`, "invalid_request", "changelog is longer than 4096 bytes"},
	} {
		k.refused(c.request, c.body, 400, c.code, c.text)
	}
	k.refused("POST /agents", `{"name":"n","config":{"modelKey":"m","x":"`+strings.Repeat("x", 256<<10)+`"}}`, 413, "body_too_large", "config is larger than 262144 bytes")
}

// TestOtherProjectsAreNotThere: every route of agents and models answers 404 about what is another project's.
func TestOtherProjectsAreNotThere(t *testing.T) {
	k := serveMakers(t)
	key := k.agentNamed("Desk", `{"modelKey":"m"}`)
	k.done("POST /agents/"+key+"/publish", "", "")
	k.done("POST /models/providers", `{"key":"acme","driver":"openai"}`, "")
	model := k.done("POST /models", `{"key":"big","name":"Big","providerKey":"acme","category":"llm","modelId":"b","pricing":{},"settings":{}}`, "model")
	for _, request := range []string{
		"GET /agents/" + key, "PATCH /agents/" + key, "DELETE /agents/" + key, "POST /agents/" + key + "/publish",
		"GET /agents/" + key + "/versions", "GET /agents/" + key + "/versions/1", "GET /agents/..%2Fdefault%2F" + key,
		"GET /models/big", "PUT /models/big", "PATCH /models/big", "DELETE /models/big", fmt.Sprintf("GET /models/%s", model["_id"]),
		"PATCH /models/providers/acme", "DELETE /models/providers/acme",
	} {
		status, body := k.ask("elsewhere", request, "{}")
		require.Equal(t, 404, status, "%s: %v", request, body)
	}
	for _, list := range []string{"GET /agents", "GET /models", "GET /models/providers"} {
		_, body := k.ask("elsewhere", list, "")
		require.NotContains(t, fmt.Sprint(body), key)
		require.NotContains(t, fmt.Sprint(body), "acme")
	}
}

// TestProjectsAreBounded: what a project records has an end, since every node holds it in memory; nobody else's does.
func TestProjectsAreBounded(t *testing.T) {
	k := serveMakers(t)
	config := func(size int) string { return `{"modelKey":"m","systemPrompt":"` + strings.Repeat("x", size) + `"}` }
	key := k.agentNamed("Desk", config(10<<10))
	large, err := proto.Marshal(&directorypb.Agent{Key: "z", Metadata: make([]byte, 64<<20-20<<10)})
	require.NoError(t, err)
	_, err = k.records.Put(t.Context(), catalog.Agents, catalog.Key("default", "z"), 0, large)
	require.NoError(t, err)
	const text = "The project's agents are larger than 67108864 bytes in all"
	k.refused("POST /agents", `{"name":"n","config":`+config(20<<10)+`}`, 429, "quota_reached", text)
	k.refused("PATCH /agents/"+key, `{"config":`+config(40<<10)+`}`, 429, "quota_reached", text)
	k.done("PATCH /agents/"+key, `{"config":`+config(1<<10)+`}`, "agent")
	k.done("POST /agents/"+key+"/publish", "", "version")
	status, body := k.ask("elsewhere", "POST /agents", `{"name":"n","config":`+config(40<<10)+`}`)
	require.Equal(t, 201, status, "%v", body)
}

// TestWritesMeet: one that meets another's is done over on top of it, and given up after some tries.
func TestWritesMeet(t *testing.T) {
	k := serveMakers(t)
	key := k.agentNamed("Desk", `{"modelKey":"m"}`)
	record := catalog.Key("default", key)
	meet := 0
	k.records.OnPut = func(name, _ string) error {
		if name != catalog.Agents || meet == 0 {
			return nil
		}
		meet--
		return failure.Verbatim(failurepb.Code_CONFLICT, "somebody else")
	}
	meet = 4
	require.Equal(t, "New", k.done("PATCH /agents/"+key, `{"name":"New"}`, "agent")["name"])
	meet = 5
	k.refused("PATCH /agents/"+key, `{"name":"Newer"}`, 409, "conflict", "somebody else")
	meet = 1
	require.Equal(t, answer{"success": true}, k.done("DELETE /agents/"+key, "", ""))
	_, ok := k.records.Get(catalog.Agents, record)
	require.False(t, ok)
}

// TestPublishingTogether: every version has a number of its own, and the highest runs.
func TestPublishingTogether(t *testing.T) {
	k := serveMakers(t)
	key := k.agentNamed("Desk", `{"modelKey":"m"}`)
	const publishers = 16
	numbers := make(chan float64, publishers)
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			status, body := k.ask("default", "POST /agents/"+key+"/publish", "")
			version, _ := body["version"].(map[string]any)
			number, is := version["version"].(float64)
			if status != 201 || !is {
				t.Errorf("%d %v", status, body)
			}
			numbers <- number
		})
	}
	wg.Wait()
	close(numbers)
	told := map[float64]bool{}
	for number := range numbers {
		told[number] = true
	}
	require.Len(t, told, publishers, "each is told a number of its own")
	versions := k.records.List(catalog.AgentVersions, "")
	require.Len(t, versions, publishers)
	agent := k.done("GET /agents/"+key, "", "agent")
	require.Equal(t, []any{float64(publishers), float64(publishers)}, []any{agent["latestVersion"], agent["publishedVersion"]})

	next := k.done("POST /agents/"+key+"/publish", "", "version")
	require.InDelta(t, publishers+1, next["version"], 0)
}
