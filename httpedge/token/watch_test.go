package token_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

func watcher(t *testing.T, a endpoint.Authenticator) endpoint.Watcher {
	t.Helper()
	w, ok := a.(endpoint.Watcher)
	require.True(t, ok)
	return w
}

// What takes a token's permission away is seen by whoever was let in with it, on either surface; what does not is not.
func TestWatch(t *testing.T) {
	reads := &endpoint.Route{Method: "GET", Path: "/agents/sessions/{id}/events/stream", Access: "agents:read"}
	moderates := &endpoint.Route{Method: "POST", Path: "/moderations", Access: "agents:read"}
	for _, c := range []struct {
		name   string
		route  *endpoint.Route
		change func(records *collectiontest.Records, key string, made *directorypb.Token)
		code   failurepb.Code // 0 = may stay
		text   string
	}{
		{"revoked", reads, func(records *collectiontest.Records, key string, _ *directorypb.Token) {
			remove(t, records, identity.Tokens, key)
		}, failurepb.Code_AUTH_REQUIRED, "Invalid API token"},
		{"expires", reads, func(records *collectiontest.Records, key string, made *directorypb.Token) {
			made.ExpiresAt = 1
			put(t, records, identity.Tokens, key, made)
		}, failurepb.Code_AUTH_REQUIRED, "API token has expired"},
		{"user_gone", reads, func(records *collectiontest.Records, _ string, _ *directorypb.Token) {
			remove(t, records, identity.Users, "u")
		}, failurepb.Code_FORBIDDEN, "API token owner is not available"},
		{"role_lowered", reads, func(records *collectiontest.Records, _ string, _ *directorypb.Token) {
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "user"})
		}, failurepb.Code_FORBIDDEN, "Forbidden: the token's owner has another role"},
		{"level_taken", reads, func(records *collectiontest.Records, _ string, _ *directorypb.Token) {
			put(t, records, identity.Users, "u", &directorypb.User{
				Id: "u", TenantId: "t", Role: "project_admin", ServicePermissions: map[string]string{"agents": "none"},
			})
		}, failurepb.Code_FORBIDDEN, "Forbidden: agents requires read permission"},
		{"no_member_any_more", reads, func(records *collectiontest.Records, _ string, _ *directorypb.Token) {
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "project_admin", ProjectIds: []string{"q"}})
		}, failurepb.Code_FORBIDDEN, "API token owner is not a member of its project"},
		{"licence_lowered", moderates, func(records *collectiontest.Records, _ string, _ *directorypb.Token) {
			put(t, records, identity.Tenants, "t", &directorypb.Tenant{Id: "t", Tier: "STARTER"})
		}, failurepb.Code_LICENSE_REQUIRED, "This feature is not available in your license"},
		{"renamed", reads, func(records *collectiontest.Records, key string, made *directorypb.Token) {
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "admin", Name: "Ada"})
			made.Label = "other"
			put(t, records, identity.Tokens, key, made)
		}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			records := directory(t)
			put(t, records, identity.Tenants, "t", &directorypb.Tenant{Id: "t", Tier: "ENTERPRISE"})
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "project_admin"})
			var made *directorypb.Token
			secret := mint(t, records, "tok_1", func(token *directorypb.Token) { made = token })
			a := authenticator(records)
			caller, failure := a.Authenticate(t.Context(), bearer(secret))
			require.Nil(t, failure)
			only401 := watcher(t, token.Always401(a)).Watch(caller, c.route)
			require.Nil(t, only401())
			watches := []func() *machine.Failure{a.Watch(caller, c.route)}
			if c.code != failurepb.Code_LICENSE_REQUIRED { // the conversation server asks for none
				watches = append(watches, watcher(t, token.First(a, engine(t), nil)).Watch(caller, c.route))
			}
			for _, still := range watches {
				require.Nil(t, still())
			}
			c.change(records, keyOf(secret), made)
			for _, still := range append(watches, a.Watch(caller, c.route)) {
				for range 2 {
					failure := still()
					if c.code == 0 {
						require.Nil(t, failure)
						continue
					}
					require.Equal(t, []any{c.code, c.text, 0}, []any{failure.Code, failure.DefaultText(), len(failure.Details)})
				}
			}
			if failure := only401(); c.code != 0 {
				if strings.Contains(c.text, "token owner") { // it is the token that is not good
					c.code = failurepb.Code_AUTH_REQUIRED
				}
				require.Equal(t, []any{c.code, c.text, 0}, []any{failure.Code, failure.DefaultText(), len(failure.Details)})
			} else {
				require.Nil(t, failure)
			}
		})
	}
}

// A token ends by itself, without any change.
func TestWatchSeesTheEnd(t *testing.T) {
	records := directory(t)
	ends := time.Now().Add(50 * time.Millisecond)
	secret := mint(t, records, "tok_1", func(made *directorypb.Token) { made.ExpiresAt = ends.UnixMilli() })
	a := authenticator(records)
	caller, failure := a.Authenticate(t.Context(), bearer(secret))
	if failure != nil && !time.Now().Before(ends) {
		t.Skip("the machine is too slow: the token is over")
	}
	require.Nil(t, failure)
	still := a.Watch(caller, &endpoint.Route{Method: "GET", Access: "agents:read"})
	require.Eventually(t, func() bool {
		failure := still()
		require.True(t, failure == nil || failure.DefaultText() == "API token has expired")
		return failure != nil
	}, 30*time.Second, time.Millisecond)
}

// strict is an authentication that watches callers, too.
type strict struct{ endpoint.Authenticator }

func (strict) Watch(endpoint.Caller, *endpoint.Route) func() *machine.Failure {
	return func() *machine.Failure { return failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "no more") }
}

// Those that brought no token are the other authentication's business.
func TestWatchWithoutToken(t *testing.T) {
	a := authenticator(directory(t))
	route := &endpoint.Route{Method: "GET"}
	require.Nil(t, watcher(t, token.First(a, engine(t), nil)).Watch(endpoint.Caller{}, route))
	still := watcher(t, token.First(a, engine(t), strict{})).Watch(endpoint.Caller{}, route)
	require.Equal(t, "no more", still().DefaultText())
}

// Thousands of streams of a token share what is asked, and asking is for free.
func TestWatchIsShared(t *testing.T) {
	records := directory(t)
	a := authenticator(records)
	secret := mint(t, records, "tok_1", nil)
	caller, failure := a.Authenticate(t.Context(), bearer(secret))
	require.Nil(t, failure)
	route := &endpoint.Route{Method: "GET", Path: "/x", Access: "agents:read"}
	still := a.Watch(caller, route)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { a.Watch(caller, route) }), 0.0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if still() != nil {
			t.Error("refused")
		}
	}))
	put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "user", Name: "Ada"})
	require.Nil(t, still(), "read anew")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = still() }), "and remembered")
}

func BenchmarkStill(b *testing.B) {
	records := directory(b)
	a := authenticator(records)
	route := &endpoint.Route{Method: "GET", Path: "/x", Access: "agents:read"}
	var all []func() *machine.Failure
	for i := range 1000 {
		secret := mint(b, records, fmt.Sprintf("%d%s", i, strings.Repeat("x", i/100)), nil)
		caller, failure := a.Authenticate(b.Context(), bearer(secret))
		require.Nil(b, failure)
		all = append(all, a.Watch(caller, route))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if all[i%len(all)]() != nil {
			b.Fatal("refused")
		}
	}
}
