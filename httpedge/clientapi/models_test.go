package clientapi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/proto/directorypb"
)

func TestModelFromBeginningToEnd(t *testing.T) {
	k := serveMakers(t)
	k.done("POST /models/providers", `{"key":"acme","driver":"openai","settings":{"baseUrl":"https://acme.test/v1"}}`, "")
	model := k.done("POST /models", `{"name":"Big One","providerKey":"acme","category":"llm","modelId":"big-1","isMultimodal":true,
		"pricing":{"inputTokenPer1M":1,"outputTokenPer1M":2},"settings":{"contextTokens":9000,"maxOutputTokens":100},"metadata":{"team":"blue"}}`, "model")
	require.Regexp(t, "^big-one-[a-z0-9]{6}$", model["key"])
	require.Equal(t, []any{"openai", true, true}, []any{model["providerDriver"], model["isMultimodal"], model["supportsToolCalls"]})
	key, id := fmt.Sprint(model["key"]), fmt.Sprint(model["_id"])
	require.Equal(t, model, k.done("GET /models/"+id, "", "model"))
	require.Equal(t, model, k.done("GET /models/"+key, "", "model"))
	read := k.done("GET /models/"+key, "", "")
	require.Equal(t, []any{key, "model", "openai"}, []any{read["id"], read["object"], read["owned_by"]}, "as OpenAI clients know it")
	require.Positive(t, read["created"])

	changed := k.done("PUT /models/"+id, `{"pricing":{"inputTokenPer1M":5},"supportsToolCalls":false,"key":"stolen"}`, "model")
	require.Equal(t, []any{key, "Big One", answer{"inputTokenPer1M": 5.0}, model["settings"], false},
		[]any{changed["key"], changed["name"], changed["pricing"], changed["settings"], changed["supportsToolCalls"]})
	require.Equal(t, "Bigger", k.done("PATCH /models/"+key, `{"name":"Bigger"}`, "model")["name"])

	require.Nil(t, model["cache"])
	whole := answer{"enabled": true, "ttlSeconds": 3600.0, "maxCacheSize": 1000.0}
	require.Equal(t, whole, k.done("PATCH /models/"+key, `{"cache":{"enabled":true}}`, "model")["cache"])
	require.Equal(t, whole, k.done("PATCH /models/"+key, `{"name":"Bigger"}`, "model")["cache"], "what is not said stays")
	k.refused("PATCH /models/"+key, `{"category":"embedding"}`, 400, "invalid_request", "cache: answers are kept of models of category llm that are not dynamic; a dynamic model gives those that are kept of the models it chooses from")
	require.Equal(t, answer{"enabled": false, "ttlSeconds": 60.0, "maxCacheSize": 7.0},
		k.done("PUT /models/"+key, `{"cache":{"enabled":false,"ttlSeconds":60,"maxCacheSize":7},"semanticCache":{"enabled":true}}`, "model")["cache"])
	require.Nil(t, k.done("PATCH /models/"+key, `{"cache":null}`, "model")["cache"])
	k.done("POST /models", `{"key":"keeping","name":"K","providerKey":"acme","category":"llm","modelId":"k","pricing":{},"settings":{},"cache":{"enabled":true,"ttlSeconds":5}}`, "")
	require.Equal(t, answer{"enabled": true, "ttlSeconds": 5.0, "maxCacheSize": 1000.0}, k.done("GET /models/keeping", "", "model")["cache"])
	k.done("DELETE /models/keeping", "", "")

	k.done("POST /models", `{"key":"vectors","name":"Vectors","providerKey":"acme","category":"embedding","modelId":"v","pricing":{},"settings":{}}`, "")
	list := k.done("GET /models?includeProviders=true", "", "")
	require.Equal(t, []any{key, "scripted", "scripted-stt", "scripted-tts", "vectors"}, keysOf(t, list["models"], "key"))
	require.Equal(t, []any{key, "scripted"}, keysOf(t, list["data"], "id"), "as OpenAI clients know them: llm only")
	require.Equal(t, []any{"acme", "scripted"}, keysOf(t, list["providers"], "key"))
	entries, ok := list["data"].([]any)
	require.True(t, ok)
	entry, ok := entries[0].(answer)
	require.True(t, ok)
	require.Equal(t, []any{"model", "openai", 9000.0, 100.0}, []any{entry["object"], entry["owned_by"], entry["context_length"], entry["max_output_tokens"]})
	require.Equal(t, []any{"text", "image"}, inner(t, entry, "architecture")["input_modalities"])
	for query, want := range map[string][]any{
		"?category=embedding": {"vectors"}, "?providerKey=scripted": {"scripted", "scripted-stt", "scripted-tts"}, "?providerDriver=openai": {key, "vectors"}, "?category=none": {},
	} {
		got := k.done("GET /models"+query, "", "")
		require.Equal(t, want, keysOf(t, got["models"], "key"), query)
		require.Nil(t, got["providers"])
	}

	k.refused("DELETE /models/providers/acme", "", 409, "conflict", "The provider is used by model "+key)
	require.Equal(t, answer{"success": true}, k.done("DELETE /models/"+key, "", ""))
	k.refused("DELETE /models/"+key, "", 404, "model_not_found", "Model not found")
	k.done("DELETE /models/vectors", "", "")
	require.Equal(t, answer{"success": true}, k.done("DELETE /models/providers/acme", "", ""))
	k.refused("DELETE /models/providers/acme", "", 404, "not_found", "Provider not found")
}

func TestModelsAreRefused(t *testing.T) {
	k := serveMakers(t)
	k.done("POST /models/providers", `{"key":"acme","driver":"openai"}`, "")
	whole := map[string]string{
		"name": `"n"`, "providerKey": `"acme"`, "category": `"llm"`, "modelId": `"m"`, "pricing": `{}`, "settings": `{}`, "key": `"k"`,
	}
	with := func(field, value string) string {
		text := ""
		for name, stored := range whole {
			if name == field {
				stored = value
			}
			if stored != "" {
				text += fmt.Sprintf(",%q:%s", name, stored)
			}
		}
		return "{" + text[1:] + "}"
	}
	for _, field := range []string{"name", "providerKey", "category", "modelId", "pricing", "settings"} {
		k.refused("POST /models", with(field, ""), 400, "invalid_request", field+" is required")
	}
	for _, c := range []struct{ field, value, text string }{
		{"providerKey", `"none"`, "Provider not found: none"},
		{"category", `"robot"`, "category must be one of: llm, embedding, rerank, stt, tts, ocr, moderation"},
		{"key", `"a/b"`, "key must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit"},
		{"key", `"providers"`, "key must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit"},
		{"pricing", `{"inputTokenPer1M":-1}`, "pricing: a rate is a number between 0 and 1000000"},
		{"settings", `{"apiKey":"k"}`, "settings.apiKey: a credential cannot be kept here"},
		{"settings", `{"temprature":0.2}`, `settings has no field "temprature"`},
		{"pricing", `{"inputTokenPer1m":1}`, `pricing has no field "inputTokenPer1m"`},
		{"settings", `{"script":{"a":1}}`, "settings.script is no script: see the documentation of scripted models"},
	} {
		k.refused("POST /models", with(c.field, c.value), 400, "invalid_request", c.text)
	}
	k.done("POST /models", with("", ""), "")
	k.refused("POST /models", with("", ""), 409, "conflict", "A model with this key already exists")
	k.refused("PATCH /models/k", `{"providerKey":"none"}`, 400, "invalid_request", "Provider not found: none")
	for cache, text := range map[string]string{
		`{"ttlSeconds":5}`:                       "cache.enabled is required",
		`{"enabled":true,"ttlSeconds":0}`:        "cache.ttlSeconds must be between 1 and 2592000",
		`{"enabled":true,"maxCacheSize":100001}`: "cache.maxCacheSize must be between 1 and 100000",
	} {
		k.refused("PATCH /models/k", `{"cache":`+cache+`}`, 400, "invalid_request", text)
	}
	k.refused("PATCH /models/k", `{"name":null}`, 400, "invalid_request", "name must be a string")
	k.refused("PATCH /models/k", `{"supportsToolCalls":null}`, 400, "invalid_request", "supportsToolCalls must be true or false")
	k.refused("PATCH /models/k", `{"name":""}`, 400, "invalid_request", "name must be 1 to 200 characters")
	for body, text := range map[string]string{
		`{}`:                                     "driver is required",
		`{"driver":"carrier"}`:                   "driver must be one of: openai, openai-compatible, azure, openai-responses, anthropic, scripted",
		`{"driver":"openai","key":"a b"}`:        "key must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit",
		`{"driver":"openai","status":"errored"}`: "status must be one of: active, disabled",
		`{"driver":"openai","settings":{"baseUrl":"file:///x"}}`:        "settings.baseUrl must be an http or https URL without a user name",
		`{"driver":"openai","settings":{"headers":{"X-A":"********"}}}`: "settings.headers.X-A: there is no stored value to keep",
	} {
		k.refused("POST /models/providers", body, 400, "invalid_request", text)
	}
	k.refused("POST /models/providers", `{"key":"acme","driver":"openai"}`, 409, "conflict", "A provider with this key already exists")
}

// TestPlanLimit: a tenant of the smallest plan has five models, in whatever project.
func TestPlanLimit(t *testing.T) {
	k := serveMakers(t)
	status, _ := k.ask("small", "POST /models/providers", `{"key":"acme","driver":"scripted"}`)
	require.Equal(t, 201, status)
	const limit = 5
	for n := range limit + 1 {
		status, body := k.ask("small", "POST /models", fmt.Sprintf(`{"key":"m%d","name":"n","providerKey":"acme","category":"llm","modelId":"m","pricing":{},"settings":{}}`, n))
		if n < limit {
			require.Equal(t, 201, status)
			continue
		}
		require.Equal(t, 429, status)
		require.Equal(t, answer{"error": "models limit reached (5/5)", "code": "quota_reached"}, body)
	}
}

func TestProviderKeepsItsSecrets(t *testing.T) {
	k := serveMakers(t)
	k.secrets = []string{"key-one-secret", "header-one-secret", "key-two-secret"}
	provider := k.done("POST /models/providers", `{"key":"acme","driver":"anthropic","label":"Acme",
		"settings":{"headers":{"X-A":"header-one-secret"},"organization":"eu"},"credentials":{"apiKey":"key-one-secret"}}`, "provider")
	require.Equal(t, answer{"apiKey": "********"}, provider["credentials"])
	require.Equal(t, answer{"headers": answer{"X-A": "********"}, "organization": "eu"}, provider["settings"])
	opened := func() definition.Secrets {
		t.Helper()
		stored, _ := k.records.Get(catalog.Providers, "default/acme")
		for _, secret := range k.secrets {
			require.NotContains(t, string(stored.Value), secret)
		}
		record := new(directorypb.Provider)
		require.NoError(t, proto.Unmarshal(stored.Value, record))
		sealed, err := definition.ParseSealed(record.GetSealed())
		require.NoError(t, err)
		secrets, err := sealed.Open(definition.ProviderRecordKey("default", "acme"), k.sealer.Open)
		require.NoError(t, err)
		return secrets
	}
	both := definition.Secrets{"credentials.apiKey": "key-one-secret", "settings.headers.X-A": "header-one-secret"}
	require.Equal(t, both, opened())
	k.refused("PATCH /models/providers/acme", `{"label":null}`, 400, "invalid_request", "label must be a string")
	k.done("PATCH /models/providers/acme", `{"label":"Other","status":"disabled"}`, "")
	require.Equal(t, both, opened())
	k.done("PATCH /models/providers/acme", `{"settings":{"headers":{"X-A":"********"}},"credentials":{"apiKey":"********"}}`, "")
	require.Equal(t, both, opened())
	k.done("PATCH /models/providers/acme", `{"settings":{},"credentials":{"token":"key-two-secret"}}`, "")
	require.Equal(t, definition.Secrets{"credentials.apiKey": "key-one-secret", "credentials.token": "key-two-secret"}, opened())
	provider = k.done("PATCH /models/providers/acme", `{"credentials":{"apiKey":null}}`, "provider")
	require.Equal(t, answer{"token": "********"}, provider["credentials"])
	require.Equal(t, definition.Secrets{"credentials.token": "key-two-secret"}, opened())
	k.refused("PATCH /models/providers/acme", `{"credentials":{"apiKey":"********"}}`, 400, "invalid_request", "credentials.apiKey: there is no stored value to keep")

	// What was given for one host is not sent to another.
	moved := `"settings":{"baseUrl":"https://elsewhere.test/v1"}`
	k.refused("PATCH /models/providers/acme", `{`+moved+`}`, 400, "invalid_request",
		"settings.baseUrl names another host: give the credentials and headers again, the stored ones are not sent there")
	k.refused("PATCH /models/providers/acme", `{`+moved+`,"credentials":{"token":"********"}}`, 400, "invalid_request",
		"credentials.token: there is no stored value to keep")
	require.Equal(t, definition.Secrets{"credentials.token": "key-two-secret"}, opened())
	k.done("PATCH /models/providers/acme", `{`+moved+`,"credentials":{"apiKey":"key-one-secret"}}`, "")
	require.Equal(t, definition.Secrets{"credentials.apiKey": "key-one-secret"}, opened())
	k.done("PATCH /models/providers/acme", `{"settings":{"baseUrl":"https://elsewhere.test/v2"}}`, "")
	require.Equal(t, definition.Secrets{"credentials.apiKey": "key-one-secret"}, opened(), "another path of the same host")
}

// TestBuiltinModelIsThere until another has its key, in the first project only.
func TestBuiltinModelIsThere(t *testing.T) {
	k := serveMakers(t)
	require.Equal(t, "scripted", k.done("GET /models/scripted", "", "model")["providerDriver"])
	k.refused("PATCH /models/scripted", `{"name":"Mine"}`, 403, "forbidden", "The built-in model cannot be changed: create one with its key in its place")
	k.refused("DELETE /models/mdl_builtin_scripted", "", 403, "forbidden", "The built-in model cannot be changed: create one with its key in its place")
	k.refused("DELETE /models/providers/scripted", "", 403, "forbidden", "The built-in provider cannot be changed: create one with its key in its place")
	status, _ := k.ask("elsewhere", "GET /models/scripted", "")
	require.Equal(t, 404, status)

	k.done("POST /models", `{"key":"scripted","name":"Mine","providerKey":"scripted","category":"llm","modelId":"s","pricing":{},"settings":{"script":{"text":"Hello"}}}`, "")
	require.Equal(t, "Mine", k.done("GET /models/scripted", "", "model")["name"])
	list := k.done("GET /models", "", "")
	require.Equal(t, []any{"scripted", "scripted-stt", "scripted-tts"}, keysOf(t, list["models"], "key"))
}
