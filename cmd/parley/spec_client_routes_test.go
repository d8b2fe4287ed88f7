package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/node"
	"parley/httpedge/endpoint"
)

// clientRoutes are all registered routes of the Client API and the gateway.
func clientRoutes(t *testing.T) []endpoint.Route {
	t.Helper()
	var routes []endpoint.Route
	for _, mounted := range node.Surfaces() {
		if name := mounted.Surface.Name; name == "client" || name == "gateway" {
			require.Equal(t, "/api/client/v1", mounted.Prefix)
			routes = append(routes, mounted.Surface.Routes...)
		}
	}
	require.Greater(t, len(routes), 40)
	return routes
}

// openRoutes are the only ones that ask for no token, each with a path of it.
var openRoutes = map[string]string{"/openapi.json": "/openapi.json", "/docs": "/docs", "/docs/{file}": "/docs/swagger-ui.css"} // a constant

// belongings is one of everything that a tenant can have, by the name of the parameter that names it, below a part of the path.
type belongings map[string]string

// everything makes one of everything in a tenant that has the scripted model.
func everything(t *testing.T, n *tenant) belongings {
	t.Helper()
	model := n.done(t, "POST", "/models", scriptedModel("owned"))
	agent := n.newAgent(t, object1{"name": "Owned", "config": object1{"modelKey": "scripted", "askUser": true}, "metadata": object1{
		"background": object1{"enabled": true}, "files": object1{"enabled": true}, "a2a": object1{"enabled": true},
	}})
	n.done(t, "POST", "/agents/"+agent+"/publish", nil)
	session := n.done(t, "POST", "/agents/sessions", object1{"agent": agent}).text("id")
	run := n.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi", "background": true})
	file := n.done(t, "POST", "/agents/sessions/"+session+"/files?name=a.txt", "text of a file", "Content-Type", "text/plain")
	user := n.done(t, "POST", "/users", object1{"name": "Owned", "role": "user"}).text("user", "id")
	token := n.done(t, "POST", "/users/"+user+"/tokens", object1{"label": "owned"}).text("id")
	fileID, _ := file.at("file", "id").v.(string)
	if fileID == "" {
		fileID = file.text("id")
	}
	decision := n.with(operate(t, n.p, "POST", "/tokens", object1{"userId": n.owner, "label": "nothing", "servicePermissions": object1{}}).text("token")).
		ask(t, "GET", "/agents", nil)
	n.eventually(t, "/permissions/decisions/"+decode(t, decision.text).text("decisionId"))
	hook := n.done(t, "POST", "/webhooks", object1{"url": "http://127.0.0.1:9/", "events": []string{"schedule.fired"}}).text("endpoint", "id")
	delivery := n.done(t, "POST", "/webhooks/"+hook+"/test", nil).text("delivery", "id")
	group := n.done(t, "POST", "/members/groups", object1{"name": "Owned"}).text("group", "id")
	budget := n.done(t, "POST", "/budgets", object1{"daily_limit_usd": -1}).text("id")
	guardrail := n.done(t, "POST", "/guardrails", object1{"name": "Owned", "rules": object1{"promptShield": object1{}}}).text("guardrail", "key")
	n.done(t, "POST", "/tracing/sessions", object1{"sessionId": "traced"})
	project := n.done(t, "POST", "/projects", object1{"name": "Owned"}).text("project", "id")
	invited := n.done(t, "POST", "/members/invite", object1{"name": "Owned", "email": "invited@owned.test", "role": "user"}).text("user", "id")
	return belongings{
		"/members/groups/{id}": group, "{projectId}": project, "/members/{id}": invited,
		"/webhooks/{id}": hook, "{deliveryId}": delivery, "/aegis/shields/{id}": "shd_none", // tokens make none
		"/budgets/{id}":     budget,
		"/guardrails/{key}": guardrail,
		"{sessionId}":       "traced", "{threadId}": "traced",
		"{decisionId}":       decode(t, decision.text).text("decisionId"),
		"/agents/{agentKey}": agent, "/a2a/{agentKey}": agent, "/agents/sessions/{id}": session, "/agents/runs/{runId}": run.text("id"), "/models/{id}": model.text("model", "_id"),
		"/models/providers/{key}": "scripted", "/users/{id}": user, "{version}": "1", "{fileId}": fileID, "{tokenId}": token,
		"{actionId}": "act_AAAAAAAAAAAAAAAAAAAAA",
	}
}

// path fills a route's path.
func (b belongings) path(pattern string) string {
	for name, value := range b {
		parameter := name[strings.LastIndex(name, "{"):]
		if strings.HasPrefix(name, "{") || strings.HasPrefix(pattern, name) {
			pattern = strings.Replace(pattern, parameter, value, 1)
		}
	}
	return pattern
}

// requests that are good enough to come to what they name.
var requestBodies = map[string]string{ // a constant
	"PATCH /agents/{agentKey}":                         `{"name":"Stolen"}`,
	"POST /agents/responses":                           `{"model":"AGENT","input":"hi"}`,
	"POST /responses":                                  `{"model":"AGENT","input":"hi"}`,
	"POST /agents/sessions":                            `{"agent":"AGENT"}`,
	"PATCH /agents/sessions/{id}":                      `{"budget":null}`,
	"POST /agents/sessions/{id}/actions/{actionId}":    `{"resolution":{"type":"tool_approval","decision":"allow"}}`,
	"POST /agents/sessions/{id}/files":                 `text`,
	"PUT /models/{id}":                                 `{"name":"Stolen"}`,
	"PATCH /models/{id}":                               `{"name":"Stolen"}`,
	"PATCH /models/providers/{key}":                    `{"label":"Stolen"}`,
	"POST /users/{id}/tokens":                          `{"label":"Stolen"}`,
	"PATCH /members/{id}":                              `{"name":"Stolen"}`,
	"PATCH /members/{id}/permissions":                  `{"servicePermissions":{}}`,
	"PATCH /members/groups/{id}":                       `{"name":"Stolen"}`,
	"POST /members/groups/{id}/members":                `{"userId":"USER"}`,
	"DELETE /members/groups/{id}/members":              `{"userId":"USER"}`,
	"PATCH /projects/{projectId}":                      `{"name":"Stolen"}`,
	"POST /projects/{projectId}/members":               `{"userId":"USER"}`,
	"PATCH /projects/{projectId}/members":              `{"userId":"USER"}`,
	"PATCH /projects/{projectId}/members/permissions":  `{"userId":"USER","servicePermissions":{}}`,
	"DELETE /projects/{projectId}/members":             `{"userId":"USER"}`,
	"POST /chat/completions":                           `{"model":"MODEL","messages":[{"role":"user","content":"hi"}]}`,
	"PATCH /budgets/{id}":                              `{"daily_limit_usd":0}`,
	"POST /tracing/sessions/stream/{sessionId}/events": `{"event":{}}`,
	"POST /embeddings":                                 `{"model":"MODEL","input":"hi"}`,
	"POST /moderations":                                `{"input":"hi","model":"MODEL"}`,
	"POST /audio/speech":                               `{"model":"MODEL","input":"hi"}`,
	"POST /audio/transcriptions":                       `{"model":"MODEL","audio":{"data":"aGk="}}`,
	"POST /audio/translations":                         `{"model":"MODEL","audio":{"data":"aGk="}}`,
}

func (b belongings) body(route *endpoint.Route) string {
	return strings.NewReplacer("AGENT", b["/agents/{agentKey}"], "MODEL", "owned", "USER", b["/users/{id}"]).Replace(requestBodies[route.Method+" "+route.Path])
}

// TestClientRoutes holds every registered route against who asks.
func TestClientRoutes(t *testing.T) {
	t.Parallel()
	p := house(t).p
	n := newTenant(t, p, "ON_PREMISE")
	n.scripted(t)
	owned := everything(t, n)
	stranger := newTenant(t, p, "ON_PREMISE")
	nothing := n.with(operate(t, p, "POST", "/tokens", object1{"userId": n.owner, "label": "nothing", "servicePermissions": object1{}}).text("token"))
	others := map[string]string{} // tokens for all services but one
	for _, service := range []string{"aegis", "agents", "audit", "license", "models", "guardrails", "members", "projects", "tracing", "webhooks"} {
		scope := object1{"aegis": "admin", "agents": "admin", "models": "admin", "guardrails": "admin", "members": "admin", "projects": "write", "audit": "read", "webhooks": "admin", "license": "admin", "tracing": "admin"}
		delete(scope, service)
		others[service] = operate(t, p, "POST", "/tokens", object1{"userId": n.owner, "label": "all others", "servicePermissions": scope}).text("token")
	}
	parameter := regexp.MustCompile(`\{\w+\}`)
	named := 0
	for _, route := range clientRoutes(t) {
		if open, ok := openRoutes[route.Path]; ok {
			require.Equal(t, 200, n.with("").ask(t, route.Method, open, nil).status, open)
			continue
		}
		path, body := owned.path(route.Path), owned.body(&route)
		require.NotRegexp(t, parameter, path, "this test does not know what it names")
		kind, unknown := "text/plain", 404
		if strings.HasPrefix(path, "/audio/") { // whose routes know no 404
			kind, unknown = "application/json", 400
		}
		ask := func(b apiCaller) answer { return b.ask(t, route.Method, path, body, "Content-Type", kind) }
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			require.Equal(t, 401, ask(n.with("")).status, "without a token")
			require.Equal(t, 401, ask(n.with("service_"+strings.Repeat("0", 64))).status, "with a wrong one")

			a := ask(nothing)
			service, level, _ := strings.Cut(route.Access, ":")
			require.Equal(t, 403, a.status, a.text)
			require.Contains(t, a.text, fmt.Sprintf("Forbidden: %s requires %s permission", service, level))
			a = ask(n.with(others[service]))
			require.Equal(t, 403, a.status, a.text)

			if (path != route.Path || body != "") && !strings.HasSuffix(path, "/start") { // which makes a session of one's own
				named++
				a = ask(stranger.apiCaller)
				require.Equal(t, unknown, a.status, "%s: %s", a.what, a.text)
				require.Contains(t, a.text, "not_found", "its code")
				for _, value := range owned {
					if len(value) > len("owned") {
						require.NotContains(t, a.text, value)
					}
				}
			}
		})
	}
	require.Greater(t, named, 35)
	t.Run("nothing_was_touched", func(t *testing.T) {
		require.Equal(t, "Owned", n.done(t, "GET", "/agents/"+owned["/agents/{agentKey}"], nil).text("agent", "name"))
		require.Equal(t, "owned", n.done(t, "GET", "/models/owned", nil).text("model", "name"))
		require.Len(t, n.done(t, "GET", "/users/"+owned["/users/{id}"]+"/tokens", nil).at("tokens").list(), 1)
		n.done(t, "GET", "/agents/sessions/"+owned["/agents/sessions/{id}"], nil)
		require.Equal(t, "Owned", n.done(t, "GET", "/members/groups/"+owned["/members/groups/{id}"], nil).text("group", "name"))
		n.done(t, "GET", "/projects/"+owned["{projectId}"]+"/members", nil)
	})
	t.Run("what_bodies_name_is_looked_for_in_the_own_project", func(t *testing.T) {
		agent := owned["/agents/{agentKey}"]
		session := owned["/agents/sessions/{id}"]
		for _, body := range []object1{
			{"session_id": session}, {"previous_response_id": "resp_" + session}, {"conversation": session}, {"conversation": object1{"id": session}},
		} {
			body["model"], body["input"] = "fixed", "hi"
			require.Equal(t, 404, stranger.ask(t, "POST", "/agents/responses", body).status, "%v", body)
			require.Equal(t, 404, n.ask(t, "POST", "/agents/responses", body).status, "of another agent: %v", body)
		}
		require.Empty(t, stranger.done(t, "GET", "/agents/sessions?agent="+agent, nil).at("data").list())
	})
}
