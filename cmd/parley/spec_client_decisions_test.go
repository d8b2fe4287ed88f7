package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventually reads what is written a moment after it was told.
func (b apiCaller) eventually(t *testing.T, path string) tree {
	t.Helper()
	var a answer
	require.Eventually(t, func() bool {
		a = b.ask(t, "GET", path, nil)
		return a.status == 200
	}, 30*time.Second, 20*time.Millisecond, path)
	return decode(t, a.text)
}

// refusal checks a refusal of the permission engine and returns the decision's id.
func (a answer) refusal(service, level, reason string) string {
	a.t.Helper()
	a.denied(403, "forbidden", "Forbidden: "+service+" requires "+level+" permission")
	body := decode(a.t, a.text)
	require.Equal(a.t, reason, body.text("reason"), a.what)
	require.Regexp(a.t, `^dec_[\w-]{21}-\d+$`, body.text("decisionId"))
	return body.text("decisionId")
}

// TestClientDecisions: who was refused what, and why, can be looked up by owners and admins of the tenant.
func TestClientDecisions(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	id, user := n.user(t, "user", nil)
	reason := "The user, whose role is user, does not hold members:admin"
	first := user.ask(t, "POST", "/users", object1{"name": "x", "role": "user"}).refusal("members", "admin", reason)
	got := n.eventually(t, "/permissions/decisions/"+first).at("decision")
	require.Equal(t, map[string]any{
		"id": first, "decision": "deny", "reason": reason, "code": "owner_level", "engine": "builtin", "service": "members", "level": "admin",
		"route": "POST /users", "projectId": n.project, "userId": id, "tokenId": got.text("tokenId"), "count": got.at("count").v,
		"createdAt": got.text("createdAt"), "lastAt": got.text("lastAt"),
	}, got.v)
	t.Run("out_of_reach", func(t *testing.T) {
		other := newTenant(t, n.p, "ON_PREMISE")
		for _, path := range []string{first, first[:len(first)-1] + "9", "dec_x", first[:25]} {
			other.ask(t, "GET", "/permissions/decisions/"+path, nil).denied(404, "not_found", "No such decision")
		}
		require.Empty(t, other.done(t, "GET", "/permissions/decisions", nil).at("decisions").list())
		user.ask(t, "GET", "/permissions/decisions/"+first, nil).refusal("audit", "read", "Only owners and admins hold audit:read")
	})
	t.Run("listed_newest_first", func(t *testing.T) {
		var ids []string
		for _, path := range []string{"/users", "/users/x/tokens", "/permissions/decisions"} {
			service := "members"
			if strings.HasPrefix(path, "/perm") {
				service = "audit"
			}
			a := user.ask(t, "GET", path, nil)
			require.Equal(t, 403, a.status, service)
			ids = append(ids, decode(t, a.text).text("decisionId"))
			n.eventually(t, "/permissions/decisions/"+ids[len(ids)-1])
		}
		var listed []string
		for path := "/permissions/decisions?limit=1"; path != ""; {
			page := n.done(t, "GET", path, nil)
			listed = append(listed, texts(page.at("decisions").list(), "id")...)
			path = ""
			if next, more := page.at("nextCursor").v.(string); more {
				path = "/permissions/decisions?limit=1&after=" + next
			}
		}
		require.Equal(t, []string{ids[2], ids[1], ids[0]}, listed[:3])
		require.Equal(t, first, listed[len(listed)-1])
		n.ask(t, "GET", "/permissions/decisions?after=1.x", nil).denied(400, "invalid_cursor", "after must be a nextCursor of this list")
	})
	t.Run("a_scope_is_a_reason", func(t *testing.T) {
		_, narrow := n.user(t, "admin", object1{"agents": "read"})
		narrow.ask(t, "POST", "/agents", object1{"name": "x"}).refusal("agents", "write", "The token's scope does not include agents:write")
	})
	t.Run("on_the_conversation_server_too", func(t *testing.T) {
		_, narrow := n.user(t, "admin", object1{"models": "read"})
		a := n.p.ask(t, "GET", "/conversations", nil, "Authorization", "Bearer "+narrow.token)
		require.Equal(t, 403, a.status, a.text)
		n.eventually(t, "/permissions/decisions/"+decode(t, a.text).text("details", "decisionId"))
	})
}

// TestClientPermissionEngine: an engine outside decides; when it does not, nobody is let in, and that is no refusal.
func TestClientPermissionEngine(t *testing.T) {
	t.Parallel()
	var says atomic.Value
	says.Store("allow")
	release := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch way, _ := says.Load().(string); {
		case r.URL.Path != "/access/v1/evaluation" || r.Header.Get("Authorization") != "Bearer engine-key":
			w.WriteHeader(http.StatusNotFound)
		case way == "allow":
			_, _ = w.Write([]byte(`{"decision":true}`))
		case way == "deny":
			_, _ = w.Write([]byte(`{"decision":false,"context":{"reason_user":{"en-403":"Not on Fridays"}}}`))
		case way == "nonsense":
			_, _ = w.Write([]byte(`{"decision":"yes"}`))
		case way == "error":
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasPrefix(way, "read"):
			var asked struct{ Action struct{ Name string } }
			_ = json.NewDecoder(r.Body).Decode(&asked) // else nobody may read
			if way == "read" || asked.Action.Name == "read" {
				_, _ = fmt.Fprintf(w, `{"decision":%t}`, asked.Action.Name == "read")
				return
			}
			<-release
		default:
			<-release
		}
	}))
	t.Cleanup(engine.Close)
	t.Cleanup(func() { close(release) })
	p := shared.of(t, houseConfig+"permissions: {engine: http, url: \""+engine.URL+"\", token: engine-key, timeout: 500ms}\n"+
		"accounts: {register_attempts: 1000, login_attempts: 1000}\n")
	owner := apiCaller{p, houseToken}
	owner.done(t, "GET", "/agents", nil)
	says.Store("deny")
	id := owner.ask(t, "GET", "/agents", nil).refusal("agents", "read", "Not on Fridays")
	for _, way := range []string{"hang", "nonsense", "error"} {
		says.Store(way)
		a := owner.trying(t, "GET", "/agents", nil)
		a.denied(503, "authorization_unavailable", "The permission engine could not decide")
		a = p.ask(t, "GET", "/conversations", nil, "Authorization", "Bearer "+houseToken)
		require.Equal(t, 503, a.status, a.text)
	}
	says.Store("allow")
	require.Equal(t, "external", owner.eventually(t, "/permissions/decisions/"+id).text("decision", "engine"))
	t.Run("webhooks_of_tokens", func(t *testing.T) {
		n := newTenant(t, p, "ON_PREMISE")
		hooksUnderEngine(t, func(t *testing.T, method, path string, body any) answer {
			t.Helper()
			return n.trying(t, method, path, body)
		}, &says)
	})
	t.Run("webhooks_of_people", func(t *testing.T) {
		person, _, _ := company(t, p)
		hooksUnderEngine(t, func(t *testing.T, method, path string, body any) answer {
			t.Helper()
			return person.call(t, method, path, body)
		}, &says)
	})
}
