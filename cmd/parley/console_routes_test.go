package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/node"
)

const consoleAPI = "/console/v1"

// furnish gives the active project of a company a model and an agent, by the cookie, and returns the agent's key.
func furnish(t *testing.T, owner *visitor, headers ...string) (agent string) {
	t.Helper()
	for _, made := range []struct {
		path string
		body object1
	}{
		{"/models/providers", object1{"key": "scripted", "driver": "scripted"}},
		{"/models", scriptedModel("scripted")},
	} {
		a := owner.call(t, "POST", consoleAPI+made.path, made.body, headers...)
		require.Equal(t, 201, a.status, a.text)
	}
	a := owner.call(t, "POST", consoleAPI+"/agents", object1{
		"name": "Teller", "config": object1{"modelKey": "scripted"}, "metadata": object1{"background": object1{"enabled": true}},
	}, headers...)
	require.Equal(t, 201, a.status, a.text)
	return decode(t, a.text).text("agent", "key")
}

// turnOf has somebody's agent answer once, and returns the session.
func turnOf(t *testing.T, b *visitor, agent string, headers ...string) (session string) {
	t.Helper()
	a := b.call(t, "POST", consoleAPI+"/agents/responses", object1{"model": agent, "input": "hi"}, headers...)
	require.Equal(t, 200, a.status, a.text)
	return decode(t, a.text).text("session_id")
}

// sessionIDs are those that somebody sees in the list.
func sessionIDs(t *testing.T, b *visitor, query string, headers ...string) []string {
	t.Helper()
	a := b.call(t, "GET", consoleAPI+"/agents/sessions"+query, nil, headers...)
	require.Equal(t, 200, a.status, a.text)
	return texts(decode(t, a.text).at("data").list(), "id")
}

// TestConsoleRoutes: signed-in users have the Client API, with its answers, in the project that the cookie or the request names.
func TestConsoleRoutes(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, slug := company(t, p)
	agent := furnish(t, owner)
	session := turnOf(t, owner, agent)
	id, invited := owner.invite(t, "ina@"+slug+".test", "user")
	ina := accept(t, p, invited)
	other, _, _ := company(t, p)

	t.Run("the_same_answers", func(t *testing.T) {
		who := owner.done(t, "GET", "/auth/session", nil).text("userId")
		api := apiCaller{p, operate(t, p, "POST", "/tokens", object1{"userId": who, "label": "console"}).text("token")}
		for _, path := range []string{
			"/agents", "/agents/" + agent, "/agents/sessions/" + session, "/agents/sessions/" + session + "/events", "/agents/sessions/" + session + "/messages",
			"/models", "/models/providers", "/users", "/members", "/projects", "/webhooks/events", "/agents/sessions/none", "/agents/none", "/models/none",
		} {
			byToken, byCookie := api.ask(t, "GET", path, nil), owner.call(t, "GET", consoleAPI+path, nil)
			require.Equal(t, byToken.status, byCookie.status, path)
			require.Equal(t, decode(t, byToken.text).v, decode(t, byCookie.text).v, path)
		}
	})
	t.Run("who_sees_what", func(t *testing.T) {
		own := turnOf(t, ina, agent)
		require.Equal(t, []string{own}, sessionIDs(t, ina, ""), "a user has their own sessions")
		require.ElementsMatch(t, []string{own, session}, sessionIDs(t, owner, ""), "an owner has the project's")
		require.Equal(t, 404, ina.call(t, "GET", consoleAPI+"/agents/sessions/"+session, nil).status)
		require.Equal(t, 404, other.call(t, "GET", consoleAPI+"/agents/sessions/"+session, nil).status)
		require.Equal(t, 404, other.call(t, "GET", consoleAPI+"/agents/"+agent, nil).status)
		require.Equal(t, 403, ina.call(t, "GET", consoleAPI+"/audit/logs", nil).status)
		require.Equal(t, 401, newVisitor(t, p).call(t, "GET", consoleAPI+"/agents", nil).status)
		refused := ina.call(t, "POST", consoleAPI+"/users", object1{"name": "x", "role": "user"})
		require.Equal(t, 403, refused.status, refused.text)
		require.Regexp(t, "^dec_", decode(t, refused.text).text("decisionId"))
	})
	t.Run("what_one_may", func(t *testing.T) {
		require.Equal(t, []string{"owner", "admin"}, []string{owner.done(t, "GET", consoleAPI+"/permissions", nil).text("role"), owner.done(t, "GET", consoleAPI+"/permissions", nil).text("levels", "members")})
		owner.done(t, "PATCH", consoleAPI+"/members/"+id+"/permissions", object1{"servicePermissions": object1{"models": "none", "guardrails": "read"}})
		may := ina.done(t, "GET", consoleAPI+"/permissions", nil)
		require.Equal(t, []string{"user", "none", "none", "read", "write"}, []string{may.text("role"), may.text("levels", "members"), may.text("levels", "models"), may.text("levels", "guardrails"), may.text("levels", "agents")})
		require.Equal(t, 404, owner.call(t, "GET", consoleAPI+"/guardrails/none/uses", nil).status)
		owner.done(t, "POST", consoleAPI+"/guardrails", object1{"key": "named", "name": "Named", "rules": object1{"pii": object1{}}})
		made := owner.done(t, "POST", consoleAPI+"/agents", object1{"name": "Railed", "config": object1{"modelKey": "scripted", "inputGuardrailKey": "named"}}).text("agent", "key")
		uses := ina.done(t, "GET", consoleAPI+"/guardrails/named/uses", nil)
		require.Nil(t, uses.at("models").v, "they may not read models")
		require.Equal(t, map[string]any{"count": json.Number("1"), "first": []any{map[string]any{"key": made, "name": "Railed", "input": true, "output": false}}}, uses.at("agents").v)
		owner.done(t, "PATCH", consoleAPI+"/members/"+id+"/permissions", object1{"servicePermissions": object1{}})
	})
	t.Run("projects", func(t *testing.T) { consoleOfProjects(t, owner, ina, other, id, session) })
	t.Run("pages_of_other_sites", func(t *testing.T) {
		for _, mounted := range node.Surfaces() {
			if mounted.Surface.Name != "console" {
				continue
			}
			for i := range mounted.Surface.Routes {
				route := &mounted.Surface.Routes[i]
				if route.Method == http.MethodGet {
					continue
				}
				path := strings.TrimPrefix(mounted.Prefix, "/api") + strings.NewReplacer("{id}", session, "{key}", agent).Replace(route.Path)
				require.Equal(t, 403, owner.call(t, route.Method, path, "{}", "Origin", "https://evil.test").status, path)
				require.Equal(t, 403, owner.call(t, route.Method, path, "{}", "Sec-Fetch-Site", "cross-site").status, path)
			}
		}
		require.Contains(t, sessionIDs(t, owner, ""), session, "nothing was touched")
	})
	t.Run("the_trail_names_who_did_it", func(t *testing.T) {
		rows := auditTrail(t, func(path string) tree { return owner.done(t, "GET", consoleAPI+path, nil) }, "outcome=success&method=POST")
		at := map[string]tree{}
		for _, row := range rows {
			at[row.text("event")] = row
		}
		row, there := at["POST /api/console/v1/agents"]
		require.True(t, there, "%v", rows)
		require.Equal(t, []string{"user", "owner@" + slug + ".test"}, []string{row.text("actorType"), row.text("actorEmail")})
	})
	t.Run("streams_end_with_the_session", func(t *testing.T) {
		at := "http://" + p.listen + "/api" + consoleAPI + "/agents/sessions/" + turnOf(t, ina, agent) + "/events/stream"
		response, err := client().Do(p.newRequest(t, "GET", at, nil, []string{"Cookie", ina.held()}))
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		require.Equal(t, 200, response.StatusCode)
		owner.done(t, "POST", "/auth/sessions/end", object1{"userId": id})
		require.NotEmpty(t, readAll(t, response), "it ends; reading fails at the client's time")
		require.Equal(t, 401, ina.call(t, "GET", consoleAPI+"/agents", nil).status)
	})
}

// consoleOfProjects: a request may name another project of its user's, and no other.
func consoleOfProjects(t *testing.T, owner, member, other *visitor, memberID, session string) {
	t.Helper()
	second := owner.done(t, "POST", "/projects", object1{"name": "Second"}).text("project", "id")
	named := []string{"X-Project-Id", second}
	require.Empty(t, sessionIDs(t, owner, "", named...))
	agent := furnish(t, owner, named...)
	there := turnOf(t, owner, agent, named...)
	require.Equal(t, []string{there}, sessionIDs(t, owner, "", named...))
	require.Equal(t, []string{there}, sessionIDs(t, owner, "?x_project_id="+second))
	require.NotContains(t, sessionIDs(t, owner, ""), there, "the cookie's project is another one")
	require.Equal(t, 404, owner.call(t, "GET", consoleAPI+"/agents/sessions/"+session, nil, named...).status)
	for _, stranger := range []*visitor{member, other} {
		for _, path := range []string{"/agents", "/agents/sessions/" + there, "/agents/sessions?x_project_id=" + second, "/projects"} {
			a := stranger.call(t, "GET", consoleAPI+path, nil, named...)
			require.Equal(t, []any{404, "Project not found"}, []any{a.status, a.said()}, path)
		}
		require.Equal(t, 404, stranger.call(t, "POST", consoleAPI+"/agents/responses", object1{"model": agent, "input": "hi"}, named...).status)
	}
	require.Equal(t, 404, owner.call(t, "GET", consoleAPI+"/agents", nil, "X-Project-Id", strings.Repeat("x", 4000)).status)
	owner.done(t, "POST", "/projects/"+second+"/members", object1{"userId": memberID, "role": "project_admin"})
	require.Equal(t, []string{there}, sessionIDs(t, member, "", named...), "a project admin sees all of that project")
	owner.done(t, "PATCH", "/projects/"+second+"/members", object1{"userId": memberID, "role": "member"})
	require.Empty(t, sessionIDs(t, member, "", named...), "a member their own")
	require.Equal(t, 404, member.call(t, "GET", consoleAPI+"/agents/sessions/"+there, nil, named...).status)
}
