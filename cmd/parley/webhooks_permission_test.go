package main

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// hookCaller asks the webhook routes of a surface.
type hookCaller func(t *testing.T, method, path string, body any) answer

func (ask hookCaller) done(t *testing.T, method, path string, body any) tree {
	t.Helper()
	a := ask(t, method, path, body)
	require.Lessf(t, a.status, 300, "%s: %s", a.what, a.text)
	return decode(t, a.text)
}

// hooksUnderEngine has an engine outside decide about every webhook route of a surface: who is refused, or of whom the engine says
// nothing, has changed nothing and has seen nothing.
func hooksUnderEngine(t *testing.T, ask hookCaller, says *atomic.Value) {
	t.Helper()
	defer says.Store("allow")
	says.Store("allow")
	r := newHookListener(t)
	made := ask.done(t, "POST", "/webhooks", object1{"url": r.URL + "/in?key=1", "events": []string{"*"}, "description": "kept"}).at("endpoint")
	at := "/webhooks/" + made.text("id")
	delivery := ask.done(t, "POST", at+"/test", nil).text("delivery", "id")
	paths := strings.NewReplacer("{id}", made.text("id"), "{deliveryId}", delivery)
	every := func(check func(a answer)) {
		var all sync.WaitGroup
		for _, route := range hooksOfPeople(t) { // the same on both surfaces
			body := any(nil)
			if route.HasBody() {
				body = object1{"url": r.URL, "events": []string{"*"}, "description": "stolen", "status": "disabled"}
			}
			all.Go(func() { check(ask(t, route.Method, paths.Replace(route.Path), body)) })
		}
		all.Wait()
	}
	says.Store("deny")
	every(func(a answer) {
		require.Equal(t, 403, a.status, a.what)
		require.Equal(t, []string{"forbidden", "Not on Fridays"}, []string{decode(t, a.text).text("code"), decode(t, a.text).text("reason")}, a.what)
		require.Regexp(t, `^dec_[\w-]{21}-\d+$`, decode(t, a.text).text("decisionId"), a.what)
	})
	for _, way := range []string{"hang", "nonsense", "error"} {
		says.Store(way)
		every(func(a answer) { a.coded(503, "authorization_unavailable") })
	}
	says.Store("read")
	listed := ask.done(t, "GET", "/webhooks", nil).at("endpoints").list()
	require.Len(t, listed, 1, "nothing was made")
	require.Equal(t, r.URL+"/in", listed[0].text("url"))
	require.True(t, ask.done(t, "GET", at, nil).at("endpoint").flag("urlRedacted"))
	require.Equal(t, 403, ask(t, "PATCH", at, object1{"description": "stolen"}).status)
	says.Store("read and hang")
	for _, path := range []string{"/webhooks", at} {
		a := ask(t, "GET", path, nil)
		a.coded(503, "authorization_unavailable")
		require.NotContains(t, a.text, "key=1", "whether the caller may see it is not known")
	}
	says.Store("allow")
	kept := ask.done(t, "GET", at, nil).at("endpoint")
	require.Equal(t, []string{"kept", "active", r.URL + "/in?key=1"}, []string{kept.text("description"), kept.text("status"), kept.text("url")})
	require.Len(t, r.got("webhook.test"), 1, "nothing was sent")
	require.True(t, ask.done(t, "DELETE", at, nil).flag("deleted"))
}

// TestWebhooksWithoutEngine: project admins and the tenant's owner and admins manage webhooks; nobody else does, whatever levels they
// were given, and no decision is kept of that.
func TestWebhooksWithoutEngine(t *testing.T) {
	t.Parallel()
	p := shared.of(t, houseConfig+"permissions: {engine: \"off\"}\n")
	n := newTenant(t, p, "ON_PREMISE")
	r := newHookListener(t)
	made := n.done(t, "POST", "/webhooks", object1{"url": r.URL + "/in?key=1", "events": []string{"*"}}).at("endpoint")
	at := "/webhooks/" + made.text("id")
	delivery := n.done(t, "POST", at+"/test", nil).text("delivery", "id")
	paths := strings.NewReplacer("{id}", made.text("id"), "{deliveryId}", delivery)
	_, projectAdmin := n.user(t, "project_admin", nil)
	_, admin := n.user(t, "admin", nil)
	for _, b := range []apiCaller{projectAdmin, admin} {
		require.Equal(t, r.URL+"/in?key=1", b.done(t, "GET", at, nil).text("endpoint", "url"))
		require.Equal(t, "delivered", b.done(t, "POST", at+"/test", nil).text("delivery", "status"))
	}
	_, reader := n.user(t, "project_admin", object1{"webhooks": "read"})
	require.True(t, reader.done(t, "GET", at, nil).at("endpoint").flag("urlRedacted"), "a token's scope binds")
	userID, user := n.user(t, "user", nil)
	operate(t, p, "PATCH", "/users/"+userID, object1{"servicePermissions": object1{"webhooks": "admin"}})
	_, unscoped := n.user(t, "admin", object1{"agents": "write"})
	for _, b := range []apiCaller{user, unscoped} {
		for _, route := range hooksOfPeople(t) {
			level := "admin"
			if route.Method == http.MethodGet {
				level = "read"
			}
			a := b.ask(t, route.Method, paths.Replace(route.Path), nil)
			a.denied(403, "forbidden", "Forbidden: webhooks requires "+level+" permission")
			require.NotContains(t, a.text, "decisionId", a.what)
		}
	}
	require.Len(t, r.got("webhook.test"), 3)
	require.Len(t, n.done(t, "GET", "/webhooks", nil).at("endpoints").list(), 1)
}
