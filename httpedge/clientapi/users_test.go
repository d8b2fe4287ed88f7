package clientapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/cmd/parley/node/spending"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/permission"
	"parley/httpedge/token"
	"parley/proto/directorypb"
)

// userKit is a Client API on a real socket over a directory with two tenants, with everybody's tokens.
type userKit struct {
	t       *testing.T
	url     string
	records *collectiontest.Records
	routes  []endpoint.Route
	client  *http.Client
}

func serveUsers(t *testing.T) *userKit {
	t.Helper()
	return serveClient(t, nil)
}

// serveClient is serveUsers with more parts; nil = no more. The returned surfaces are mounted below their names.
func serveClient(t *testing.T, more func(*userKit, *clientapi.Parts) map[string]endpoint.Surface) *userKit {
	t.Helper()
	p := &userKit{t: t, records: &collectiontest.Records{}, client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
	for _, tenant := range []string{"default", "other"} {
		p.put(identity.Tenants, tenant, &directorypb.Tenant{Id: tenant, Tier: "ENTERPRISE"})
		p.put(identity.Projects, tenant, &directorypb.Project{Id: tenant, TenantId: tenant})
		p.put(identity.Users, "owner of "+tenant, &directorypb.User{Id: "owner of " + tenant, TenantId: tenant, Role: "owner", CreatedAt: 1})
	}
	p.put(identity.Projects, "second", &directorypb.Project{Id: "second", TenantId: "default"})
	log := slog.New(slog.DiscardHandler)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: endpointtest.Authenticate(endpointtest.Off), Logger: log,
	})
	require.NoError(t, err)
	tokens := token.New(token.Config{}, p.records, log)
	counter := token.NewCounter(p.records, log)
	permissions, err := permission.New(permission.Config{}, nil, log, nil)
	require.NoError(t, err)
	parts := clientapi.Parts{
		Accounts: accountsIn(p.records), Catalog: catalogIn(p.records, &collectiontest.Sealer{}, catalog.Env{}), Permissions: permissions,
	}
	var others map[string]endpoint.Surface
	if more != nil {
		others = more(p, &parts)
	}
	surface := clientapi.New(clientapi.DefaultConfig(), parts).Surface()
	surface.Authenticator, surface.Permit = tokens, token.Permit(permissions, counter)
	p.routes = surface.Routes
	require.NoError(t, server.Mount("/api/client/v1", surface))
	for prefix, other := range others {
		other.Authenticator, other.Permit = tokens, surface.Permit
		require.NoError(t, server.Mount(prefix, other))
	}
	tokens.Start()
	counter.Start()
	require.NoError(t, server.Start())
	p.url = "http://" + listener.Addr().String() + "/api/client/v1"
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
		counter.Stop()
		tokens.Stop()
	})
	return p
}

// accountsIn are the accounts in a directory.
func accountsIn(records *collectiontest.Records) *identity.Accounts {
	return identity.New(records, identity.Env{
		NewID: new(endpointtest.IDs).NewID, Now: time.Now, Random: func(into []byte) { _, _ = rand.Read(into) },
		Policies: spending.NewPolicies(records).Of,
	})
}

// catalogIn is the catalog in a directory.
func catalogIn(records *collectiontest.Records, sealer *collectiontest.Sealer, env catalog.Env) *catalog.Catalog {
	env.NewID, env.Now, env.Seal = new(endpointtest.IDs).NewID, time.Now, sealer.Seal
	env.Random = func(into []byte) { _, _ = rand.Read(into) }
	env.Policies = spending.NewPolicies(records).Of
	return catalog.New(records, env)
}

func (p *userKit) put(name, key string, message proto.Message) {
	p.t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(p.t, err)
	stored, _ := p.records.Get(name, key)
	_, err = p.records.Put(p.t.Context(), name, key, stored.Version, value)
	require.NoError(p.t, err)
}

// mint makes a token for a user; nil = without a scope.
func (p *userKit) mint(user, tenant string, scope map[string]string) string {
	p.t.Helper()
	secret, hash, prefix := identity.GenerateToken((*[32]byte)([]byte(fmt.Sprintf("%-32.32s", user+fmt.Sprint(scope)))))
	p.put(identity.Tokens, identity.TokenKey(hash), &directorypb.Token{
		Id: "tok of " + user, TenantId: tenant, ProjectId: tenant, UserId: user, Hash: hash, Prefix: prefix,
		Scoped: scope != nil, Scope: scope,
	})
	return secret
}

type answer = map[string]any

// ask sends a request and returns status and body. secret "" sends no token.
func (p *userKit) ask(secret, method, path, body string) (int, answer) {
	p.t.Helper()
	status, _, got := p.askHeaders(secret, method, path, body)
	return status, got
}

func (p *userKit) askHeaders(secret, method, path, body string) (int, http.Header, answer) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	if secret != "" {
		request.Header.Set("Authorization", "Bearer "+secret)
	}
	response, err := p.client.Do(request)
	require.NoError(p.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	var got answer
	require.NoError(p.t, json.Unmarshal(raw, &got), "%s", raw)
	return response.StatusCode, response.Header, got
}

// refused asserts an error's status and text.
func (p *userKit) refused(secret, request, body string, status int, text string) {
	p.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	got, answered := p.ask(secret, method, path, body)
	require.Equal(p.t, status, got, "%s %s: %v", request, body, answered)
	require.Equal(p.t, text, answered["error"], "%s %s", request, body)
}

func TestUserAndTokenFromBeginningToEnd(t *testing.T) {
	p := serveUsers(t)
	owner := p.mint("owner of default", "default", nil)
	status, headers, body := p.askHeaders(owner, "POST", "/users",
		`{"name":" Robot ","role":"user","email":"Robot@Example.org","canLogin":true,"projectId":"second","servicePermissions":{"models":"read","planes":"read"}}`)
	require.Equal(t, 201, status, "%v", body)
	require.Equal(t, "DENY", headers.Get("X-Frame-Options"))
	user, ok := body["user"].(answer)
	require.True(t, ok)
	id, ok := user["id"].(string)
	require.True(t, ok)
	require.Equal(t, id, user["_id"])
	require.Equal(t, "Robot", user["name"])
	require.Equal(t, "robot@example.org", user["email"])
	require.Equal(t, false, user["canLogin"], "whatever the body says")
	require.Equal(t, answer{"models": "read"}, user["servicePermissions"])
	require.Equal(t, []any{"second"}, user["projectIds"])
	require.Equal(t, "owner of default", user["invitedBy"])
	require.Nil(t, user["invitedAt"])

	p.refused(owner, "POST /users/"+id+"/tokens", `{"label":"for the robot"}`, 403, "The user is not a member of the project")
	status, body = p.ask(owner, "POST", "/users/"+id+"/tokens", `{"label":"for the robot","projectId":"second"}`)
	require.Equal(t, 201, status, "%v", body)
	secret, ok := body["token"].(string)
	require.True(t, ok)
	require.Regexp(t, "^service_[0-9a-f]{64}$", secret)
	require.Nil(t, body["servicePermissions"])
	require.Nil(t, body["expiresAt"])
	require.Equal(t, "second", body["projectId"])
	require.Equal(t, "API token created successfully", body["message"])
	p.refused(secret, "GET /users", "", 403, "Forbidden: members requires read permission")

	status, body = p.ask(owner, "GET", "/users/"+id+"/tokens", "")
	require.Equal(t, 200, status)
	listed, ok := body["tokens"].([]any)
	require.True(t, ok)
	require.Len(t, listed, 1)
	one, ok := listed[0].(answer)
	require.True(t, ok)
	require.Equal(t, secret[:16], one["tokenPrefix"])
	require.NotContains(t, fmt.Sprint(body), secret)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, shown := p.ask(owner, "GET", "/users/"+id+"/tokens", "")
		require.Contains(c, fmt.Sprint(shown), "lastUsed:20", "the refused request used it")
	}, 30*time.Second, 10*time.Millisecond)
	for _, stored := range p.records.List(identity.Tokens, "") {
		require.NotContains(t, string(stored.Value), secret[8:])
	}

	tokenID := fmt.Sprint(one["id"])
	p.refused(owner, "DELETE /users/"+id+"/tokens/none", "", 404, "Token not found")
	p.refused(owner, "DELETE /users/owner of default/tokens/"+tokenID, "", 404, "Token not found")
	status, body = p.ask(owner, "DELETE", "/users/"+id+"/tokens/"+tokenID, "")
	require.Equal(t, 200, status)
	require.Equal(t, answer{"message": "API token deleted successfully"}, body)
	p.refused(secret, "GET /users", "", 401, "Invalid API token")
}

func TestUserRefusals(t *testing.T) {
	p := serveUsers(t)
	owner, stranger := p.mint("owner of default", "default", nil), p.mint("owner of other", "other", nil)
	p.put(identity.Users, "u", &directorypb.User{
		Id: "u", TenantId: "default", Role: "user", Email: "u@example.org", ServicePermissions: map[string]string{"members": "admin"},
	})
	p.put(identity.Users, "v", &directorypb.User{Id: "v", TenantId: "default", Role: "project_admin", ProjectIds: []string{"elsewhere"}})
	member := p.mint("u", "default", nil)
	const noName, noRole = "Name and role are required", "Invalid role. Must be user, project_admin, or admin"
	for _, c := range []struct {
		secret, request, body string
		status                int
		text                  string
	}{
		{owner, "POST /users", ``, 400, noName},
		{owner, "POST /users", `{"name":" ","role":"user"}`, 400, noName},
		{owner, "POST /users", `{"name":"x"}`, 400, noName},
		{owner, "POST /users", `{"name":"x","role":"owner"}`, 400, noRole},
		{owner, "POST /users", `{"name":"x","role":"user","email":"nobody"}`, 400, "Invalid email format"},
		{owner, "POST /users", `{"name":"x","role":"user","email":"A <a@example.org>"}`, 400, "Invalid email format"},
		{owner, "POST /users", `{"name":"x","role":"user","email":"U@example.org"}`, 409, "User with this email already exists in your organization"},
		{owner, "POST /users", `{"name":"x","role":"user","projectId":"other"}`, 404, "Project not found"},
		{owner, "POST /users", `{"name":"x","role":"user","servicePermissions":3}`, 400, `servicePermissions must be an object of service to level, or a list of texts like "models:read"`},
		{owner, "POST /users", `{"name":3}`, 400, "name must be a string"},
		{owner, "POST /users/u/tokens", `{"label":"ab"}`, 400, "Label must be at least 3 characters"},
		{owner, "POST /users/u/tokens", `{"label":"äb"}`, 400, "Label must be at least 3 characters"},
		{owner, "POST /users/u/tokens", `{"label":"abc","expiresAt":"soon"}`, 400, "expiresAt must be a date-time (ISO 8601) in the future"},
		{owner, "POST /users/u/tokens", `{"label":"abc","expiresAt":"2001-01-01T00:00:00Z"}`, 400, "expiresAt must be a date-time (ISO 8601) in the future"},
		{owner, "POST /users/u/tokens", `{"label":"abc","projectId":"other"}`, 404, "Project not found"},
		{owner, "POST /users/v/tokens", `{"label":"abc"}`, 403, "The user is not a member of the project"},
		{p.mint("v", "default", nil), "GET /users", ``, 403, "API token owner is not a member of its project"},
		{owner, "POST /users/none/tokens", `{"label":"abc"}`, 404, "User not found"},
		{stranger, "POST /users/u/tokens", `{"label":"abc"}`, 404, "User not found"},
		{stranger, "GET /users/u/tokens", ``, 404, "User not found"},
		{stranger, "DELETE /users/u/tokens/tok", ``, 404, "User not found"},
		{member, "POST /users", `{"name":"x","role":"user"}`, 403, "Forbidden"},
		{member, "GET /users", ``, 403, "Forbidden"},
		{member, "POST /users/u/tokens", `{"label":"abc"}`, 403, "Forbidden"},
		{p.mint("owner of default", "default", map[string]string{"agents": "admin"}), "POST /users", `{"name":"x","role":"user"}`, 403, "Forbidden: members requires admin permission"},
	} {
		p.refused(c.secret, c.request, c.body, c.status, c.text)
	}
	status, body := p.ask(stranger, "GET", "/users", "")
	require.Equal(t, 200, status)
	users, ok := body["users"].([]any)
	require.True(t, ok)
	require.Len(t, users, 1, "only the own tenant's")
	require.Equal(t, answer{"limit": 100.0, "offset": 0.0, "hasMore": false}, body["pagination"])
}

// Whoever makes a token gives no more than they have, whoever it is for.
func TestTokensAreNotAWayUp(t *testing.T) {
	p := serveUsers(t)
	narrow := p.mint("owner of default", "default", map[string]string{"members": "admin", "models": "read"})
	status, body := p.ask(narrow, "POST", "/users/owner of default/tokens", `{"label":"all of it"}`)
	require.Equal(t, 201, status, "%v", body)
	made := p.tokenOf(body)
	require.True(t, made.GetScoped())
	require.Equal(t, "none", made.GetScope()["agents"])
	require.Equal(t, "read", made.GetScope()["models"])
	p.refused(fmt.Sprint(body["token"]), "GET /agents", "", 403, "Forbidden: agents requires read permission")
	status, body = p.ask(narrow, "POST", "/users/owner of default/tokens", `{"label":"asked","servicePermissions":["agents:admin","models.write"],"expiresAt":"2999-01-01T00:00:00Z"}`)
	require.Equal(t, 201, status)
	require.Equal(t, answer{"agents": "none", "models": "read"}, body["servicePermissions"])
	require.Equal(t, "2999-01-01T00:00:00.000Z", body["expiresAt"])
	status, body = p.ask(p.mint("owner of default", "default", nil), "POST", "/users/owner of default/tokens", `{"label":"nothing","servicePermissions":{}}`)
	require.Equal(t, 201, status)
	require.Equal(t, answer{}, body["servicePermissions"])
	p.refused(fmt.Sprint(body["token"]), "GET /users", "", 403, "Forbidden: members requires read permission")
}

func (p *userKit) tokenOf(made answer) *directorypb.Token {
	p.t.Helper()
	hash, _ := identity.TokenDigest(fmt.Sprint(made["token"]))
	record, ok := p.records.Get(identity.Tokens, identity.TokenKey(hash))
	require.True(p.t, ok)
	stored := new(directorypb.Token)
	require.NoError(p.t, proto.Unmarshal(record.Value, stored))
	return stored
}

func TestPlanBoundsUsersAndTokens(t *testing.T) {
	p := serveUsers(t)
	p.put(identity.Tenants, "default", &directorypb.Tenant{Id: "default", Tier: "FREE"})
	owner := p.mint("owner of default", "default", nil)
	for range 4 {
		status, body := p.ask(owner, "POST", "/users", `{"name":"x","role":"admin"}`)
		require.Equal(t, 201, status, "%v", body)
		status, body = p.ask(owner, "POST", "/users/owner of default/tokens", `{"label":"one more"}`)
		require.Equal(t, 201, status, "%v", body)
	}
	p.refused(owner, "POST /users", `{"name":"x","role":"user"}`, 429, "users limit reached (5/5)")
	p.refused(owner, "POST /users/owner of default/tokens", `{"label":"one more"}`, 429, "apiTokens limit reached (5/5)")
	status, body := p.ask(owner, "GET", "/users?limit=2&offset=3", "")
	require.Equal(t, 200, status)
	require.Equal(t, answer{"limit": 2.0, "offset": 3.0, "hasMore": false}, body["pagination"])

	p.put(identity.RequestCounts, "default", &directorypb.RequestCount{Since: time.Now().Add(-time.Hour).UnixMilli(), Count: 1000})
	p2 := serveUsers(t) // a node that has taken nothing ahead
	p2.put(identity.Tenants, "default", &directorypb.Tenant{Id: "default", Tier: "FREE"})
	p2.put(identity.RequestCounts, "default", &directorypb.RequestCount{Since: time.Now().Add(-time.Hour).UnixMilli(), Count: 1000})
	owner = p2.mint("owner of default", "default", nil)
	status, headers, body := p2.askHeaders(owner, "GET", "/users", "")
	require.Equal(t, 429, status)
	require.Equal(t, "Rate limit exceeded for requests perMonth (1000/1000)", body["error"])
	require.Equal(t, "quota_reached", body["code"])
	require.Regexp(t, `^258\d{4}$`, headers.Get("Retry-After"), "the end of the month")
}

// Each route wants a token, and the service that its path belongs to (document 3, 2.6), with a level that fits its method.
func TestEveryRouteIsGuarded(t *testing.T) {
	p := serveUsers(t)
	for _, route := range p.routes {
		if route.Hidden || route.Path == "/openapi.json" {
			continue
		}
		t.Run(route.Method+route.Path, func(t *testing.T) {
			path := strings.NewReplacer("{", "", "}", "", ":*", "").Replace(route.Path)
			status, headers, body := p.askHeaders("", route.Method, path, "")
			require.Equal(t, 401, status)
			require.Equal(t, "Bearer", headers.Get("WWW-Authenticate"))
			require.Equal(t, answer{
				"error": "Unauthorized", "code": "unauthorized",
				"message": "Missing or invalid Authorization header. Use: Bearer <token>",
			}, body)
			status, body = p.ask("service_"+strings.Repeat("0", 64), route.Method, path, "")
			require.Equal(t, 401, status)
			require.Equal(t, "Invalid API token", body["error"])

			first, _, _ := strings.Cut(strings.TrimPrefix(route.Path, "/"), "/")
			service := map[string]string{"a2a": "agents", "aegis": "aegis", "guardrails": "guardrails", "agents": "agents", "analytics": "models", "audit": "audit", "budgets": "models", "spend": "models", "live": "agents", "permissions": "audit", "webhooks": "webhooks", "models": "models", "responses": "models", "users": "members", "members": "members", "projects": "projects", "license": "license", "tracing": "tracing", "traces": "tracing"}[first]
			level := "write"
			switch {
			case route.Method == http.MethodGet:
				level = "read"
			case service == string(access.Members), service == string(access.Webhooks), service == string(access.Licensing):
				level = "admin"
			}
			require.Equal(t, service+":"+level, route.Access)
		})
	}
}
