package token_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

func TestGenerate(t *testing.T) {
	secret, hash, prefix := identity.GenerateToken(&[32]byte{0xab, 31: 0xcd})
	require.Regexp(t, "^service_ab0{60}cd$", secret)
	require.Len(t, hash, 32)
	require.Equal(t, secret[:16], prefix)
	again, _ := identity.TokenDigest(secret)
	require.Equal(t, hash, again)
	_, short := identity.TokenDigest("password")
	require.Equal(t, "pa", short, "a chosen token may be short: it is not given away")
}

func TestWhoAsks(t *testing.T) {
	records := directory(t)
	a := authenticator(records)
	secret := mint(t, records, "tok_1", nil)
	for range 2 { // read, and remembered
		caller, failure := a.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, failure)
		require.Equal(t, "tok_1", caller.Grant.Token.GetId())
		caller.Grant = nil
		require.Equal(t, endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: "u", Identified: true}, caller)
	}
	put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "project_admin"})
	caller, failure := a.Authenticate(t.Context(), &peeking{header: []byte("Bearer " + secret)})
	require.Nil(t, failure)
	require.True(t, caller.Trusted, "the new role counts at once")
}

// Each refusal of document 3, 1.3.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		header func(records *collectiontest.Records, secret string) string
		code   failurepb.Code
		text   string
	}{
		{
			"no_header", func(*collectiontest.Records, string) string { return "" },
			failurepb.Code_AUTH_REQUIRED, "Missing or invalid Authorization header. Use: Bearer <token>",
		},
		{
			"other_scheme", func(_ *collectiontest.Records, secret string) string { return "bearer " + secret },
			failurepb.Code_AUTH_REQUIRED, "Missing or invalid Authorization header. Use: Bearer <token>",
		},
		{
			"empty", func(*collectiontest.Records, string) string { return "Bearer  " },
			failurepb.Code_AUTH_REQUIRED, "Missing API token",
		},
		{
			"empty_trimmed", func(*collectiontest.Records, string) string { return "Bearer" },
			failurepb.Code_AUTH_REQUIRED, "Missing API token",
		},
		{
			"unknown", func(*collectiontest.Records, string) string { return "Bearer service_" + strings.Repeat("0", 64) },
			failurepb.Code_AUTH_REQUIRED, "Invalid API token",
		},
		{
			"too_long", func(*collectiontest.Records, string) string { return "Bearer " + strings.Repeat("x", 5000) },
			failurepb.Code_AUTH_REQUIRED, "Invalid API token",
		},
		{"revoked", func(records *collectiontest.Records, secret string) string {
			remove(t, records, identity.Tokens, keyOf(secret))
			return "Bearer " + secret
		}, failurepb.Code_AUTH_REQUIRED, "Invalid API token"},
		{"expired", func(records *collectiontest.Records, _ string) string {
			return "Bearer " + mint(t, records, "tok_old", func(made *directorypb.Token) { made.ExpiresAt = 1 })
		}, failurepb.Code_AUTH_REQUIRED, "API token has expired"},
		{"no_tenant", func(records *collectiontest.Records, secret string) string {
			remove(t, records, identity.Tenants, "t")
			return "Bearer " + secret
		}, failurepb.Code_NOT_FOUND, "Tenant not found for token"},
		{"no_project", func(records *collectiontest.Records, _ string) string {
			return "Bearer " + mint(t, records, "tok_nowhere", func(made *directorypb.Token) { made.ProjectId = "" })
		}, failurepb.Code_VALIDATION, "Token project context is missing"},
		{"project_of_another", func(records *collectiontest.Records, secret string) string {
			put(t, records, identity.Projects, "p", &directorypb.Project{Id: "p", TenantId: "other"})
			return "Bearer " + secret
		}, failurepb.Code_VALIDATION, "Token project context is missing"},
		{"no_owner", func(records *collectiontest.Records, secret string) string {
			remove(t, records, identity.Users, "u")
			return "Bearer " + secret
		}, failurepb.Code_FORBIDDEN, "API token owner is not available"},
		{"no_member", func(records *collectiontest.Records, secret string) string {
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "t", Role: "user", ProjectIds: []string{"q"}})
			return "Bearer " + secret
		}, failurepb.Code_FORBIDDEN, "API token owner is not a member of its project"},
		{"owner_of_another", func(records *collectiontest.Records, secret string) string {
			put(t, records, identity.Users, "u", &directorypb.User{Id: "u", TenantId: "other", Role: "owner"})
			return "Bearer " + secret
		}, failurepb.Code_FORBIDDEN, "API token owner is not available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			records := directory(t)
			a := authenticator(records)
			secret := mint(t, records, "tok_1", nil)
			_, failure := a.Authenticate(t.Context(), bearer(secret))
			require.Nil(t, failure, "good so far, and remembered")
			asked := &request{authorization: c.header(records, secret)}
			_, failure = a.Authenticate(t.Context(), asked)
			require.NotNil(t, failure)
			require.Equal(t, c.code, failure.Code)
			require.Equal(t, c.text, failure.DefaultText())
			_, failure = token.Always401(a).Authenticate(t.Context(), asked)
			require.Equal(t, failurepb.Code_AUTH_REQUIRED, failure.Code)
			require.Equal(t, c.text, failure.DefaultText())
			require.Empty(t, failure.Details)
		})
	}
}

func TestExpiryCountsAtEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := directory(t)
		a := authenticator(records)
		ends := time.Now().Add(10 * time.Second)
		secret := mint(t, records, "tok_1", func(made *directorypb.Token) { made.ExpiresAt = ends.UnixMilli() })
		_, failure := a.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, failure)
		time.Sleep(time.Until(ends) - time.Millisecond)
		_, failure = a.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, failure)
		time.Sleep(time.Millisecond)
		_, failure = a.Authenticate(t.Context(), bearer(secret))
		require.Equal(t, "API token has expired", failure.DefaultText())
	})
}

func TestTokenMadeOnAnotherNode(t *testing.T) {
	other := &elsewhere{Records: directory(t)}
	a := authenticator(other)
	secret := mint(t, other.Records, "tok_1", nil)
	_, failure := a.Authenticate(t.Context(), bearer(secret))
	require.Nil(t, failure)
	require.Equal(t, 4, other.asked)
	other.err = errors.New("no leader")
	_, failure = a.Authenticate(t.Context(), bearer(secret))
	require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
	_, failure = token.Always401(a).Authenticate(t.Context(), bearer(secret))
	require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code)
}

func TestManyTokensAtOnce(t *testing.T) {
	records := directory(t)
	a := token.New(token.Config{CacheEntries: 8}, records, discard)
	var secrets []string
	for _, id := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		secrets = append(secrets, mint(t, records, "tok_"+id, nil))
	}
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for j := range 200 {
				n := (i*31 + j*7) % len(secrets)
				caller, failure := a.Authenticate(context.Background(), bearer(secrets[n]))
				if failure != nil || caller.Grant.Token.GetId() != "tok_"+string(rune('a'+n)) {
					t.Errorf("token %d: %v", n, failure)
				}
			}
		})
	}
	workers.Wait()
}

func TestLastUseIsNotedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := directory(t)
		a := authenticator(records)
		a.Start()
		defer a.Stop()
		secret := mint(t, records, "tok_1", nil)
		lastUse := func() (int64, uint64) {
			synctest.Wait()
			record, _ := records.Get(identity.TokenUses, "tok_1")
			var use directorypb.TokenUse
			require.NoError(t, proto.Unmarshal(record.Value, &use))
			return use.GetLastUsedAt(), record.Version
		}
		use := func() {
			_, failure := a.Authenticate(t.Context(), bearer(secret))
			require.Nil(t, failure)
		}
		use()
		first, version := lastUse()
		require.Equal(t, time.Now().UnixMilli(), first)
		for range 50 {
			use()
			time.Sleep(time.Second)
		}
		_, same := lastUse()
		require.Equal(t, version, same, "a minute has not passed")
		time.Sleep(10 * time.Second)
		use()
		second, _ := lastUse()
		require.Equal(t, time.Now().UnixMilli(), second)
		fresh := authenticator(records) // another node, or a restart: it reads what is noted
		fresh.Start()
		defer fresh.Stop()
		_, version = lastUse()
		time.Sleep(time.Second)
		_, failure := fresh.Authenticate(t.Context(), bearer(secret))
		require.Nil(t, failure)
		_, same = lastUse()
		require.Equal(t, version, same)
	})
}

// While the directory is slow requests do not wait, and what piles up is dropped.
func TestUsesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := directory(t)
		release, puts := make(chan struct{}), 0
		var secrets []string
		for i := range 600 {
			secret, hash, _ := identity.GenerateToken(&[32]byte{byte(i), byte(i >> 8)})
			put(t, records, identity.Tokens, identity.TokenKey(hash), &directorypb.Token{
				Id: "tok_" + secret[8:12], TenantId: "t", ProjectId: "p", UserId: "u", Hash: hash,
			})
			secrets = append(secrets, secret)
		}
		records.OnPut = func(name, _ string) error {
			require.Equal(t, identity.TokenUses, name)
			puts++
			<-release
			return nil
		}
		a := authenticator(records)
		a.Start()
		for _, secret := range secrets {
			_, failure := a.Authenticate(t.Context(), bearer(secret))
			require.Nil(t, failure)
		}
		close(release)
		synctest.Wait()
		a.Stop()
		require.Greater(t, puts, 200)
		require.Less(t, puts, 300)
	})
}

func TestFirst(t *testing.T) {
	records := directory(t)
	next := endpointtest.Authenticate(endpointtest.ByToken)
	a := token.First(authenticator(records), engine(t), next)
	secret := mint(t, records, "tok_1", func(made *directorypb.Token) {
		made.Scoped, made.Scope = true, map[string]string{"agents": "read"}
	})
	caller, failure := a.Authenticate(t.Context(), bearer(secret))
	require.Nil(t, failure)
	require.Equal(t, "u", caller.UserID)
	require.NotNil(t, caller.Grant)
	_, failure = a.Authenticate(t.Context(), &request{method: "POST", authorization: "Bearer " + secret})
	require.Equal(t, "Forbidden: agents requires write permission", failure.DefaultText())
	require.Equal(t, failurepb.Code_FORBIDDEN, failure.Code)
	_, failure = a.Authenticate(t.Context(), bearer("service_x"))
	require.Equal(t, "Invalid API token", failure.DefaultText())

	caller, failure = a.Authenticate(t.Context(), bearer("ann"))
	require.Nil(t, failure)
	require.Equal(t, endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: "ann", Identified: true}, caller)
	_, failure = a.Authenticate(t.Context(), &request{method: "GET"})
	require.Equal(t, "Authentication required", failure.DefaultText(), "the next one's word")

	hash, prefix := identity.TokenDigest("ann")
	put(t, records, identity.Tokens, identity.TokenKey(hash), &directorypb.Token{
		Id: "tok_ann", TenantId: "t", ProjectId: "p", UserId: "u", Hash: hash, Prefix: prefix,
	})
	for range 2 {
		caller, failure = a.Authenticate(t.Context(), bearer("ann"))
		require.Nil(t, failure)
		require.Equal(t, "u", caller.UserID, "an operator chose this token")
	}
}

func TestPermit(t *testing.T) {
	permit := token.Permit(engine(t), nil)
	caller := func(tier string, scope map[string]string) endpoint.Caller {
		return endpoint.Caller{TenantID: "t", Grant: access.NewGrant(
			&directorypb.Token{Scoped: scope != nil, Scope: scope}, &directorypb.User{Role: "owner"},
			&directorypb.Tenant{Id: "t", Tier: tier}, &directorypb.Project{Id: "p"},
		)}
	}
	reads := map[string]string{"agents": "read"}
	for _, c := range []struct {
		caller       endpoint.Caller
		path, access string
		code         failurepb.Code
		text         string
	}{
		{caller("FREE", nil), "/agents", "agents:write", 0, ""},
		{caller("FREE", reads), "/agents", "agents:read", 0, ""},
		{caller("FREE", reads), "/agents", "agents:write", failurepb.Code_FORBIDDEN, "Forbidden: agents requires write permission"},
		{caller("FREE", reads), "/models", "models:read", failurepb.Code_FORBIDDEN, "Forbidden: models requires read permission"},
		{caller("STARTER", nil), "/moderations", "guardrails:write", failurepb.Code_LICENSE_REQUIRED, "This feature is not available in your license"},
		{caller("STARTER", reads), "/moderations", "guardrails:write", failurepb.Code_FORBIDDEN, "Forbidden: guardrails requires write permission"},
		{caller("ENTERPRISE", nil), "/aegis/evaluate", "aegis:write", 0, ""},
		{endpoint.Caller{}, "/agents", "agents:read", failurepb.Code_FORBIDDEN, "Forbidden: agents requires read permission"},
		{caller("FREE", nil), "/agents", "agents:none", failurepb.Code_INTERNAL, `access "agents:none" of /agents names no level`},
		{caller("FREE", nil), "/agents", "agents", failurepb.Code_INTERNAL, `access "agents" of /agents names no level`},
	} {
		failure := permit(t.Context(), c.caller, &endpoint.Route{Path: c.path, Access: c.access})
		if c.text == "" {
			require.Nil(t, failure, "%s %s", c.path, c.access)
			continue
		}
		require.Equal(t, []any{c.code, c.text, 0}, []any{failure.Code, failure.DefaultText(), len(failure.Details)})
	}
}

func TestHitDoesNotAllocate(t *testing.T) {
	records := directory(t)
	a := authenticator(records)
	asked := &peeking{header: []byte("Bearer " + mint(t, records, "tok_1", nil))}
	permit, route := token.Permit(engine(t), nil), &endpoint.Route{Path: "/chat/completions", Access: "models:write"}
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		caller, failure := a.Authenticate(ctx, asked)
		if failure != nil || permit(ctx, caller, route) != nil {
			t.Error("refused")
		}
	}))
}

func BenchmarkHit(b *testing.B) {
	records := directory(b)
	a := authenticator(records)
	asked := &peeking{header: []byte("Bearer " + mint(b, records, "tok_1", nil))}
	permit, route := token.Permit(engine(b), nil), &endpoint.Route{Path: "/chat/completions", Access: "models:write"}
	b.ReportAllocs()
	for b.Loop() {
		caller, failure := a.Authenticate(b.Context(), asked)
		if failure != nil || permit(b.Context(), caller, route) != nil {
			b.Fatal(failure)
		}
	}
}
