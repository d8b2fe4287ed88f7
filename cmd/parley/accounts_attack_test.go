package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccountsUnderAttack is what a stranger tries at the routes below /api.
func TestAccountsUnderAttack(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig+"# alone: its hashes are counted\n")
	t.Run("ids_of_another_company", func(t *testing.T) { foreignIDs(t, p) })
	t.Run("headers_and_cookies", func(t *testing.T) { forgedHeaders(t, p) })
	t.Run("bodies", func(t *testing.T) { hostileBodies(t, p) })
	t.Run("hashes_tell_nothing", func(t *testing.T) { equalHashes(t, p) })
	t.Run("reset_while_signing_in", func(t *testing.T) { resetWhileSigningIn(t, p) })
	t.Run("removed_while_asking", func(t *testing.T) { removedWhileAsking(t, p) })
	t.Run("a_project_goes_while_its_sessions_run", func(t *testing.T) { projectGoes(t, p) })
}

// estate is what a company has that another one could name.
type estate struct{ user, group, project, endpoint, token string }

func estateOf(t *testing.T, owner *visitor) estate {
	t.Helper()
	own := owner.done(t, "GET", "/auth/session", nil).text("userId")
	return estate{
		user: own, group: owner.done(t, "POST", "/groups", object1{"name": "Staff"}).text("group", "id"),
		project:  owner.done(t, "GET", "/projects", nil).at("projects").list()[0].text("id"),
		endpoint: owner.done(t, "POST", "/webhooks", object1{"url": newHookListener(t).URL + "/in", "events": []string{"session.idled"}}).text("endpoint", "id"),
		token:    owner.done(t, "POST", "/users/"+own+"/tokens", object1{"label": "own"}).text("id"),
	}
}

// filled is a path with the ids of a company.
func (b estate) filled(path string) string {
	first := map[string]string{"users": b.user, "groups": b.group, "projects": b.project, "webhooks": b.endpoint}[strings.Split(path, "/")[1]]
	return strings.NewReplacer("{id}", first, "{projectId}", b.project, "{tokenId}", b.token, "{deliveryId}", "whd_none").Replace(path)
}

// foreignIDs names what belongs to another company on every route below /api that has a parameter, as the document lists them, and
// in every body that takes an id.
func foreignIDs(t *testing.T, p *process) {
	t.Helper()
	victim, _, _ := company(t, p)
	mallory, _, _ := company(t, p)
	theirs, own := estateOf(t, victim), estateOf(t, mallory)
	before := possessions(t, victim)
	document := mallory.done(t, "GET", "/openapi.json", nil)
	paths, _ := document.at("paths").v.(map[string]any)
	tried := 0
	try := func(method, path string, body any) {
		t.Helper()
		if method == "GET" {
			body = nil
		}
		a := mallory.call(t, method, path, body)
		require.Contains(t, []int{400, 403, 404}, a.status, "%s %s: %s", method, path, a.text)
		for _, secret := range []string{"owner@", "Olga"} {
			require.NotContains(t, a.text, secret, "%s %s", method, path)
		}
		tried++
	}
	every := object1{
		"name": "Stolen", "role": "user", "servicePermissions": object1{"agents": "admin"}, "userId": own.user, "label": "stolen", "tenantRole": "admin", "description": "x",
		"canLogin": false, "status": "disabled", "events": []string{"session.idled"}, "password": goodPassword,
	}
	for _, path := range slices.Sorted(func(yield func(string) bool) {
		for path := range paths {
			if strings.Contains(path, "{") && !strings.HasPrefix(path, "/console/") && !yield(path) { // TestConsole* tries those
				return
			}
		}
	}) {
		operations, _ := paths[path].(map[string]any)
		for method := range operations {
			try(strings.ToUpper(method), theirs.filled(path), every)
		}
	}
	require.Greater(t, tried, 20, "routes with parameters")
	for _, named := range []struct {
		path string
		body object1
	}{
		{"/auth/sessions/end", object1{"userId": theirs.user}},
		{"/auth/second-factor/remove", object1{"userId": theirs.user}},
		{"/projects/active", object1{"projectId": theirs.project}},
		{"/users/invite", object1{"name": "M", "email": "m@evil.test", "role": "user", "projectId": theirs.project}},
		{"/groups/" + own.group + "/members", object1{"userId": theirs.user}},
		{"/projects/" + own.project + "/members", object1{"userId": theirs.user, "role": "member"}},
		{"/users/" + own.user + "/tokens", object1{"label": "one", "projectId": theirs.project}},
		{"/webhooks", object1{"url": "https://example.com/in", "events": []string{"session.idled"}, "projectId": theirs.project}},
	} {
		try("POST", named.path, named.body)
	}
	try("DELETE", "/users/"+own.user+"/tokens/"+theirs.token, nil)
	require.Empty(t, mallory.done(t, "GET", "/audit/logs?actorUserId="+theirs.user, nil).at("logs").list())
	require.Empty(t, mallory.done(t, "GET", "/audit/logs?projectId="+theirs.project, nil).at("logs").list())
	require.NotContains(t, mallory.call(t, "GET", "/audit/logs/export", nil).text, `"actorUserId":"`+theirs.user)
	require.Equal(t, before, possessions(t, victim), "nothing of it was changed")
}

// forgedHeaders: nobody becomes somebody else by headers, nor by several cookies.
func forgedHeaders(t *testing.T, p *process) {
	t.Helper()
	victim, _, _ := company(t, p)
	mallory, _, _ := company(t, p)
	whose := func(b *visitor) string { return b.done(t, "GET", "/auth/session", nil).text("userId") }
	theirs, own := whose(victim), whose(mallory)
	var headers []string
	for _, name := range []string{"X-User-Id", "x-user-role", "X_User_Id", "X-Tenant-Id", "X-Tenant-Slug", "X-Tenant-Db-Name", "X-User-Email", "X-License-Type", "X-Features"} {
		headers = append(headers, name, map[bool]string{true: "owner", false: theirs}[name == "x-user-role"])
	}
	require.Equal(t, 401, newVisitor(t, p).call(t, "GET", "/auth/session", nil, headers...).status)
	require.Equal(t, own, decode(t, mallory.call(t, "GET", "/auth/session", nil, headers...).text).text("userId"))
	made := mallory.call(t, "POST", "/groups", object1{"name": "Forged"}, headers...)
	require.Equal(t, 201, made.status, made.text)
	row := mallory.done(t, "GET", "/audit/logs?resourceType=groups&limit=1", nil).at("logs").list()[0]
	require.Equal(t, []string{own, "127.0.0.1"}, []string{row.text("actorUserId"), row.text("ipAddress")})

	one, other := victim.cookie("token"), mallory.cookie("token")
	for sent, want := range map[string]int{
		"Cookie: " + one: 200, "Cookie: " + one + "; " + one: 200, "Cookie: " + one + "; " + other: 401, "Cookie: " + other + "; " + one: 401,
		"Cookie: " + one + "\r\nCookie: " + other: 401, "Cookie: " + one + "\r\nCookie: " + one: 200, "Cookie: token=" + "\r\nCookie: " + one: 200,
		"Cookie: " + strings.Repeat("a=b; ", 1000) + one: 200,
	} {
		require.Equal(t, want, rawStatus(t, p, "GET /api/auth/session HTTP/1.1\r\nHost: "+p.listen+"\r\n"+sent+"\r\nConnection: close\r\n\r\n"), "%s", strings.NewReplacer(one, "ONE", other, "OTHER").Replace(sent))
	}
}

// rawStatus sends bytes and returns the status of the answer.
func rawStatus(t *testing.T, p *process, text string) int {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.listen)
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	_, err = connection.Write([]byte(text))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// hostileBodies: bodies that are too large, too deep or no text are refused on every route that takes one, before anything is hashed.
func hostileBodies(t *testing.T, p *process) {
	t.Helper()
	owner, _, _ := company(t, p)
	hashed := p.metric(t, "parley_password_checks_total")
	deep := strings.Repeat(`{"email":`, 1500) + "1" + strings.Repeat("}", 1500)
	for name, body := range map[string]string{
		"large": `{"email":"` + strings.Repeat("x", 200_000) + `"}`, "deep": deep, "list": "[" + strings.Repeat("1,", 5000) + "1]", "no_text": "{\"email\":\"\xff\xfe\"}",
		"twice": `{"email":"a@b.test","email":{"$gt":""}}`, "null": "null", "number": "1e400", "half": `{"email":"a`, "nul": `{"email":"a\u0000@b.test","password":{}}`,
	} {
		for _, path := range []string{
			"/auth/login", "/auth/register", "/auth/accept-invite", "/auth/login/code", "/auth/forgot-password", "/auth/reset-password", "/auth/change-password",
			"/users/invite", "/groups", "/projects", "/projects/active", "/webhooks",
		} {
			a := owner.call(t, "POST", path, body, "Content-Type", "application/json")
			require.Contains(t, []int{400, 401, 413}, a.status, "%s: %s: %s", name, path, a.text)
			require.Less(t, len(a.text), 2000, "%s: %s", name, path)
		}
	}
	for _, query := range []string{"/audit/logs?actorUserId=%ff%00", "/audit/logs?after=99999999999999999999", "/audit/logs?limit=-1", "/auth/oidc/callback?state=%ff&code=%00", "/users/%ff", "/groups/%00"} {
		a := owner.call(t, "GET", query, nil)
		require.Contains(t, []int{200, 400, 401, 404, 405}, a.status, "%s: %s", query, a.text)
	}
	require.InDelta(t, hashed, p.metric(t, "parley_password_checks_total"), 0.1, "nothing was hashed")
}

// equalHashes: whoever exists or not, has a password or not, may sign in or not: a wrong password costs one hash and has one answer.
func equalHashes(t *testing.T, p *process) {
	t.Helper()
	owner, email, slug := company(t, p)
	owner.invite(t, "invited@"+slug+".test", "user")
	id, token := owner.invite(t, "gone@"+slug+".test", "user")
	accept(t, p, token)
	owner.done(t, "PATCH", "/users/"+id, object1{"canLogin": false})
	for _, tried := range []object1{
		{"email": email},
		{"email": "nobody@" + slug + ".test"},
		{"email": "invited@" + slug + ".test"},
		{"email": "gone@" + slug + ".test"},
		{"email": email, "slug": slug},
		{"email": "nobody@" + slug + ".test", "slug": slug},
		{"email": email, "slug": "first-co"},
	} {
		tried["password"] = "Wrong-1-password"
		before := p.metric(t, "parley_password_checks_total")
		a := newVisitor(t, p).call(t, "POST", "/auth/login", tried)
		require.Equal(t, []any{401, "Invalid email or password"}, []any{a.status, a.said()}, tried)
		require.InDelta(t, before+1, p.metric(t, "parley_password_checks_total"), 0.1, tried)
	}
}

// resetWhileSigningIn: whoever signs in with the old password while it is reset has no session afterwards.
func resetWhileSigningIn(t *testing.T, p *process) {
	t.Helper()
	_, email, _ := company(t, p)
	require.Eventually(t, func() bool { return len(p.outbox(email)) == 1 }, waitLong, waitStep, "the welcome")
	_, token := forgot(t, p, object1{"email": email})
	const each = 6
	visitors := make([]*visitor, each)
	var reset answer
	counts := atOnce(each+1, func(i int) int {
		if i == each {
			reset = newVisitor(t, p).call(t, "POST", "/auth/reset-password", object1{"token": token, "newPassword": goodPassword + "2"})
			return 0
		}
		visitors[i] = newVisitor(t, p)
		return visitors[i].call(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword}).status
	})
	require.Equal(t, 200, reset.status, reset.text)
	require.Equal(t, each, counts[200]+counts[401], "%v", counts)
	for _, b := range visitors {
		require.False(t, b.signedIn(t), "with the old password")
	}
	newVisitor(t, p).done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword + "2"})
}

// removedWhileAsking: a member whose role, group or account is taken while they ask and ask has nothing afterwards, by session or
// token, and made nothing of which the trail does not know.
func removedWhileAsking(t *testing.T, p *process) {
	t.Helper()
	owner, _, slug := company(t, p)
	id, token := owner.invite(t, "ann@"+slug+".test", "user")
	ann := accept(t, p, token)
	group := owner.done(t, "POST", "/groups", object1{"name": "Admins", "tenantRole": "admin"}).text("group", "id")
	owner.done(t, "POST", "/groups/"+group+"/members", object1{"userId": id})
	secret := owner.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "ann's"}).text("token")
	var made []string
	var asking sync.WaitGroup
	var mu sync.Mutex
	stopped := make(chan struct{})
	cookie := ann.cookie("token")
	for worker := range 4 {
		asking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				default:
				}
				name := fmt.Sprintf("G%d-%d", worker, n)
				if a := newVisitor(t, p).call(t, "POST", "/groups", object1{"name": name}, "Cookie", cookie); a.status == 201 {
					mu.Lock()
					made = append(made, name)
					mu.Unlock()
				}
			}
		})
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(made) > 3 }, waitLong, waitStep)
	owner.done(t, "DELETE", "/groups/"+group+"/members", object1{"userId": id})
	require.Equal(t, 403, newVisitor(t, p).call(t, "POST", "/groups", object1{"name": "after"}, "Cookie", cookie).status)
	owner.done(t, "DELETE", "/users/"+id, nil)
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/groups", object1{"name": "after"}, "Cookie", cookie).status)
	require.Equal(t, 401, apiCaller{p, secret}.ask(t, "GET", "/agents", nil).status)
	close(stopped)
	asking.Wait()
	trail := owner.call(t, "GET", "/audit/logs/export?outcome=success&resourceType=groups&actorUserId="+id, nil).text
	var known []string
	for _, found := range regexp.MustCompile(`"after":\{[^{}]*"name":"(G[\d-]+)"`).FindAllStringSubmatch(trail, -1) {
		known = append(known, found[1])
	}
	slices.Sort(made)
	slices.Sort(known)
	require.Equal(t, made, known, "the trail has each once")
}

// projectGoes: a project is deleted while a session of it runs: whoever is signed in acts in another one, and nobody in it.
func projectGoes(t *testing.T, p *process) {
	t.Helper()
	owner, _, _ := company(t, p)
	own := owner.done(t, "GET", "/auth/session", nil).text("userId")
	project := owner.done(t, "POST", "/projects", object1{"name": "Second"}).text("project", "id")
	issued := owner.done(t, "POST", "/users/"+own+"/tokens", object1{"label": "one", "projectId": project})
	api := apiCaller{p, issued.text("token")}
	session := api.done(t, "POST", "/agents/sessions", object1{"agent": "assistant", "message": "Hello"}).text("id")
	owner.done(t, "POST", "/projects/active", object1{"projectId": project})
	require.Equal(t, 400, owner.call(t, "DELETE", "/projects/"+project, nil).status, "it has tokens")
	request := p.newRequest(t, "GET", api.url("/agents/sessions/"+session+"/events/stream"), nil, []string{"Authorization", "Bearer " + api.token})
	stream, err := client().Do(request)
	require.NoError(t, err)
	require.Equal(t, 200, stream.StatusCode)
	owner.done(t, "DELETE", "/users/"+own+"/tokens/"+issued.text("id"), nil)
	owner.done(t, "DELETE", "/projects/"+project, nil)
	_ = readAll(t, stream)
	require.NoError(t, stream.Body.Close())
	require.Equal(t, 401, api.ask(t, "GET", "/agents/sessions/"+session, nil).status)
	require.Equal(t, 404, owner.call(t, "POST", "/projects/active", object1{"projectId": project}).status)
	require.Equal(t, 200, owner.call(t, "GET", "/webhooks", nil).status, "the session goes on in the other project")
	require.Equal(t, 404, owner.call(t, "POST", "/users/"+own+"/tokens", object1{"label": "one", "projectId": project}).status)
	require.Equal(t, 404, owner.call(t, "POST", "/projects/"+project+"/members", object1{"userId": own}).status)
	other := owner.done(t, "POST", "/users/"+own+"/tokens", object1{"label": "two"}).text("token")
	require.Equal(t, 404, apiCaller{p, other}.ask(t, "GET", "/agents/sessions/"+session, nil).status, "it is of no other project")
}
