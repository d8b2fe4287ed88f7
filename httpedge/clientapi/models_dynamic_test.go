package clientapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDynamicModelFromBeginningToEnd: a model that chooses among others is recorded, shown, changed within its rules, and keeps what it
// names from being deleted.
func TestDynamicModelFromBeginningToEnd(t *testing.T) {
	k := serveMakers(t)
	k.done("POST /models/providers", `{"key":"acme","driver":"scripted"}`, "")
	k.done("POST /models", `{"key":"small","name":"s","providerKey":"acme","category":"llm","modelId":"s","pricing":{},"settings":{}}`, "")
	k.done("POST /models", `{"key":"vectors","name":"v","providerKey":"acme","category":"embedding","modelId":"v","pricing":{},"settings":{}}`, "")
	const targets = `{"dynamic":{"strategy":"priority","targets":[{"modelKey":"small"}],"fallbackModelKey":"scripted"}}`
	model := k.done("POST /models/dynamic", `{"key":"any","name":"Any","settings":`+targets+`}`, "model")
	require.Equal(t, []any{"dynamic", "dynamic", "llm", "any"}, []any{model["providerKey"], model["providerDriver"], model["category"], model["key"]})
	require.Equal(t, "priority", inner(t, inner(t, model, "settings"), "dynamic")["strategy"])
	require.Equal(t, model, k.done("GET /models/any", "", "model"))
	require.Equal(t, []any{"any"}, keysOf(t, k.done("GET /models?providerDriver=dynamic", "", "")["models"], "key"))

	k.refused("POST /models/dynamic", `{"name":"n"}`, 400, "invalid_request", "settings.dynamic is required")
	for body, text := range map[string]string{
		`"settings":{}`: "settings.dynamic is required",
		`"settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"none"}]}}`:                                                                             `settings.dynamic.targets[0].modelKey: there is no model "none"`,
		`"settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"vectors"}]}}`:                                                                          `settings.dynamic.targets[0].modelKey: model "vectors" is of category embedding, not llm`,
		`"category":"tts","settings":` + targets:                                                                                                                     "category of a dynamic model must be llm, embedding",
		`"key":"self","settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"self"}]}}`:                                                                "dynamic models lead back to themselves: self, self",
		`"settings":{"dynamic":{"strategy":"model-based","defaultModelKey":"small","decider":{"modelKey":"any","labels":[{"label":"x","targetModelKey":"small"}]}}}`: `settings.dynamic.decider.modelKey: model "any" is dynamic and cannot decide`,
	} {
		k.refused("POST /models/dynamic", `{"name":"n",`+body+`}`, 400, "invalid_request", text)
	}
	k.refused("POST /models", `{"key":"x","name":"s","providerKey":"dynamic","category":"llm","modelId":"s","pricing":{},"settings":`+targets+`}`, 400, "invalid_request", "Provider not found: dynamic")
	k.refused("PATCH /models/any", `{"providerKey":"acme"}`, 400, "invalid_request", "providerKey of a dynamic model cannot be changed")
	k.refused("PATCH /models/any", `{"settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"any"}]}}}`, 400, "invalid_request", "dynamic models lead back to themselves: any, any")

	k.done("POST /models/dynamic", `{"key":"two","name":"n","settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"any"}]}}}`, "")
	k.done("POST /models/dynamic", `{"key":"three","name":"n","settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"two"}]}}}`, "")
	k.refused("POST /models/dynamic", `{"key":"four","name":"n","settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"three"}]}}}`, 400, "invalid_request",
		`dynamic models in dynamic model "four" are nested more than 3 deep`)
	k.done("POST /models/dynamic", `{"key":"leaf","name":"n","settings":`+targets+`}`, "")
	k.refused("PATCH /models/any", `{"settings":{"dynamic":{"strategy":"priority","targets":[{"modelKey":"leaf"}]}}}`, 400, "invalid_request",
		`dynamic models in dynamic model "three" are nested more than 3 deep`)

	k.refused("POST /agents", `{"name":"Routed","config":{"modelKey":"any"}}`, 400, "invalid_request",
		`config.modelKey: model "any" is dynamic: only requests for completions and embeddings are routed, agents name a model that is not`)
	k.refused("DELETE /models/two", "", 409, "conflict", "The model is used by dynamic model three")
	for _, key := range []string{"three", "two", "leaf", "any", "small"} {
		k.done("DELETE /models/"+key, "", "")
	}
}
