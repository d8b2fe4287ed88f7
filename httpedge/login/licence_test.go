package login_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/httpedge"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/login"
	"parley/httpedge/permission"
	"parley/proto/directorypb"
)

type echo struct {
	Tier     string `json:"tier"`
	Features string `json:"features"`
}

// TestRoutesByLicence: what the licence lacks below /api is 403 in the words of document 3, at once when the licence changes; routes in
// no pattern, and those of everybody who is signed in, are not gated.
func TestRoutesByLicence(t *testing.T) {
	records := &collectiontest.Records{}
	put := func(name, key string, message proto.Message) {
		value, err := proto.Marshal(message)
		require.NoError(t, err)
		stored, _ := records.Get(name, key)
		_, err = records.Put(t.Context(), name, key, stored.Version, value)
		require.NoError(t, err)
	}
	put(identity.Projects, "p", &directorypb.Project{Id: "p", TenantId: "t"})
	put(identity.Users, "u", &directorypb.User{
		Id: "u", TenantId: "t", Role: "owner", CanLogin: true, SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 1},
	})
	put(identity.Tenants, "t", &directorypb.Tenant{Id: "t", Tier: "FREE"})
	accounts := identity.New(records, identity.Env{Now: time.Now})
	log := slog.New(slog.DiscardHandler)
	engine, err := permission.New(permission.Config{}, nil, log, nil)
	require.NoError(t, err)
	sessions := login.New(login.Config{Secret: []byte(strings.Repeat("k", 32)), Lifetime: time.Hour}, accounts, engine)
	shown := func(ctx context.Context, _ *struct{}) (*echo, error) {
		request := endpoint.RequestFrom(ctx)
		return &echo{request.Header("x-license-type"), request.Header("x-features")}, nil
	}
	begin := func(ctx context.Context, _ *struct{}) (*echo, error) {
		member, failed := accounts.Resume(ctx, identity.Session{UserID: "u", TenantID: "t", Generation: 1})
		if failed != nil {
			return nil, failed
		}
		return &echo{}, sessions.Begin(ctx, member)
	}
	surface := endpoint.Surface{
		Name: "test", Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem, Routes: []endpoint.Route{
			endpoint.On("POST /begin", "session:none", begin, endpoint.Public()),
			endpoint.On("GET /users", "members:read", shown), endpoint.On("GET /agents/{key}", "agents:read", shown),
			endpoint.On("GET /guardrails", "guardrails:read", shown), endpoint.On("GET /files", "files:read", shown),
			endpoint.On("GET /webhooks", "webhooks:read", shown), endpoint.On("GET /files/own", "session:read", shown),
			endpoint.On("GET /aegis/shields", "agents:read", shown), endpoint.On("GET /cluster", "cluster:read", shown, endpoint.Enterprise()),
		},
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Logger: log, Authenticator: endpointtest.Authenticate(endpointtest.Off),
	})
	require.NoError(t, err)
	require.NoError(t, server.Mount("/api", sessions.Protect(surface)))
	require.NoError(t, server.Start())
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
		engine.Stop()
	})
	cookie := ""
	ask := func(method, path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+"/api"+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Cookie", cookie)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		for _, set := range response.Cookies() {
			if set.Name == login.SessionCookie {
				cookie = set.Name + "=" + set.Value
			}
		}
		return response.StatusCode, string(text)
	}
	status, text := ask("POST", "/begin")
	require.Equal(t, 200, status, text)

	const lacking = `{"error":"Forbidden","message":"Your license does not have access to this feature","code":"license_required",` +
		`"requiredLicense":"Please upgrade your plan"}`
	const enterprise = `{"error":"This feature is not available in your license","code":"license_required"}`
	for _, tier := range []struct{ name, allowed string }{
		{"FREE", "/users /guardrails /files /webhooks /files/own"},
		{"STARTER", "/users /webhooks /files/own"},
		{"PROFESSIONAL", "/users /agents/a /guardrails /webhooks /files/own"},
		{"ENTERPRISE", "/users /agents/a /guardrails /files /webhooks /files/own /aegis/shields /cluster"},
	} {
		put(identity.Tenants, "t", &directorypb.Tenant{Id: "t", Tier: tier.name})
		for _, path := range []string{"/users", "/agents/a", "/guardrails", "/files", "/webhooks", "/files/own", "/aegis/shields", "/cluster"} {
			status, text = ask("GET", path)
			switch {
			case strings.Contains(" "+tier.allowed+" ", " "+path+" "):
				require.Equal(t, 200, status, "%s %s: %s", tier.name, path, text)
				require.Contains(t, text, `"tier":"`+tier.name+`","features":"[\"`)
			case path == "/aegis/shields", path == "/cluster":
				require.Equal(t, []any{403, enterprise}, []any{status, strings.TrimSpace(text)}, "%s %s", tier.name, path)
			default:
				require.Equal(t, []any{403, lacking}, []any{status, strings.TrimSpace(text)}, "%s %s", tier.name, path)
			}
		}
	}
	status, _ = ask("GET", "/aegis/nothing")
	require.Equal(t, 404, status)
}
