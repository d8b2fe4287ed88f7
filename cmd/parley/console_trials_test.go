package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// triers are the owner of a company with a model, somebody who may only read there, and the owner of another company.
func triers(t *testing.T) (owner, reader, other *visitor) {
	t.Helper()
	p := shared.of(t, accountsConfig)
	owner, _, slug := company(t, p)
	furnish(t, owner)
	id, invited := owner.invite(t, "ina@"+slug+".test", "user")
	reader = accept(t, p, invited)
	owner.done(t, "PATCH", "/users/"+id+"/permissions", object1{"servicePermissions": object1{"models": "read", "agents": "read"}})
	other, _, _ = company(t, p)
	return owner, reader, other
}

// TestConsoleTriesModels: a person calls a model by the executor that serves everybody, and is told what it came to.
func TestConsoleTriesModels(t *testing.T) {
	t.Parallel()
	owner, ina, other := triers(t)

	var asked atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"Incorrect API key: %s","code":"invalid_api_key"}}`, request.Header.Get("Authorization"))
	}))
	defer provider.Close()
	const key = "sk-verysecret-0123456789"
	model := func(name, baseURL string, settings object1) {
		a := owner.call(t, "POST", consoleAPI+"/models/providers", object1{
			"key": name, "driver": "openai", "settings": object1{"baseUrl": baseURL}, "credentials": object1{"apiKey": key},
		})
		require.Equal(t, 201, a.status, a.text)
		a = owner.call(t, "POST", consoleAPI+"/models", object1{
			"name": name, "key": name, "providerKey": name, "category": "llm", "modelId": "m", "settings": settings, "pricing": object1{},
		})
		require.Equal(t, 201, a.status, a.text)
	}
	model("locked", provider.URL+"/v1", object1{})
	model("elsewhere", "http://169.254.169.254/v1", object1{})

	try := func(b *visitor, id string) answer {
		return b.call(t, "POST", consoleAPI+"/models/"+id+"/test", object1{})
	}
	a := try(owner, "scripted")
	require.Equal(t, 200, a.status, a.text)
	done := decode(t, a.text)
	require.True(t, done.flag("ok"), a.text)
	require.NotEmpty(t, done.text("text"))
	require.Positive(t, done.number("input_tokens"))
	require.Positive(t, done.number("output_tokens"))
	require.Nil(t, done.at("error").v)
	require.Positive(t, done.number("cost_usd"))

	for category, pricing := range map[string]object1{"tts": {"inputCharacterPer1M": 1000}, "stt": {"inputSecondPer1K": 1}} {
		id := "scripted-" + category
		owner.done(t, "POST", consoleAPI+"/models", object1{
			"key": id, "name": id, "providerKey": "scripted", "category": category, "modelId": id, "pricing": pricing, "settings": object1{},
		})
	}
	const sentence = "Bir ses, duyulmak için."
	sound := func(id string, body object1) answer {
		return owner.call(t, "POST", consoleAPI+"/models/"+id+"/test", body)
	}
	a = sound("scripted-tts", object1{"input": sentence, "voice": "alloy", "response_format": "wav"})
	require.Equal(t, "audio/wav", decode(t, a.text).text("audio", "content_type"), a.text)
	a = sound("scripted-stt", object1{"audio": object1{"data": decode(t, a.text).text("audio", "data"), "fileName": "a\"\r\nb.wav"}})
	require.Equal(t, sentence, decode(t, a.text).text("text"), a.text)
	require.Positive(t, decode(t, a.text).number("cost_usd"), "of what it lasts")
	sound("scripted-tts", object1{"input": strings.Repeat("ş", 501)}).coded(400, "invalid_request")
	sound("scripted-stt", object1{"audio": object1{"data": "?"}}).coded(400, "invalid_request")
	sound("scripted-stt", object1{"audio": object1{"data": strings.Repeat("A", 3<<20)}}).coded(413, "body_too_large")
	require.False(t, decode(t, sound("scripted-stt", object1{"audio": object1{"data": "AAAA"}}).text).flag("ok"), "no speech is heard in it")
	spoken, heard := try(owner, "scripted-tts"), try(owner, "scripted-stt")
	require.Equal(t, []any{200, 200}, []any{spoken.status, heard.status}, spoken.text+heard.text)
	require.Contains(t, decode(t, spoken.text).text("text"), "bytes of audio/wav")
	require.InDelta(t, 0.002, decode(t, spoken.text).number("cost_usd"), 0, "two characters")
	require.Equal(t, "ok", decode(t, heard.text).text("text"))

	refused := try(owner, "locked")
	require.Equal(t, 200, refused.status, refused.text)
	require.Equal(t, "invalid_api_key", decode(t, refused.text).text("error", "code"))
	require.NotContains(t, refused.text, key)
	require.NotContains(t, refused.text, "verysecret")
	require.EqualValues(t, 1, asked.Load(), "what is refused is not tried again")
	require.Equal(t, "invalid_request", decode(t, try(owner, "elsewhere").text).text("error", "code"))

	missing := try(owner, "none")
	require.Equal(t, []any{404, "model_not_found"}, []any{missing.status, decode(t, missing.text).text("code")})
	require.Equal(t, 404, try(other, "locked").status, "another company's")
	changed := ina.call(t, "PATCH", consoleAPI+"/models/locked", object1{"name": "locked"})
	require.Equal(t, changed.status, try(ina, "locked").status, "who may not change it may not call it")
	require.Equal(t, 403, changed.status, changed.text)
	require.EqualValues(t, 1, asked.Load())

	a = owner.call(t, "PATCH", consoleAPI+"/models/providers/locked", object1{"status": "disabled"})
	require.Equal(t, 200, a.status, a.text)
	require.Equal(t, "model_not_usable", decode(t, try(owner, "locked").text).text("error", "code"))
	require.EqualValues(t, 1, asked.Load())
}

// TestConsoleTriesTools: a person calls a tool of a draft with arguments of their own, as a turn would.
func TestConsoleTriesTools(t *testing.T) {
	t.Parallel()
	owner, ina, other := triers(t)

	var asked atomic.Int64
	var idempotency atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		idempotency.Store(request.Header.Get("Idempotency-Key"))
		_, _ = fmt.Fprintf(w, "order %s, %s", request.URL.Query().Get("order"), request.Header.Get("X-Key"))
	}))
	defer service.Close()
	const secret = "tool-secret-9876"
	schema := object1{"type": "object", "properties": object1{"order": object1{"type": "integer"}}, "required": []any{"order"}}
	web := func(name, url, approval string) object1 {
		return object1{"name": name, "url": url, "method": "GET", "inputSchema": schema, "approval": approval, "headers": object1{"X-Key": secret}}
	}
	a := owner.call(t, "POST", consoleAPI+"/agents", object1{"name": "Clerk", "config": object1{"modelKey": "scripted", "tools": []any{
		web("lookup", service.URL, "never"), web("refund", service.URL, "always"), web("inside", "http://169.254.169.254/latest", "never"),
		object1{"name": "browser", "client": true},
		object1{"name": "clock", "builtin": "current_time"},
	}}})
	require.Equal(t, 201, a.status, a.text)
	at := consoleAPI + "/agents/" + decode(t, a.text).text("agent", "key")
	listed := owner.call(t, "GET", at+"/tools", nil)
	require.Equal(t, 200, listed.status, listed.text)
	require.Equal(t, []string{"browser", "clock", "inside", "lookup", "refund"}, texts(decode(t, listed.text).at("tools").list(), "name"))
	draft := owner.call(t, "GET", at+"/draft", nil)
	require.Equal(t, 200, draft.status, draft.text)
	for _, text := range []string{listed.text, draft.text} {
		require.NotContains(t, text, secret)
	}

	try := func(b *visitor, body object1) answer { return b.call(t, "POST", at+"/tools/test", body) }
	outcome := func(body object1) tree {
		a := try(owner, body)
		require.Equal(t, 200, a.status, a.text)
		require.NotContains(t, a.text, secret, "not even of a service that repeats what it is sent")
		return decode(t, a.text)
	}
	done := outcome(object1{"tool": "lookup", "args": object1{"order": 7}})
	require.Equal(t, "ok", done.text("outcome"))
	require.Contains(t, done.text("result"), "order 7")
	require.Regexp(t, "^test_", idempotency.Load())
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, "ok", outcome(object1{"tool": "clock"}).text("outcome"))

	for _, args := range []any{object1{"order": "seven"}, object1{}, []any{}, "text"} {
		require.Equal(t, "invalid_arguments", outcome(object1{"tool": "lookup", "args": args}).text("outcome"), args)
	}
	require.Equal(t, "needs_approval", outcome(object1{"tool": "refund", "args": object1{"order": 7}}).text("outcome"))
	require.EqualValues(t, 1, asked.Load(), "nothing of this was called")
	require.Equal(t, "ok", outcome(object1{"tool": "refund", "args": object1{"order": 7}, "approved": true}).text("outcome"))
	require.EqualValues(t, 2, asked.Load())
	inside := outcome(object1{"tool": "inside", "args": object1{"order": 7}})
	require.Equal(t, []string{"error", "the tool's address is not allowed"}, []string{inside.text("outcome"), inside.text("error")})

	try(owner, object1{"tool": "browser"}).coded(400, "invalid_request")
	try(owner, object1{"tool": "none"}).coded(404, "not_found")
	require.Equal(t, 404, try(owner, object1{}).status)
	require.Equal(t, 413, try(owner, object1{"tool": "lookup", "args": object1{"x": strings.Repeat("x", 200<<10)}}).status)
	require.Equal(t, "invalid_arguments", outcome(object1{"tool": "lookup", "args": object1{"order": 1, "x": strings.Repeat("x", 70<<10)}}).text("outcome"))
	for _, path := range []string{"/tools", "/draft"} {
		require.Equal(t, 404, other.call(t, "GET", at+path, nil).status, "another company's")
	}
	require.Equal(t, 404, try(other, object1{"tool": "lookup", "args": object1{"order": 7}}).status)
	changed := ina.call(t, "PATCH", at, object1{"name": "Clerk"})
	require.Equal(t, 403, changed.status, changed.text)
	require.Equal(t, 403, try(ina, object1{"tool": "lookup", "args": object1{"order": 7}}).status)
	require.Equal(t, 403, ina.call(t, "GET", at+"/tools", nil).status)
	require.EqualValues(t, 2, asked.Load())

	rows := auditTrail(t, func(path string) tree { return owner.done(t, "GET", consoleAPI+path, nil) }, "outcome=success&method=POST")
	require.Contains(t, texts(rows, "event"), "POST /api/console/v1/agents/{agentKey}/tools/test")
	require.Equal(t, 404, owner.call(t, "GET", consoleAPI+"/a2a/"+strings.TrimPrefix(at, consoleAPI+"/agents/")+"/.well-known/agent-card.json", nil).status, "it is not exposed")
}

// TestConsoleTrialsAreFew: calls that hang take their places, and no more; who finds none is told at once.
func TestConsoleTrialsAreFew(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, _ := company(t, p)
	furnish(t, owner)
	var asked atomic.Int64
	open := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-open
		_, _ = w.Write([]byte("at last"))
	}))
	defer service.Close()
	release := sync.OnceFunc(func() { close(open) })
	defer release()
	a := owner.call(t, "POST", consoleAPI+"/agents", object1{"name": "Slow", "config": object1{
		"modelKey": "scripted", "tools": []any{object1{"name": "wait", "url": service.URL}},
	}})
	require.Equal(t, 201, a.status, a.text)
	at := consoleAPI + "/agents/" + decode(t, a.text).text("agent", "key") + "/tools/test"
	const places = 32
	answers := make(chan answer, places)
	var all sync.WaitGroup
	for range places {
		all.Go(func() { answers <- owner.call(t, "POST", at, object1{"tool": "wait"}) })
	}
	require.Eventually(t, func() bool { return asked.Load() == places }, waitLong, waitStep)
	owner.call(t, "POST", at, object1{"tool": "wait"}).coded(429, "rate_limited")
	owner.call(t, "POST", consoleAPI+"/models/scripted/test", object1{}).coded(429, "rate_limited")
	release()
	all.Wait()
	close(answers)
	for a := range answers {
		require.Equal(t, "ok", decode(t, a.text).text("outcome"), a.text)
	}
	require.EqualValues(t, places, asked.Load())
	require.Equal(t, 200, owner.call(t, "POST", at, object1{"tool": "wait"}).status, "the places are free again")
}
