package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
)

// invite has somebody invited by an owner or admin, and returns who, with the token of the invitation.
func (b *visitor) invite(t *testing.T, email, role string) (id, token string) {
	t.Helper()
	made := b.done(t, "POST", "/users/invite", object1{"name": "Ida Invited", "email": email, "role": role})
	return made.text("user", "id"), made.text("invite", "token")
}

// accept accepts an invitation at a node.
func accept(t *testing.T, p *process, token string) *visitor {
	t.Helper()
	b := newVisitor(t, p)
	in := b.done(t, "POST", "/auth/accept-invite", object1{"token": token, "password": goodPassword})
	require.Equal(t, "Invitation accepted", in.text("message"))
	return b
}

// TestAccountsMembers: people are invited, change what they may, and go.
func TestAccountsMembers(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, slug := company(t, p)
	session := owner.done(t, "GET", "/auth/session", nil)
	t.Run("invitations", func(t *testing.T) { membersInvited(t, p, owner, slug) })
	t.Run("roles_count_at_once", func(t *testing.T) { membersChange(t, p, owner, slug) })
	t.Run("owners", func(t *testing.T) {
		id := session.text("userId")
		for _, c := range []struct {
			method, path string
			body         object1
			status       int
			text         string
		}{
			{"PATCH", "/users/" + id + "/permissions", object1{"servicePermissions": object1{}}, 403, "Owner permissions cannot be changed"},
			{"PATCH", "/users/" + id, object1{"canLogin": false}, 403, "Owner permissions cannot be changed"},
			{"DELETE", "/users/" + id, nil, 400, "You cannot delete your own account"},
			{"DELETE", "/users/usr_none", nil, 404, "User not found"},
			{"PATCH", "/users/" + id, object1{"role": "user"}, 400, "user " + id + " is the last owner of tenant "},
		} {
			refused := owner.call(t, c.method, c.path, c.body)
			require.Equal(t, c.status, refused.status, refused.text)
			require.True(t, strings.HasPrefix(refused.said(), c.text), refused.text)
		}
	})
	t.Run("groups", func(t *testing.T) { membersInGroups(t, p) })
	t.Run("projects", func(t *testing.T) { membersOfProjects(t, p) })
	t.Run("programmatic_users", func(t *testing.T) {
		robot := owner.done(t, "POST", "/users", object1{"name": "Robot", "role": "user", "canLogin": true}).at("user")
		require.False(t, robot.flag("canLogin"))
		secret := owner.done(t, "POST", "/users/"+robot.text("id")+"/tokens", object1{"label": "robot's"}).text("token")
		apiCaller{p, secret}.done(t, "GET", "/agents", nil)
		require.Equal(t, 409, owner.call(t, "POST", "/users/"+robot.text("id")+"/invite", nil).status, "they never sign in")
		owner.done(t, "DELETE", "/users/"+robot.text("id"), nil)
		require.Equal(t, 401, apiCaller{p, secret}.ask(t, "GET", "/agents", nil).status)
	})
}

func membersInvited(t *testing.T, p *process, owner *visitor, slug string) {
	t.Helper()
	email := "ida@" + slug + ".test"
	made := owner.call(t, "POST", "/users/invite", object1{"name": "Ida", "email": strings.ToUpper(email), "role": "user"}).fits(201, object(fields{
		"user": object(fields{
			"id": idOf("usr"), "_id": idOf("usr"), "name": exactly("Ida"), "email": exactly(email), "role": exactly("user"), "canLogin": exactly(true),
			"servicePermissions": exactly(nil), "projectIds": anything, "invitedBy": idOf("usr"), "invitedAt": nonEmpty, "inviteAcceptedAt": exactly(nil),
			"createdAt": nonEmpty, "updatedAt": nonEmpty,
		}),
		"invite": object(fields{"token": nonEmpty, "url": exactly(nil), "expiresAt": nonEmpty}),
	}))
	id, token := made.text("user", "id"), made.text("invite", "token")
	login := object1{"email": email, "password": goodPassword, "slug": slug}
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/auth/login", login).status, "not yet")
	require.NotContains(t, owner.call(t, "GET", "/users", nil).text, token)
	for _, wrong := range []struct {
		body object1
		text string
	}{
		{object1{"password": goodPassword}, "token is required"},
		{object1{"token": token, "password": "x"}, "Password must be"},
		{object1{"token": token + "0", "password": goodPassword}, "Invalid or expired invitation"},
		{object1{"token": "usr_none.00", "password": goodPassword}, "Invalid or expired invitation"},
	} {
		refused := newVisitor(t, p).call(t, "POST", "/auth/accept-invite", wrong.body)
		require.Equal(t, 400, refused.status, refused.text)
		require.Contains(t, refused.said(), wrong.text)
		require.Empty(t, refused.header.Values("Set-Cookie"))
	}
	foreign := newVisitor(t, p).call(t, "POST", "/auth/accept-invite", object1{"token": token, "password": goodPassword}, "Origin", "https://evil.test")
	require.Equal(t, 403, foreign.status)
	ida := accept(t, p, token)
	require.True(t, ida.signedIn(t))
	require.Equal(t, 400, newVisitor(t, p).call(t, "POST", "/auth/accept-invite", object1{"token": token, "password": goodPassword}).status, "good once")
	require.Equal(t, 409, owner.call(t, "POST", "/users/"+id+"/invite", nil).status)
	newVisitor(t, p).done(t, "POST", "/auth/login", login)
	for _, c := range []struct{ method, path string }{{"GET", "/users"}, {"POST", "/users/invite"}, {"GET", "/groups"}, {"DELETE", "/users/" + id}} {
		refused := ida.call(t, c.method, c.path, nil)
		require.Equal(t, 403, refused.status, refused.text)
		require.Regexp(t, "^dec_", decode(t, refused.text).text("decisionId"))
	}
	for _, wrong := range []struct {
		body   object1
		status int
		text   string
	}{
		{object1{"name": "X", "role": "user"}, 400, "Name, email, and role are required"},
		{object1{"name": "X", "email": "nobody", "role": "user"}, 400, "Invalid email format"},
		{object1{"name": "X", "email": "x@y.test", "role": "owner"}, 400, "Invalid role. Must be user, project_admin, or admin"},
		{object1{"name": "X", "email": email, "role": "user"}, 409, "User with this email already exists in your organization"},
		{object1{"name": "X", "email": "x@y.test", "role": "user", "projectId": "proj_none"}, 404, "Project not found"},
	} {
		refused := owner.call(t, "POST", "/users/invite", wrong.body)
		require.Equal(t, wrong.status, refused.status, refused.text)
		require.Equal(t, wrong.text, refused.said())
	}
	stranger, _, _ := company(t, p)
	require.Equal(t, 404, stranger.call(t, "DELETE", "/users/"+id, nil).status)
	require.Equal(t, 404, stranger.call(t, "PATCH", "/users/"+id, object1{"name": "Stolen"}).status)
	require.True(t, ida.signedIn(t))

	owner.done(t, "PATCH", "/users/"+id, object1{"canLogin": false})
	require.False(t, ida.signedIn(t))
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/auth/login", login).status)
	owner.done(t, "PATCH", "/users/"+id, object1{"canLogin": true})
	require.False(t, ida.signedIn(t), "old sessions stay over")
	newVisitor(t, p).done(t, "POST", "/auth/login", login)
	require.True(t, owner.done(t, "DELETE", "/users/"+id, nil).flag("success"))
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/auth/login", login).status)
	again := owner.done(t, "POST", "/users/invite", object1{"name": "Ida", "email": email, "role": "user"})
	require.NotEqual(t, id, again.text("user", "id"), "nothing of who they were comes back")
	owner.done(t, "DELETE", "/users/"+again.text("user", "id"), nil)
	require.Equal(t, 400, newVisitor(t, p).call(t, "POST", "/auth/accept-invite", object1{"token": again.text("invite", "token"), "password": goodPassword}).status)
}

func membersChange(t *testing.T, p *process, owner *visitor, slug string) {
	t.Helper()
	id, token := owner.invite(t, "ada@"+slug+".test", "user")
	ada := accept(t, p, token)
	require.Equal(t, 403, ada.call(t, "GET", "/users", nil).status)
	require.Equal(t, "admin", owner.done(t, "PATCH", "/users/"+id, object1{"role": "admin"}).text("user", "role"))
	services := ada.done(t, "GET", "/users/permissions/services", nil)
	require.Equal(t, []any{"none", "read", "write", "admin"}, services.at("levels").v)
	require.Len(t, services.at("services").list(), len(access.Definitions()))
	ada.done(t, "GET", "/users", nil)
	owner.done(t, "PATCH", "/users/"+id+"/permissions", object1{"servicePermissions": object1{"members": "read", "agents": "none"}})
	ada.done(t, "GET", "/users", nil)
	require.Equal(t, 403, ada.call(t, "PATCH", "/users/"+id+"/permissions", object1{"servicePermissions": nil}).status, "not by themselves")
	require.Equal(t, 400, owner.call(t, "PATCH", "/users/"+id+"/permissions", object1{}).status, "nothing is given")
	require.Equal(t, 400, owner.call(t, "PATCH", "/users/"+id+"/permissions", object1{"servicePermissions": 3}).status)
	owner.done(t, "PATCH", "/users/"+id+"/permissions", object1{"servicePermissions": nil})
	ownerID := owner.done(t, "GET", "/auth/session", nil).text("userId")
	refused := ada.call(t, "DELETE", "/users/"+ownerID, nil)
	require.Equal(t, []any{403, "Cannot delete the owner account"}, []any{refused.status, refused.said()})
	refused = ada.call(t, "PATCH", "/users/"+ownerID+"/permissions", object1{"servicePermissions": object1{}})
	require.Equal(t, []any{403, "Owner permissions cannot be changed"}, []any{refused.status, refused.said()})
	owner.done(t, "DELETE", "/users/"+id, nil)
	require.False(t, ada.signedIn(t))
}

func membersInGroups(t *testing.T, p *process) {
	t.Helper()
	owner, _, slug := company(t, p)
	id, token := owner.invite(t, "gus@"+slug+".test", "user")
	gus := accept(t, p, token)
	group := owner.done(t, "POST", "/groups", object1{"name": "Staff", "description": "All of them", "tenantRole": "admin"}).at("group")
	require.Equal(t, []string{"Staff", "admin", "local"}, []string{group.text("name"), group.text("tenantRole"), group.text("source")})
	at := "/groups/" + group.text("id")
	require.Equal(t, 409, owner.call(t, "POST", "/groups", object1{"name": "STAFF"}).status)
	require.Equal(t, 400, owner.call(t, "POST", "/groups", object1{"name": "Bosses", "tenantRole": "owner"}).status, "it cannot be granted")
	require.Equal(t, 400, owner.call(t, "POST", "/groups", object1{"tenantRole": "user"}).status)
	require.Equal(t, 404, owner.call(t, "POST", at+"/members", object1{"userId": "usr_none"}).status)
	secret := owner.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "gus's"}).text("token")
	added := owner.done(t, "POST", at+"/members", object1{"userId": id})
	require.Len(t, added.at("members").list(), 1)
	require.Equal(t, "admin", gus.done(t, "GET", "/auth/session", nil).text("role"))
	gus.done(t, "GET", "/users", nil)
	require.Equal(t, 403, apiCaller{p, secret}.ask(t, "GET", "/users", nil).status, "groups do not count for tokens")
	require.Equal(t, 200, owner.call(t, "GET", "/groups", nil).status)
	owner.done(t, "PATCH", at, object1{"tenantRole": nil, "servicePermissions": object1{"members": "read"}})
	require.Equal(t, 403, gus.call(t, "GET", "/users", nil).status, "the service is given, and the role asked for")
	owner.done(t, "DELETE", at+"/members?userId="+id, nil)
	require.Equal(t, 404, owner.call(t, "DELETE", at+"/members", object1{"userId": id}).status)
	require.Empty(t, owner.done(t, "GET", at, nil).at("members").list())
	owner.done(t, "DELETE", at, nil)
	require.Equal(t, 404, owner.call(t, "GET", at, nil).status)
	stranger, _, _ := company(t, p)
	require.Equal(t, 404, stranger.call(t, "PATCH", at, object1{"name": "x"}).status)
}

func membersOfProjects(t *testing.T, p *process) {
	t.Helper()
	owner, _, slug := company(t, p)
	id, token := owner.invite(t, "pia@"+slug+".test", "user")
	pia := accept(t, p, token)
	second := owner.done(t, "POST", "/projects", object1{"name": "Second One", "description": "of two"}).at("project")
	require.Equal(t, []string{"second-one", "Second One", "of two"}, []string{second.text("key"), second.text("name"), second.text("description")})
	refused := owner.call(t, "POST", "/projects", object1{"name": "Third"})
	require.Equal(t, []any{429, "projects limit reached (2/2)"}, []any{refused.status, refused.said()})
	at := "/projects/" + second.text("id")
	require.Len(t, pia.done(t, "GET", "/projects", nil).at("projects").list(), 1)
	require.Equal(t, 404, pia.call(t, "POST", "/projects/active", object1{"projectId": second.text("id")}).status)
	require.Equal(t, 403, pia.call(t, "PATCH", at, object1{"name": "Mine"}).status)
	require.Equal(t, 403, pia.call(t, "POST", "/projects", object1{"name": "Mine"}).status)
	added := owner.call(t, "POST", at+"/members", object1{"userId": id, "role": "project_admin"})
	require.Equal(t, 201, added.status, added.text)
	require.Equal(t, 409, owner.call(t, "POST", at+"/members", object1{"userId": id}).status)
	require.Len(t, pia.done(t, "GET", "/projects", nil).at("projects").list(), 2)
	pia.done(t, "POST", "/projects/active", object1{"projectId": second.text("id")})
	member := owner.done(t, "PATCH", at+"/members", object1{"userId": id, "role": "member"}).at("member")
	require.Equal(t, []string{"member", "user"}, []string{member.text("role"), member.text("tenantRole")})
	owner.done(t, "PATCH", at+"/members/permissions", object1{"userId": id, "servicePermissions": object1{"webhooks": "read"}})
	require.Equal(t, 200, pia.call(t, "GET", "/webhooks", nil).status)
	listed := owner.done(t, "GET", at+"/members", nil)
	require.Len(t, listed.at("members").list(), 2)
	secret := owner.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "pia's", "projectId": second.text("id")}).text("token")
	apiCaller{p, secret}.done(t, "GET", "/agents", nil)
	require.Equal(t, 400, owner.call(t, "DELETE", at, nil).status, "it has tokens")
	owner.done(t, "DELETE", at+"/members", object1{"userId": id})
	require.Equal(t, 401, apiCaller{p, secret}.ask(t, "GET", "/agents", nil).status)
	require.Len(t, pia.done(t, "GET", "/projects", nil).at("projects").list(), 1)
	require.Equal(t, 403, pia.call(t, "GET", "/webhooks", nil).status, "another project is the active one")
	require.Equal(t, "Renamed", owner.done(t, "PATCH", at, object1{"name": " Renamed "}).text("project", "name"))
	require.Equal(t, 400, owner.call(t, "PATCH", at, object1{"name": " "}).status)
	owner.done(t, "DELETE", at, nil)
	require.Equal(t, 404, owner.call(t, "PATCH", at, object1{"name": "x"}).status)
	last := owner.done(t, "GET", "/projects", nil).at("projects").list()
	require.Len(t, last, 1)
	refused = owner.call(t, "DELETE", "/projects/"+last[0].text("id"), nil)
	require.Equal(t, 400, refused.status, refused.text)
}

// membersOverNodes is a part of TestAccountsOfACluster: who is invited at one node accepts at another, and who is removed is out at all
// of them within five seconds, also on open streams.
func membersOverNodes(t *testing.T, at []*visitor, held string) {
	t.Helper()
	owner := at[0]
	id, token := owner.invite(t, "mia@acme.test", "user")
	var wg sync.WaitGroup
	answers := make([]answer, len(at))
	for i, b := range at {
		wg.Go(func() {
			answers[i] = b.asking(t, "POST", "http://"+b.listen+"/api/auth/accept-invite", object1{"token": token, "password": goodPassword})()
		})
	}
	wg.Wait()
	counts, cookie := map[int]int{}, ""
	for _, a := range answers {
		counts[a.status]++
		if a.status == 200 {
			cookie = sessionCookie(a)
		}
	}
	require.Equal(t, map[int]int{200: 1, 400: len(at) - 1}, counts, "it is good once, at whatever nodes")
	secret := owner.done(t, "POST", "/users/"+id+"/tokens", object1{"label": "mia's"}).text("token")
	var streams []*http.Response
	for _, b := range at {
		require.Equal(t, 200, newVisitor(t, b.process).call(t, "GET", "/auth/session", nil, "Cookie", cookie).status)
		caller := apiCaller{b.process, secret}
		var session string
		require.Eventually(t, func() bool {
			a := caller.ask(t, "POST", "/agents/sessions", object1{"agent": "assistant"})
			if a.status == 201 {
				session = decode(t, a.text).text("id")
			}
			return session != ""
		}, waitLong, waitStep)
		request := b.newRequest(t, "GET", caller.url("/agents/sessions/"+session+"/events/stream"), nil, []string{"Authorization", "Bearer " + secret})
		response, err := client().Do(request) //nolint:bodyclose // closed below, once it has ended
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		streams = append(streams, response) //nolint:bodyclose // likewise
	}
	removed := time.Now()
	owner.done(t, "DELETE", "/users/"+id, nil)
	for i, b := range at {
		require.Equal(t, 401, newVisitor(t, b.process).call(t, "GET", "/auth/session", nil, "Cookie", cookie).status)
		require.Equal(t, 401, apiCaller{b.process, secret}.ask(t, "GET", "/agents", nil).status)
		_ = readAll(t, streams[i])
		require.NoError(t, streams[i].Body.Close())
	}
	require.Less(t, time.Since(removed), 5*time.Second, "all streams have ended")

	projects := make([]int, 3*len(at))
	for i := range projects {
		b := at[i%len(at)]
		wg.Go(func() {
			projects[i] = b.asking(t, "POST", "http://"+b.listen+"/api/projects", object1{"name": "P" + strings.Repeat("x", i)}, "Cookie", held)().status
		})
	}
	wg.Wait()
	clear(counts)
	for _, status := range projects {
		counts[status]++
	}
	require.Equal(t, map[int]int{201: 1, 429: len(projects) - 1}, counts, "two of a FREE tenant, through all nodes at once")
}

// sessionCookie is the session cookie that an answer sets.
func sessionCookie(a answer) string {
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.Name == "token" {
			return "token=" + cookie.Value
		}
	}
	return ""
}
