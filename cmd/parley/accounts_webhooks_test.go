package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/node"
	"parley/httpedge/endpoint"
)

// hooksOfPeople are the webhook routes of signed-in users.
func hooksOfPeople(t *testing.T) []endpoint.Route {
	t.Helper()
	for _, mounted := range node.Surfaces() {
		if mounted.Surface.Name == "dashboard-webhooks" {
			require.Equal(t, "/api", mounted.Prefix)
			return mounted.Surface.Routes
		}
	}
	require.Fail(t, "the surface is not there")
	return nil
}

// TestAccountsWebhooks: signed-in users manage webhooks of one project, of another, and of all of them.
func TestAccountsWebhooks(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, email, _ := company(t, p)
	in := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	userID, tenantID := in.text("user", "id"), in.text("tenant", "id")
	active, err := url.Parse("http://" + p.listen)
	require.NoError(t, err)
	var first string
	for _, cookie := range owner.jar.Cookies(active) {
		if cookie.Name == "active_project_id" {
			first = cookie.Value
		}
	}
	second := operate(t, p, "POST", "/projects", object1{"name": "Second", "tenantId": tenantID}).text("id")
	in1 := apiCaller{p, operate(t, p, "POST", "/tokens", object1{"userId": userID, "label": "first", "projectId": first}).text("token")}
	in2 := apiCaller{p, operate(t, p, "POST", "/tokens", object1{"userId": userID, "label": "second", "projectId": second}).text("token")}

	ids, receivers := map[string]string{}, map[string]*hookListener{}
	for name, c := range map[string]struct{ asked, hears any }{
		"active": {nil, first}, "first": {first, first}, "second": {second, second}, "star": {"*", nil}, "null": {"null", nil},
	} {
		receivers[name] = newHookListener(t)
		body := object1{"url": receivers[name].URL + "/in?key=1", "events": []string{"session.idled"}, "description": name}
		switch c.asked {
		case nil:
		case "null":
			body["projectId"] = nil
		default:
			body["projectId"] = c.asked
		}
		made := owner.done(t, "POST", "/webhooks", body).at("endpoint")
		require.Regexp(t, "^whsec_", made.text("secret"))
		require.Equal(t, c.hears, made.at("projectId").v, name)
		ids[name] = made.text("id")
	}
	t.Run("events_of_projects", func(t *testing.T) {
		for _, b := range []apiCaller{in1, in2} {
			n := &tenant{apiCaller: b}
			n.scripted(t)
			agent := n.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})
			n.done(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
		}
		for name, projects := range map[string][]string{
			"active": {first}, "first": {first}, "second": {second}, "star": {first, second}, "null": {first, second},
		} {
			var said []string
			for _, delivery := range receivers[name].hears(t, "session.idled", len(projects)) {
				said = append(said, decode(t, delivery.Body).text("projectId"))
			}
			require.ElementsMatch(t, projects, said, name)
		}
	})
	t.Run("every_route", func(t *testing.T) {
		require.Len(t, owner.done(t, "GET", "/webhooks/events", nil).at("events").list(), 12)
		require.Len(t, owner.done(t, "GET", "/webhooks", nil).at("endpoints").list(), len(ids))
		at := "/webhooks/" + ids["null"]
		got := owner.done(t, "GET", at, nil).at("endpoint")
		require.Equal(t, receivers["null"].URL+"/in?key=1", got.text("url"))
		require.Equal(t, "changed", owner.done(t, "PATCH", at, object1{"description": "changed"}).text("endpoint", "description"))
		require.Regexp(t, "^whsec_", owner.done(t, "POST", at+"/rotate-secret", nil).text("endpoint", "secret"))
		delivery := owner.done(t, "POST", at+"/test", nil).at("delivery")
		require.Equal(t, "delivered", delivery.text("status"))
		require.NotEmpty(t, owner.done(t, "GET", at+"/deliveries?limit=1", nil).at("deliveries").list())
		again := owner.call(t, "POST", "/webhooks/deliveries/"+delivery.text("id")+"/redeliver", nil)
		require.Equal(t, 202, again.status, again.text)
		receivers["null"].hears(t, "webhook.test", 2)
		ids["delivery"] = delivery.text("id")
		spare := owner.done(t, "POST", "/webhooks", object1{"url": receivers["null"].URL, "events": []string{"*"}}).text("endpoint", "id")
		require.True(t, owner.done(t, "DELETE", "/webhooks/"+spare, nil).flag("deleted"))
	})
	t.Run("described", func(t *testing.T) { describedBelowAPI(t, newVisitor(t, p)) })
	t.Run("tokens_have_their_project_only", func(t *testing.T) {
		require.Len(t, in1.done(t, "GET", "/webhooks", nil).at("endpoints").list(), 2)
		for _, name := range []string{"second", "star", "null"} {
			in1.ask(t, "GET", "/webhooks/"+ids[name], nil).denied(404, "not_found", "Webhook endpoint not found")
		}
		in1.ask(t, "POST", "/webhooks", object1{"url": receivers["star"].URL, "events": []string{"*"}, "projectId": "*"}).coded(403, "forbidden")
	})
	t.Run("nobody_else", func(t *testing.T) { hooksOfOthers(t, p, owner, ids, second) })
	t.Run("roles", func(t *testing.T) {
		operate(t, p, "POST", "/users", object1{"tenantId": tenantID, "name": "Heir", "role": "owner"})
		hooksByRole(t, p, owner, userID, ids, second)
	})
}

// describedBelowAPI reads the document of what signed-in users call, and its page, as anybody may.
func describedBelowAPI(t *testing.T, anybody *visitor) {
	t.Helper()
	document := anybody.done(t, "GET", "/openapi.json", nil)
	require.NoError(t, exactly([]map[string]string{{"url": "/api"}})(document.at("servers").v))
	require.Equal(t, "token", document.text("components", "securitySchemes", "Session", "name"))
	for _, mounted := range node.Surfaces() {
		for _, route := range mounted.Surface.Routes {
			if mounted.Prefix == "/api" && !route.Hidden {
				require.NotEmpty(t, document.text("paths", route.Path, strings.ToLower(route.Method), "operationId"))
			}
		}
	}
	page := anybody.call(t, "GET", "/docs", nil)
	require.Equal(t, 200, page.status)
	require.Contains(t, page.text, "docs/swagger-ui.css")
	require.Equal(t, 200, anybody.call(t, "GET", "/docs/swagger-ui.css", nil).status)
	require.Equal(t, 404, anybody.call(t, "GET", "/docs/none.css", nil).status)
}

// hooksOfOthers asks every route without a session, by a page of another site, and as the owner of another company.
func hooksOfOthers(t *testing.T, p *process, owner *visitor, ids map[string]string, project string) {
	t.Helper()
	stranger, _, _ := company(t, p)
	paths := strings.NewReplacer("{id}", ids["null"], "{deliveryId}", ids["delivery"])
	for _, route := range hooksOfPeople(t) {
		path := paths.Replace(route.Path)
		refused := newVisitor(t, p).call(t, route.Method, path, nil)
		require.Equal(t, 401, refused.status, refused.text)
		require.Equal(t, []string{"Unauthorized", "Authentication required"}, []string{refused.said(), decode(t, refused.text).text("message")})
		if route.Method != http.MethodGet {
			require.Equal(t, 403, owner.call(t, route.Method, path, "{}", "Origin", "https://evil.test").status, path)
		}
		if path != route.Path {
			a := stranger.call(t, route.Method, path, nil)
			require.Equal(t, 404, a.status, "%s: %s", a.what, a.text)
		}
	}
	require.Empty(t, stranger.done(t, "GET", "/webhooks", nil).at("endpoints").list())
	for _, named := range []string{project, "proj_none"} {
		a := stranger.call(t, "POST", "/webhooks", object1{"url": "http://127.0.0.1:9/", "events": []string{"*"}, "projectId": named})
		a.coded(403, "forbidden")
	}
	require.Equal(t, "changed", owner.done(t, "GET", "/webhooks/"+ids["null"], nil).text("endpoint", "description"), "nothing was touched")
}

// hooksByRole lowers the owner, whose session goes on, to a member of the first project only.
func hooksByRole(t *testing.T, p *process, user *visitor, userID string, ids map[string]string, second string) {
	t.Helper()
	is := func(role, level string) {
		permissions := object1{}
		if level != "" {
			permissions["webhooks"] = level
		}
		operate(t, p, "PATCH", "/users/"+userID, object1{"role": role, "servicePermissions": permissions})
	}
	body := func(project any) object1 {
		return object1{"url": "http://127.0.0.1:9/", "events": []string{"schedule.fired"}, "projectId": project}
	}
	is("admin", "")
	for _, project := range []any{nil, "*", second} {
		user.done(t, "POST", "/webhooks", body(project))
	}
	is("project_admin", "")
	refused := user.call(t, "GET", "/webhooks", nil)
	require.Equal(t, 403, refused.status, refused.text)
	require.Equal(t, "The user, whose role is project_admin, does not hold webhooks:read", decode(t, refused.text).text("reason"))
	require.Regexp(t, "^dec_", decode(t, refused.text).text("decisionId"))

	is("project_admin", "read")
	listed := user.done(t, "GET", "/webhooks", nil).at("endpoints").list()
	require.Len(t, listed, 2, "of the first project")
	require.True(t, listed[0].flag("urlRedacted"))
	require.Equal(t, 403, user.call(t, "DELETE", "/webhooks/"+ids["first"], nil).status)

	is("project_admin", "admin")
	for _, project := range []any{nil, "*", second} {
		user.call(t, "POST", "/webhooks", body(project)).coded(403, "forbidden")
	}
	for _, name := range []string{"second", "star", "null"} {
		require.Equal(t, 404, user.call(t, "GET", "/webhooks/"+ids[name], nil).status, name)
		require.Equal(t, 404, user.call(t, "DELETE", "/webhooks/"+ids[name], nil).status, name)
	}
	require.Equal(t, 404, user.call(t, "POST", "/webhooks/deliveries/"+ids["delivery"]+"/redeliver", nil).status)
	require.True(t, user.done(t, "DELETE", "/webhooks/"+ids["first"], nil).flag("deleted"))
}
