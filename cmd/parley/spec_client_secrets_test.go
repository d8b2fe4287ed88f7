package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notInFiles looks for secrets in every file of a data directory.
func notInFiles(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	for path, content := range filesOf(t, dir) {
		for _, secret := range secrets {
			require.Falsef(t, bytes.Contains(content, []byte(secret)), "%s is in %s", secret, path)
		}
	}
}

// filesOf is what the files of a data directory hold. A node that runs may remove one between the listing and the reading.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files[path], err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		return err
	}))
	require.NotEmpty(t, files)
	return files
}

// TestClientSecrets drives every route with secrets that cannot be mistaken, and looks for them wherever they must not be: in
// answers, the log, metrics, the status and the files of the node.
func TestClientSecrets(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a process")
	}
	greeting := &processLog{}
	p := newProcess(t, houseConfig)
	p.greets = greeting
	p.start()
	h := apiCaller{p, houseToken}
	operated := operate(t, p, "POST", "/tokens", object1{"label": "of the operator"}).text("token")
	n := newTenant(t, p, "ON_PREMISE")
	secrets := map[string]string{
		"API token of the configuration": houseToken, "API token of the operator": operated, "API token of a tenant": n.token,
	}
	secret := func(what string) string {
		text := "Zq" + strings.ReplaceAll(what, " ", "-") + "-7f3a9c"
		secrets[what] = text
		return text
	}
	var answers []answer
	ask := func(b apiCaller, method, path string, body any, headers ...string) tree {
		t.Helper()
		a := b.ask(t, method, path, body, headers...)
		if shown, ok := tokenOf(a); ok { // its one answer
			secrets["API token over the API"] = shown
			a.text = strings.Replace(a.text, shown, "", 1)
		}
		answers = append(answers, a)
		if len(a.text) == 0 || a.text[0] != '{' || a.header.Get("Content-Type") == "application/x-ndjson" {
			return tree{t, nil}
		}
		return decode(t, a.text)
	}
	n.scripted(t)
	echo := newModel(t, n.apiCaller, "llm", hello)
	secrets["provider key"] = echo.secret
	refusing := newModel(t, n.apiCaller, "llm", says(401, `{"error":{"message":"Incorrect API key provided: KEY"}}`))
	atProvider().mu.Lock()
	atProvider().mu.models[refusing.id] = says(401, `{"error":{"message":"Incorrect API key provided: `+refusing.secret+`"}}`)
	atProvider().mu.models["connected"] = says(400, `{"error":{"message":"you sent `+secret("key of a connection")+`"}}`)
	atProvider().mu.Unlock()
	secrets["another provider key"] = refusing.secret
	ask(n.apiCaller, "PATCH", "/models/providers/p-"+echo.key, object1{
		"settings": object1{"baseUrl": atProvider().server.URL + "/v1", "headers": object1{"X-Provider": secret("provider header")}},
	})
	connection := object1{
		"protocol": "openai-chat", "url": atProvider().server.URL + "/v1", "model": "connected", "apiKey": secrets["key of a connection"],
		"headers": object1{"X-Static": secret("header of a connection")}, "runtimeHeaders": object1{"allow": true},
	}
	connected := ask(n.apiCaller, "POST", "/agents", object1{"name": "Connected", "config": object1{"kind": "external", "connection": connection}}).text("agent", "key")
	native := ask(n.apiCaller, "POST", "/agents", object1{"name": "Native", "config": object1{
		"modelKey": echo.key,
		"tools": []any{object1{
			"name": "look", "url": atProvider().server.URL + "/tools/look", "headers": object1{"Authorization": secret("header of a tool")}, "runtimeHeaders": object1{"allow": true},
		}},
	}, "metadata": object1{"background": object1{"enabled": true}, "files": object1{"enabled": true}}}).text("agent", "key")
	context := func(what string) object1 {
		return object1{
			"headers":     object1{"X-Caller": secret(what + " header"), "Authorization": secret(what + " authorization")},
			"connections": object1{"agent:" + connected: object1{"headers": object1{"X-Target": secret(what + " target")}}},
		}
	}
	for _, key := range []string{connected, native} {
		ask(n.apiCaller, "POST", "/agents/"+key+"/publish", nil)
		session := ask(n.apiCaller, "POST", "/agents/sessions", object1{"agent": key, "runtime_context": context("session of " + key)}).text("id")
		ask(n.apiCaller, "PATCH", "/agents/sessions/"+session, object1{"budget": nil, "runtime_context": context("changed session of " + key)})
		ask(n.apiCaller, "POST", "/agents/responses", object1{"model": key, "input": "hi", "session_id": session, "runtime_context": context("turn of " + key)},
			"X-Service-Hdr-X-Header", secret("header form of "+key), "Idempotency-Key", "once-"+key)
		for _, path := range []string{"", "/events", "/messages", "/files"} {
			ask(n.apiCaller, "GET", "/agents/sessions/"+session+path, nil)
		}
	}
	sent := (&upstream{p: atProvider(), id: "connected"}).asked()
	last := sent[len(sent)-1].header
	require.Equal(t, []string{
		secrets["turn of "+connected+" header"], secrets["turn of "+connected+" target"], secrets["header form of "+connected], secrets["header of a connection"],
	}, []string{last.Get("X-Caller"), last.Get("X-Target"), last.Get("X-Header"), last.Get("X-Static")}, "they reach whom they are for")
	callback := httptest.NewServer(says(500, `{}`))
	defer callback.Close()
	run := ask(n.apiCaller, "POST", "/agents/responses", object1{
		"model": native, "input": "hi", "background": true, "runtime_context": context("run"),
		"callback_url": callback.URL + "/hook?token=" + secret("query of a callback"), "callback_secret": secret("callback secret"),
	}).text("id")
	ask(n.apiCaller, "GET", "/agents/runs/"+run+"/wait?timeout_ms=20000", nil)
	ask(n.apiCaller, "POST", "/chat/completions", chatBody(echo.key, "hi"))
	ask(n.apiCaller, "POST", "/chat/completions", chatBody(refusing.key, "hi"))
	ask(n.apiCaller, "GET", "/models?includeProviders=true", nil)
	user := ask(n.apiCaller, "POST", "/users", object1{"name": "Robot", "role": "user"}).text("user", "id")
	ask(n.apiCaller, "POST", "/users/"+user+"/tokens", object1{"label": "shown once"})
	ask(n.with(secrets["API token over the API"]), "GET", "/agents", nil)
	ask(n.with(secret("token that is none")), "GET", "/agents", nil)
	ask(h, "GET", "/users", nil)
	ask(h.with(operated), "GET", "/agents", nil)
	// And every route there is, on what there is.
	owned := everything(t, n)
	for _, route := range clientRoutes(t) {
		endless := route.Handler == "streamSessionEvents" || route.Path == "/live"
		if route.Method != "DELETE" && !endless {
			ask(n.apiCaller, route.Method, owned.path(route.Path), owned.body(&route), "Content-Type", "text/plain")
		}
	}
	require.Greater(t, len(secrets), 30)

	look := func(where, text string) {
		t.Helper()
		for what, value := range secrets {
			require.NotContainsf(t, text, value, "%s is in %s", what, where)
		}
	}
	for _, a := range answers {
		look(a.what, a.text)
		for name, values := range a.header {
			look(a.what+" "+name, strings.Join(values, " "))
		}
	}
	for _, path := range []string{"/metrics", "/v1/status", "/v1/tenants", "/v1/projects", "/v1/users", "/v1/tokens"} {
		_, text := p.try("GET", "http://"+p.ops+path, nil)
		require.NotEmpty(t, text)
		look(path, string(text))
	}
	require.NoError(t, p.terminate())
	look("the log", p.log.String())
	look("standard output", greeting.String())
	delete(secrets, "query of a callback") // is where a run posts to, and stored with it
	values := slices.Collect(maps.Values(secrets))
	notInFiles(t, p.dir, values...)
	t.Run("tokens_are_stored_as_their_hash", func(t *testing.T) {
		hash, found := sha256.Sum256([]byte(n.token)), false
		for _, content := range filesOf(t, p.dir) {
			found = found || bytes.Contains(content, hash[:]) || bytes.Contains(content, []byte(hex.EncodeToString(hash[:])))
		}
		require.True(t, found)
	})
	t.Run("and_all_works_after_a_restart", func(t *testing.T) {
		p.start()
		for _, budget := range n.done(t, "GET", "/budgets", nil).at("data").list() { // of nothing at all
			n.done(t, "DELETE", "/budgets/"+budget.text("id"), nil)
		}
		_, response := n.reply(t, "/agents/responses", object1{"model": native, "input": "hi"})
		require.NotEmpty(t, response.text("id"))
		asked := echo.asked()
		last = asked[len(asked)-1].header
		require.Equal(t, []string{"Bearer " + echo.secret, secrets["provider header"]}, []string{last.Get("Authorization"), last.Get("X-Provider")})
	})
}

// tokenOf is the API token that an answer shows.
func tokenOf(a answer) (string, bool) {
	var shown struct {
		Token string `json:"token"`
	}
	return shown.Token, json.Unmarshal([]byte(a.text), &shown) == nil && shown.Token != ""
}
