package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientRouting: a dynamic model chooses by rules, and another one answers where the chosen one fails, whole and streamed (document 3,
// 10.6). Each is booked for itself.
func TestClientRouting(t *testing.T) {
	t.Parallel()
	p := house(t).p
	n := newTenant(t, p, "ON_PREMISE")
	n.scripted(t)
	broken, long := scriptedModel("broken"), scriptedModel("long")
	broken["settings"] = object1{"maxRetries": 0, "script": object1{"steps": []any{object1{"errorCode": "server_error", "errorMessage": "it broke"}}}}
	long["settings"] = object1{"script": object1{"text": "a long story"}}
	n.done(t, "POST", "/models", broken)
	n.done(t, "POST", "/models", long)
	made := n.done(t, "POST", "/models/dynamic", object1{"key": "any", "name": "Any", "settings": object1{"dynamic": object1{
		"strategy": "rule-based", "defaultModelKey": "broken", "fallbackModelKey": "scripted",
		"rules": []any{object1{"label": "stories", "targetModelKey": "long", "conditions": []any{
			object1{"signal": "keyword", "operator": "contains", "value": "story"},
		}}},
	}}})
	require.Equal(t, "dynamic", made.text("model", "providerDriver"))
	ask := func(text string, stream bool) object1 {
		return object1{"model": "any", "stream": stream, "messages": []object1{{"role": "user", "content": text}}}
	}
	require.Equal(t, "a long story", n.done(t, "POST", "/chat/completions", ask("Tell me a Story", false)).at("choices").list()[0].text("message", "content"))
	require.Equal(t, "scripted", n.done(t, "POST", "/chat/completions", ask("hi", false)).text("model"))
	streamed := n.ask(t, "POST", "/chat/completions", ask("hi", true))
	require.Equal(t, 200, streamed.status, streamed.text)
	require.Contains(t, streamed.text, `"model":"scripted"`)
	require.Contains(t, streamed.text, "data: [DONE]")
	require.Equal(t, 409, n.ask(t, "DELETE", "/models/long", nil).status)
	n.done(t, "DELETE", "/models/any", nil)
	n.done(t, "DELETE", "/models/long", nil)
}
