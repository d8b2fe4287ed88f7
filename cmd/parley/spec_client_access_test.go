package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests of TestClient* hold real processes against document 1, the Client API. httpedge/clientapi/SPEC.md says which of them
// covers which sentence.

// apiCaller is who asks the Client API of a process.
type apiCaller struct {
	p     *process
	token string
}

// houseToken is the token that the configuration of the house gives.
const houseToken = "service_the_house_token_0123456789"

// houseConfig is a node whose log says everything, and which may call models on this machine.
const houseConfig = `
bootstrap_token: ` + houseToken + `
outbound: {allow: [127.0.0.0/8]}
log: {level: debug}
gateway: {retry_delay: 1ms, breaker_reset: 100ms}
agents:
  - id: fixed
    name: Fixed Agent
    model: {provider: scripted, script: {tokens: 5}}
`

// house is the owner of the first tenant, at the node that these tests share.
func house(t *testing.T) apiCaller {
	t.Helper()
	return apiCaller{shared.of(t, houseConfig), houseToken}
}

// ask is process.ask of the Client API.
func (b apiCaller) ask(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	if b.token != "" {
		headers = append([]string{"Authorization", "Bearer " + b.token}, headers...)
	}
	return b.p.ask(t, method, b.url(path), body, headers...)
}

func (b apiCaller) url(path string) string { return "http://" + b.p.listen + "/api/client/v1" + path }

// done asks for what must succeed, and returns the body.
func (b apiCaller) done(t *testing.T, method, path string, body any, headers ...string) tree {
	t.Helper()
	a := b.ask(t, method, path, body, headers...)
	require.Truef(t, a.status >= 200 && a.status < 300, "%s: %d %s", a.what, a.status, a.text)
	return decode(t, a.text)
}

// trying is ask for those who expect failures of the server, too.
func (b apiCaller) trying(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	request := b.p.newRequest(t, method, b.url(path), body, append([]string{"Authorization", "Bearer " + b.token}, headers...))
	response, err := client().Do(request)
	require.NoError(t, err)
	text := readAll(t, response)
	require.NoError(t, response.Body.Close())
	return answer{t, method + " " + path, response.StatusCode, response.Header, text}
}

// at is the same apiCaller at another node.
func (b apiCaller) at(p *process) apiCaller { return apiCaller{p, b.token} }

// with is another token at the same node.
func (b apiCaller) with(token string) apiCaller { return apiCaller{b.p, token} }

// denied checks the status, code and text of a refusal.
func (a answer) denied(status int, code, text string) {
	a.t.Helper()
	require.Equalf(a.t, status, a.status, "%s: %s", a.what, a.text)
	body := decode(a.t, a.text)
	require.Equal(a.t, code, body.text("code"), a.what)
	if said := body.text("error"); said != "Unauthorized" {
		require.Equal(a.t, text, said, a.what)
		return
	}
	require.Equal(a.t, text, body.text("message"), a.what)
}

// operate does what an operator does over the operations listener.
func operate(t *testing.T, p *process, method, path string, body any) tree {
	t.Helper()
	request := p.newRequest(t, method, "http://"+p.ops+"/v1"+path, body, nil)
	response, err := client().Do(request)
	require.NoError(t, err)
	text := readAll(t, response)
	require.NoError(t, response.Body.Close())
	require.Equalf(t, 2, response.StatusCode/100, "%s %s: %d %s", method, path, response.StatusCode, text)
	return decode(t, text)
}

// tenant is a tenant of a test's own.
type tenant struct {
	apiCaller // its owner

	id, project, owner string
}

// newTenant makes a tenant with a licence, and a token of its owner.
func newTenant(t *testing.T, p *process, tier string) *tenant {
	t.Helper()
	made := operate(t, p, "POST", "/tenants", object1{"name": "Tenant of " + t.Name(), "slug": slugFor(t), "tier": tier})
	n := &tenant{id: made.text("id"), project: made.text("projectId"), owner: made.text("ownerId")}
	n.apiCaller = apiCaller{p, operate(t, p, "POST", "/tokens", object1{"userId": n.owner, "label": "owner's"}).text("token")}
	return n
}

// slugFor is a slug that no other test has.
func slugFor(t *testing.T) string {
	t.Helper()
	_, port, _ := strings.Cut(freeAddress(t), ":") // handed out once
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(t.Name()), "-"), "-") + "-" + port
}

// user makes a user and a token of his; scope is nil, or what the token may do at most.
func (n *tenant) user(t *testing.T, role string, scope any) (id string, b apiCaller) {
	t.Helper()
	id = n.done(t, "POST", "/users", object1{"name": role, "role": role}).text("user", "id")
	body := object1{"label": "of " + role}
	if scope != nil {
		body["servicePermissions"] = scope
	}
	return id, n.with(n.done(t, "POST", "/users/"+id+"/tokens", body).text("token"))
}

// scripted gives the tenant's project a model that needs nobody.
func (n *tenant) scripted(t *testing.T) {
	t.Helper()
	n.done(t, "POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	n.done(t, "POST", "/models", scriptedModel("scripted"))
}

func scriptedModel(key string) object1 {
	return object1{
		"key": key, "name": key, "providerKey": "scripted", "category": "llm", "modelId": "m",
		"pricing": object1{"inputTokenPer1M": 1, "outputTokenPer1M": 1}, "settings": object1{"script": object1{"tokens": 5}},
	}
}

// newSession creates a session with the agent of the configuration.
func (b apiCaller) newSession(t *testing.T) string {
	t.Helper()
	return b.done(t, "POST", "/agents/sessions", object1{"agent": "fixed"}).text("id")
}

var apiToken = regexp.MustCompile(`service_[0-9a-f]{64}`) // a constant

// TestClientBootstrap: the first start makes a token and shows it once, unless the configuration gives one.
func TestClientBootstrap(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs a process")
	}
	const config = "auth: {enabled: true, provider: static, tokens: [{token: of-the-conversation-server, user_id: ada}]}\n"
	p := newProcess(t, config+"log: {level: debug}\n")
	greeting := &processLog{}
	p.greets = greeting
	p.start()
	var found []string
	require.Eventually(t, func() bool {
		found = apiToken.FindAllString(greeting.String(), -1)
		return len(found) > 0
	}, 30*time.Second, 5*time.Millisecond)
	require.Len(t, found, 1, "shown once")
	first := apiCaller{p, found[0]}
	first.done(t, "GET", "/agents", nil)
	first.done(t, "GET", "/users", nil)
	t.Run("valid_on_the_conversation_server_too", func(t *testing.T) {
		p.ask(t, "GET", "/agents", nil).refused(401, "AUTH_REQUIRED")
		p.ask(t, "GET", "/agents", nil, "Authorization", "Bearer "+first.token).fits(200, anyObject)
		p.ask(t, "GET", "/agents", nil, "Authorization", "Bearer of-the-conversation-server").fits(200, anyObject)
		p.ask(t, "GET", "/agents", nil, "Authorization", "Bearer service_"+strings.Repeat("0", 64)).refused(401, "AUTH_REQUIRED")
		session := first.done(t, "POST", "/agents/sessions", object1{"agent": "assistant"}).text("id")
		p.ask(t, "GET", "/conversations/"+session, nil, "Authorization", "Bearer "+first.token).fits(200, anyObject)
	})
	require.NotContains(t, p.log.String(), first.token)
	require.NoError(t, p.terminate())
	notInFiles(t, p.dir, first.token)

	t.Run("not_shown_again", func(t *testing.T) {
		again := &processLog{}
		p.greets = again
		p.start()
		first.done(t, "GET", "/agents", nil)
		require.NoError(t, p.terminate())
		require.Empty(t, apiToken.FindAllString(again.String(), -1))
		require.Contains(t, again.String(), "Parley is ready")
	})
}

// TestClientUnauthorized: the words of document 3, 1.3, whatever the route is.
func TestClientUnauthorized(t *testing.T) {
	t.Parallel()
	h := house(t)
	const malformed = "Missing or invalid Authorization header. Use: Bearer <token>"
	for name, c := range map[string]struct{ header, text string }{
		"nothing": {"", malformed}, "another scheme": {"Basic abc", malformed}, "lower case": {"apiCaller " + houseToken, malformed},
		"no blank": {"Bearer" + houseToken, malformed}, "empty": {"Bearer  ", "Missing API token"},
		"unknown": {"Bearer service_" + strings.Repeat("a", 64), "Invalid API token"}, "no token of ours": {"Bearer x", "Invalid API token"},
		"too long": {"Bearer " + strings.Repeat("x", 7000), "Invalid API token"},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			if c.header != "" {
				headers = []string{"Authorization", c.header}
			}
			a := h.with("").ask(t, "GET", "/agents", nil, headers...)
			a.denied(401, "unauthorized", c.text)
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
			for name, value := range map[string]string{
				"X-Frame-Options": "DENY", "Referrer-Policy": "strict-origin-when-cross-origin",
				"Strict-Transport-Security": "max-age=31536000; includeSubDomains",
			} {
				require.Equal(t, value, a.header.Get(name), "document 3, 1.1")
			}
			a = h.with("").ask(t, "POST", "/embeddings", `{}`, headers...)
			require.Equal(t, 401, a.status, a.text)
			require.Equal(t, []string{c.text, "invalid_request_error"}, []string{decode(t, a.text).text("error", "message"), decode(t, a.text).text("error", "type")})
		})
	}
}

// TestClientUsers: users who own tokens, made over the API.
func TestClientUsers(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	userRecord := fields{
		"id": nonEmpty, "_id": nonEmpty, "name": exactly("Robot"), "email": exactly("robot@example.com"), "role": exactly("user"), "canLogin": exactly(false),
		"servicePermissions": exactly(nil), "projectIds": exactly([]string{n.project}), "invitedBy": exactly(n.owner),
		"invitedAt": exactly(nil), "inviteAcceptedAt": exactly(nil), "createdAt": moment, "updatedAt": moment,
	}
	made := n.ask(t, "POST", "/users", object1{"name": " Robot ", "role": "user", "email": "Robot@Example.com", "canLogin": true, "id": "usr_mine"}).
		fits(201, object(fields{"user": object(userRecord)}))
	id := made.text("user", "id")
	require.NotEqual(t, "usr_mine", id)

	t.Run("token_is_shown_once", func(t *testing.T) {
		token := n.ask(t, "POST", "/users/"+id+"/tokens", object1{"label": "its first", "servicePermissions": object1{"models": "read", "agents": "none", "nonsense": "admin"}}).
			fits(201, object(fields{
				"id": nonEmpty, "label": exactly("its first"), "servicePermissions": exactly(object1{"models": "read", "agents": "none"}),
				"projectId": exactly(n.project), "expiresAt": exactly(nil), "createdAt": moment,
				"token": nonEmpty, "message": exactly("API token created successfully"),
			}))
		require.Regexp(t, "^service_[0-9a-f]{64}$", token.text("token"))
		robot := n.with(token.text("token"))
		robot.done(t, "GET", "/models", nil)
		listed := n.ask(t, "GET", "/users/"+id+"/tokens", nil)
		require.NotContains(t, listed.text, token.text("token"))
		row := decode(t, listed.text).at("tokens").list()[0]
		require.Equal(t, token.text("token")[:16], row.text("tokenPrefix"))
		require.Eventually(t, func() bool {
			return n.done(t, "GET", "/users/"+id+"/tokens", nil).at("tokens").list()[0].at("lastUsed").v != nil
		}, 30*time.Second, 10*time.Millisecond, "lastUsed")
		t.Run("and_can_be_deleted", func(t *testing.T) {
			path := "/users/" + id + "/tokens/" + token.text("id")
			require.Equal(t, "API token deleted successfully", n.done(t, "DELETE", path, nil).text("message"))
			robot.ask(t, "GET", "/models", nil).denied(401, "unauthorized", "Invalid API token")
			n.ask(t, "DELETE", path, nil).denied(404, "not_found", "Token not found")
		})
	})
	t.Run("refusals", func(t *testing.T) {
		other := newTenant(t, n.p, "ON_PREMISE")
		for _, c := range []struct {
			path       string
			body       any
			status     int
			code, text string
		}{
			{"/users", object1{"role": "user"}, 400, "invalid_request", "Name and role are required"},
			{"/users", object1{"name": "x"}, 400, "invalid_request", "Name and role are required"},
			{"/users", object1{"name": "x", "role": "owner"}, 400, "invalid_request", "Invalid role. Must be user, project_admin, or admin"},
			{"/users", object1{"name": "x", "role": "user", "email": "x"}, 400, "invalid_request", "Invalid email format"},
			{"/users", object1{"name": "x", "role": "user", "email": "ROBOT@example.com"}, 409, "conflict", "User with this email already exists in your organization"},
			{"/users", object1{"name": "x", "role": "user", "projectId": other.project}, 404, "not_found", "Project not found"},
			{"/users/" + id + "/tokens", object1{"label": "ab"}, 400, "invalid_request", "Label must be at least 3 characters"},
			{"/users/" + id + "/tokens", object1{"label": "abc", "expiresAt": "2001-01-01T00:00:00Z"}, 400, "invalid_request", "expiresAt must be a date-time (ISO 8601) in the future"},
			{"/users/" + id + "/tokens", object1{"label": "abc", "projectId": other.project}, 404, "not_found", "Project not found"},
			{"/users/" + other.owner + "/tokens", object1{"label": "abc"}, 404, "not_found", "User not found"},
			{"/users/usr_nobody/tokens", object1{"label": "abc"}, 404, "not_found", "User not found"},
		} {
			n.ask(t, "POST", c.path, c.body).denied(c.status, c.code, c.text)
		}
	})
	t.Run("who_makes_a_token_gives_away_no_more_than_he_has", func(t *testing.T) {
		_, narrow := n.user(t, "admin", object1{"members": "admin", "models": "read"})
		made := narrow.done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": "as the owner", "servicePermissions": object1{"models": "admin", "agents": "admin"}})
		require.Equal(t, "read", made.text("servicePermissions", "models"))
		n.with(made.text("token")).ask(t, "GET", "/agents", nil).denied(403, "forbidden", "Forbidden: agents requires read permission")
		whole := narrow.done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": "without a scope"})
		n.with(whole.text("token")).ask(t, "GET", "/agents", nil).denied(403, "forbidden", "Forbidden: agents requires read permission")
	})
	t.Run("listed_newest_first", func(t *testing.T) {
		all := n.done(t, "GET", "/users", nil).at("users").list()
		require.GreaterOrEqual(t, len(all), 3)
		require.Equal(t, n.owner, all[len(all)-1].text("id"))
		page := n.done(t, "GET", "/users?limit=1&offset=1", nil)
		require.Equal(t, all[1].text("id"), page.at("users").list()[0].text("id"))
		require.True(t, page.flag("pagination", "hasMore"))
	})
}

// TestClientRoles: what a token gives is the lower of what its owner may and what its scope allows.
func TestClientRoles(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	own := n.newSession(t)
	agent := n.done(t, "POST", "/agents", object1{"name": "Roles", "config": object1{"modelKey": "scripted"}}).text("agent", "key")
	asked := []struct{ what, method, path, body, service, level string }{
		{"list agents", "GET", "/agents", "", "agents", "read"},
		{"list sessions", "GET", "/agents/sessions", "", "agents", "read"},
		{"create an agent", "POST", "/agents", `{"name":"x","config":{"modelKey":"scripted"}}`, "agents", "write"},
		{"publish", "POST", "/agents/" + agent + "/publish", "", "agents", "write"},
		{"run an agent", "POST", "/agents/responses", `{"model":"fixed","input":"hi"}`, "agents", "write"},
		{"create a session", "POST", "/agents/sessions", `{"agent":"fixed"}`, "agents", "write"},
		{"list models", "GET", "/models", "", "models", "read"},
		{"create a model", "POST", "/models", `{"name":"x","providerKey":"scripted","category":"llm","modelId":"m","pricing":{},"settings":{}}`, "models", "write"},
		{"run a draft", "POST", "/responses", `{"model":"fixed","input":"hi"}`, "models", "write"},
		{"chat", "POST", "/chat/completions", `{"model":"scripted","messages":[{"role":"user","content":"hi"}]}`, "models", "write"},
		{"moderate", "POST", "/moderations", `{"input":"hi"}`, "guardrails", "write"},
		{"list users", "GET", "/users", "", "members", "read"},
		{"create a user", "POST", "/users", `{"name":"x","role":"user"}`, "members", "admin"},
	}
	ranks := map[string]int{"none": 0, "read": 1, "write": 2, "admin": 3}
	for _, c := range []struct {
		name, role string
		scope      any
		levels     map[string]string // of what is not named, rest
		rest       string
	}{
		{"owner", "", nil, nil, "admin"},
		{"admin", "admin", nil, nil, "admin"},
		{"project_admin", "project_admin", nil, map[string]string{"members": "none"}, "write"},
		{"user", "user", nil, map[string]string{"members": "none"}, "write"},
		{"empty_scope", "admin", object1{}, nil, "none"},
		{"read_only", "admin", object1{"agents": "read", "models": "read"}, map[string]string{"agents": "read", "models": "read"}, "none"},
		{"one_service", "user", object1{"models": "write"}, map[string]string{"models": "write"}, "none"},
		{"scope_never_widens", "user", object1{"members": "admin", "agents": "admin"}, map[string]string{"agents": "write"}, "none"},
		{"scope_as_a_list", "admin", []string{"models:read", "guardrails.write"}, map[string]string{"models": "read", "guardrails": "write"}, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := n.apiCaller
			if c.role != "" {
				_, b = n.user(t, c.role, c.scope)
			}
			for _, r := range asked {
				level := c.rest
				if named, ok := c.levels[r.service]; ok {
					level = named
				}
				a := b.ask(t, r.method, r.path, r.body)
				if ranks[level] >= ranks[r.level] {
					require.Equalf(t, 2, a.status/100, "%s: %s: %s", r.what, a.what, a.text)
					continue
				}
				text := fmt.Sprintf("Forbidden: %s requires %s permission", r.service, r.level)
				require.Equalf(t, 403, a.status, "%s: %s", a.what, a.text)
				require.Contains(t, a.text, text)
			}
		})
	}
	t.Run("only_those_above_see_others_sessions", func(t *testing.T) {
		for role, sees := range map[string]bool{"admin": true, "project_admin": true, "user": false} {
			_, b := n.user(t, role, nil)
			a := b.ask(t, "GET", "/agents/sessions/"+own, nil)
			if sees {
				require.Equal(t, 200, a.status, a.text)
			} else {
				a.denied(404, "session_not_found", "Session not found")
			}
			require.Equal(t, sees, strings.Contains(b.ask(t, "GET", "/agents/sessions?limit=100", nil).text, own), role)
		}
	})
}

// TestClientTokens: how a token ends.
func TestClientTokens(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	t.Run("expired", func(t *testing.T) {
		at := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)
		made := n.ask(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": "short", "expiresAt": at})
		if made.status == http.StatusBadRequest {
			t.Skip("it expired before it was made")
		}
		b := n.with(decode(t, made.text).text("token"))
		b.ask(t, "GET", "/agents", nil) // remembered, if it is still valid
		var last answer
		require.Eventually(t, func() bool {
			last = b.ask(t, "GET", "/agents", nil)
			return last.status != http.StatusOK
		}, 30*time.Second, 20*time.Millisecond)
		last.denied(401, "unauthorized", "API token has expired")
	})
	t.Run("revoked_by_the_operator", func(t *testing.T) {
		made := operate(t, n.p, "POST", "/tokens", object1{"userId": n.owner, "label": "of the operator"})
		b := n.with(made.text("token"))
		b.done(t, "GET", "/agents", nil)
		operate(t, n.p, "DELETE", "/tokens/"+made.text("id"), nil)
		b.ask(t, "GET", "/agents", nil).denied(401, "unauthorized", "Invalid API token")
	})
	t.Run("goes_with_its_user", func(t *testing.T) {
		id, b := n.user(t, "admin", nil)
		b.done(t, "GET", "/users", nil)
		operate(t, n.p, "PATCH", "/users/"+id, object1{"role": "user"})
		b.ask(t, "GET", "/users", nil).denied(403, "forbidden", "Forbidden: members requires read permission")
		operate(t, n.p, "DELETE", "/users/"+id, nil)
		b.ask(t, "GET", "/users", nil).denied(401, "unauthorized", "Invalid API token")
	})
}

// TestClientProjects: a token is of one project, and sees nothing of others.
func TestClientProjects(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	second := operate(t, n.p, "POST", "/projects", object1{"tenantId": n.id, "key": "second"}).text("id")
	there := n.with(n.done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": "of the second", "projectId": second}).text("token"))
	agent := n.done(t, "POST", "/agents", object1{"name": "First only", "config": object1{"modelKey": "scripted"}}).text("agent", "key")
	session := n.newSession(t)
	n.done(t, "GET", "/agents/"+agent, nil)
	there.ask(t, "GET", "/agents/"+agent, nil).denied(404, "agent_not_found", "Agent not found")
	there.ask(t, "GET", "/agents/sessions/"+session, nil).denied(404, "session_not_found", "Session not found")
	there.ask(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"}).denied(404, "agent_not_found", "Agent not found")
	require.Empty(t, there.done(t, "GET", "/agents/sessions", nil).at("data").list())
	require.NotContains(t, there.ask(t, "GET", "/agents", nil).text, agent)
	require.Contains(t, texts(there.done(t, "GET", "/agents", nil).at("agents").list(), "key"), "fixed", "the configuration's are everybody's")
}

// TestClientLicence: what a tier has, and how much of it.
func TestClientLicence(t *testing.T) {
	t.Parallel()
	p := house(t).p
	t.Run("starter_has_no_moderations", func(t *testing.T) {
		n := newTenant(t, p, "STARTER")
		n.done(t, "POST", "/agents/responses", object1{"model": "fixed", "input": "hi"})
		a := n.ask(t, "POST", "/moderations", object1{"input": "hi"})
		require.Equal(t, 403, a.status, a.text)
		require.Equal(t, "This feature is not available in your license", decode(t, a.text).text("error", "message"))
		t.Run("until_it_is_upgraded", func(t *testing.T) {
			operate(t, p, "PATCH", "/tenants/"+n.id, object1{"tier": "PROFESSIONAL"})
			n.done(t, "POST", "/moderations", object1{"input": "hi"})
		})
	})
	t.Run("free_has_little_of_everything", func(t *testing.T) {
		n := newTenant(t, p, "FREE")
		n.done(t, "POST", "/moderations", object1{"input": "hi"})
		n.scripted(t)
		for i := range 4 {
			n.done(t, "POST", "/users", object1{"name": fmt.Sprint("robot ", i), "role": "user"})
			n.done(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": fmt.Sprint("token ", i)})
			n.done(t, "POST", "/models", scriptedModel(fmt.Sprint("model-", i)))
		}
		n.ask(t, "POST", "/users", object1{"name": "one more", "role": "user"}).denied(429, "quota_reached", "users limit reached (5/5)")
		n.ask(t, "POST", "/users/"+n.owner+"/tokens", object1{"label": "one more"}).denied(429, "quota_reached", "apiTokens limit reached (5/5)")
		n.ask(t, "POST", "/models", scriptedModel("one-more")).denied(429, "quota_reached", "models limit reached (5/5)")
		require.Positive(t, operate(t, p, "GET", "/tenants?tenant="+n.id, nil).list()[0].number("requests"))
	})
}
