package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientTracesNode runs OpenTelemetry's exporters for JavaScript; their cases are in testdata/openai/traces.mjs.
func TestClientTracesNode(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	runNode(t, "traces.mjs", n.apiCaller, nil, []string{"json", "json_gzip", "protobuf", "refused"})
}

// TestClientTracesOfCluster: what is reported through one node of three, and what runs on one, is the same thread at all of them; and a
// dynamic model that is made at one chooses at all of them, and one that keeps its answers does at all.
func TestClientTracesOfCluster(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(file, []byte(houseConfig+"provider_encryption_secret: the same on every node\n"), 0o600))
	c := newCluster(t, 3, false, "--config", file)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	h := apiCaller{as(t, c.Nodes()[0]), houseToken}
	require.Eventually(t, func() bool { return h.ask(t, "GET", "/agents", nil).status == http.StatusOK }, 30*time.Second, 20*time.Millisecond)
	n := newTenant(t, h.p, "ON_PREMISE")
	n.scripted(t)
	var at []apiCaller
	for _, node := range c.Nodes() {
		at = append(at, n.at(as(t, node)))
	}
	on := func(i int) apiCaller { return at[i%len(at)] }
	require.Eventually(t, func() bool { return on(1).ask(t, "GET", "/tracing/threads", nil).status == http.StatusOK }, 30*time.Second, 20*time.Millisecond)

	session := n.newAssistant(t)
	const turns = 2
	for i := range turns {
		on(i).done(t, "POST", "/responses", object1{"model": "assistant", "input": fmt.Sprint("message ", i), "session_id": session})
	}
	report := object1{"sessionId": "theirs", "threadId": session, "agent": object1{"name": "elsewhere"}}
	on(0).done(t, "POST", "/tracing/sessions", report)
	stream := "/tracing/sessions/stream/theirs/"
	for i := range 2 * len(at) { // each event twice, through two nodes
		event := object1{"id": fmt.Sprint("e", i/2), "type": "llm_call", "inputTokens": 10, "outputTokens": 1}
		on(i).done(t, "POST", stream+"events", object1{"event": event})
	}
	on(2).done(t, "POST", stream+"end", object1{})

	n.done(t, "POST", "/models", object1{
		"key": "broken", "name": "Broken", "providerKey": "scripted", "category": "llm", "modelId": "scripted", "pricing": object1{},
		"settings": object1{"maxRetries": 0, "script": object1{"steps": []any{object1{"errorCode": "server_error", "errorMessage": "it broke"}}}},
	})
	n.done(t, "POST", "/models/dynamic", object1{"key": "any", "name": "Any", "settings": object1{"dynamic": object1{
		"strategy": "priority", "targets": []any{object1{"modelKey": "broken"}, object1{"modelKey": "scripted"}},
	}}})
	for i, b := range at {
		thread := b.done(t, "GET", "/tracing/threads/"+session, nil)
		require.Len(t, thread.at("sessions").list(), turns+1, "node %d", i)
		listed := b.done(t, "GET", "/tracing/threads", nil)
		require.True(t, slices.Contains(texts(listed.at("threads").list(), "threadId"), session), "node %d", i)
		theirs := slices.IndexFunc(thread.at("sessions").list(), func(s tree) bool { return s.text("sessionId") == "theirs" })
		require.GreaterOrEqual(t, theirs, 0)
		require.Equal(t, "30", fmt.Sprint(thread.at("sessions").list()[theirs].at("summary", "totalInputTokens").v), "an event counts once")
		require.Equal(t, []string{"e0", "e1", "e2"}, texts(b.done(t, "GET", "/tracing/sessions/theirs", nil).at("events").list(), "id"), "node %d", i)
		require.Eventually(t, func() bool { return b.ask(t, "GET", "/models/any", nil).status == http.StatusOK }, 30*time.Second, 20*time.Millisecond)
		chosen := b.done(t, "POST", "/chat/completions", object1{"model": "any", "messages": []object1{{"role": "user", "content": "hi"}}})
		require.Equal(t, "scripted", chosen.text("model"), "node %d", i)
	}
	keptOfCluster(t, n, at)
}

// keptOfCluster: each node keeps the answers that it gave, all by the model's record, and their hits are one sum.
func keptOfCluster(t *testing.T, n *tenant, at []apiCaller) {
	t.Helper()
	model := scriptedModel("keeping")
	model["cache"] = object1{"enabled": true, "ttlSeconds": 600}
	n.done(t, "POST", "/models", model)
	once := func(b apiCaller) string {
		asked := b.ask(t, "POST", "/chat/completions", object1{"model": "keeping", "messages": []object1{{"role": "user", "content": "hi"}}})
		require.Equal(t, http.StatusOK, asked.status, asked.text)
		return asked.header.Get("X-Service-Cache")
	}
	for i, b := range at {
		require.Eventually(t, func() bool { return b.ask(t, "GET", "/models/keeping", nil).status == http.StatusOK }, 30*time.Second, 20*time.Millisecond)
		require.Equal(t, []string{"", "hit"}, []string{once(b), once(b)}, "node %d", i)
	}
	require.Eventually(t, func() bool {
		return fmt.Sprint(at[1].done(t, "GET", "/analytics/usage", nil).at("totals", "cache_hits").v) == fmt.Sprint(len(at))
	}, 30*time.Second, 50*time.Millisecond)
	at[2].done(t, "PATCH", "/models/keeping", object1{"cache": object1{"enabled": false}})
	for _, b := range at {
		require.Eventually(t, func() bool { return once(b) == "" }, 30*time.Second, 20*time.Millisecond)
	}
}
