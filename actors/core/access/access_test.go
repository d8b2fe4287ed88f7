package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/access"
	"parley/proto/directorypb"
)

func grant(token *directorypb.Token, owner *directorypb.User) *access.Grant {
	return access.NewGrant(token, owner, &directorypb.Tenant{Id: "default", Tier: "FREE"}, &directorypb.Project{Id: "default"})
}

func TestLevels(t *testing.T) {
	type services = map[string]string
	unscoped := func() *directorypb.Token { return &directorypb.Token{} }
	scoped := func(scope services) *directorypb.Token { return &directorypb.Token{Scoped: true, Scope: scope} }
	for _, c := range []struct {
		name  string
		token *directorypb.Token
		role  string
		own   services
		want  map[access.Service]access.Level
	}{
		{"owner", unscoped(), "owner", nil, map[access.Service]access.Level{"agents": access.Admin, "members": access.Admin, "webhooks": access.Admin, "nothing": access.None}},
		{"owner_whatever_is_said", unscoped(), "owner", services{"agents": "none"}, map[access.Service]access.Level{"agents": access.Admin}},
		{"admin", unscoped(), "admin", services{"agents": "read"}, map[access.Service]access.Level{"agents": access.Read, "models": access.Admin, "audit": access.Admin}},
		{"project_admin", unscoped(), "project_admin", nil, map[access.Service]access.Level{"agents": access.Write, "members": access.None, "sandbox": access.None, "projects": access.Write}},
		{"user", unscoped(), "user", services{"members": "read", "models": "none"}, map[access.Service]access.Level{"agents": access.Write, "members": access.Read, "models": access.None}},
		{"owners_only", unscoped(), "user", services{"audit": "admin", "inference-monitoring": "read"}, map[access.Service]access.Level{"audit": access.None, "inference-monitoring": access.None}},
		{"unknown_role", unscoped(), "guest", services{"agents": "read"}, map[access.Service]access.Level{"agents": access.Read, "models": access.None}},
		{"unknown_level", unscoped(), "user", services{"agents": "all"}, map[access.Service]access.Level{"agents": access.Write}},
		{"empty_scope", scoped(nil), "owner", nil, map[access.Service]access.Level{"agents": access.None}},
		{"scope_lowers", scoped(services{"agents": "read"}), "owner", nil, map[access.Service]access.Level{"agents": access.Read, "models": access.None}},
		{"scope_never_widens", scoped(services{"agents": "admin", "members": "admin"}), "user", nil, map[access.Service]access.Level{"agents": access.Write, "members": access.None}},
		{"webhooks_have_no_write", scoped(services{"webhooks": "write"}), "admin", nil, map[access.Service]access.Level{"webhooks": access.Read}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := grant(c.token, &directorypb.User{Role: c.role, ServicePermissions: c.own})
			for service, level := range c.want {
				require.Equal(t, level, g.Level(service), service)
			}
		})
	}
}

func TestRoles(t *testing.T) {
	for role, want := range map[string][2]bool{
		"owner": {true, true}, "admin": {true, true}, "project_admin": {false, true}, "user": {false, false}, "": {false, false},
	} {
		g := grant(&directorypb.Token{}, &directorypb.User{Role: role})
		require.Equal(t, want, [2]bool{g.Administrates(), g.SeesAll()}, role)
	}
	var nobody *access.Grant
	require.False(t, nobody.Administrates())
	require.False(t, nobody.SeesAll())
	require.Equal(t, access.None, nobody.Level(access.Agents))
	require.Equal(t, access.Free, nobody.Tier())
	require.Equal(t, access.None, (&access.Grant{Owner: &directorypb.User{Role: "owner"}}).Level(access.Agents))
}

func TestParse(t *testing.T) {
	for raw, want := range map[string]access.Scope{
		`{"models":"read","agents":"write"}`: {"models": "read", "agents": "write"},
		`{}`:                                 {},
		`{"models":"all","planes":"read","agents":3}`:          {},
		`{"models":"none"}`:                                    {"models": "none"},
		`"models:read"`:                                        {"models": "read"},
		`"models.read, webhooks.admin agents:write"`:           {"models": "read", "webhooks": "admin", "agents": "write"},
		`["gpu-fleet.read","models:read","models:write"]`:      {"gpu-fleet": "read", "models": "write"},
		`["models:write","models:read",":read","models:","x"]`: {"models": "write"},
		` [] `: {},
	} {
		scope, given, err := access.Parse([]byte(raw))
		require.NoError(t, err, raw)
		require.True(t, given, raw)
		require.Equal(t, want, scope, raw)
	}
	for _, raw := range []string{"", "null", " null "} {
		scope, given, err := access.Parse([]byte(raw))
		require.NoError(t, err)
		require.False(t, given)
		require.Nil(t, scope)
	}
	for _, raw := range []string{"3", "true", "[1]", `{"a":`, `"a`, `[[]]`} {
		_, given, err := access.Parse([]byte(raw))
		require.ErrorContains(t, err, "servicePermissions must be")
		require.False(t, given)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"models":"read"}`))
	f.Add([]byte(`["models:read"]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		scope, given, err := access.Parse(raw)
		if err != nil && given {
			t.Fatal("both an error and a scope")
		}
		for service, level := range scope {
			parsed, ok := access.ParseLevel(level)
			if !ok || parsed.String() != level {
				t.Fatalf("%q: %q", service, level)
			}
		}
	})
}

func drawPermissions(t *rapid.T, label string) map[string]string {
	names := []string{"agents", "models", "members", "webhooks", "audit", "guardrails"}
	return rapid.MapOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{"none", "read", "write", "admin"})).Draw(t, label)
}

func drawGrant(t *rapid.T, label string) *access.Grant {
	owner := &directorypb.User{
		Role:               rapid.SampledFrom([]string{"owner", "admin", "project_admin", "user"}).Draw(t, label+" role"),
		ServicePermissions: drawPermissions(t, label+" own"),
	}
	token := &directorypb.Token{Scoped: rapid.Bool().Draw(t, label+" scoped"), Scope: drawPermissions(t, label+" scope")}
	return grant(token, owner)
}

// Whatever a token's scope says, it gives no more than its owner may; and whatever somebody gives away, it is no more than they
// have.
func TestNothingWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maker, other := drawGrant(t, "maker"), drawGrant(t, "other")
		whole := grant(&directorypb.Token{}, other.Owner)
		require.True(t, whole.Covers(other))
		asked := access.Scope(drawPermissions(t, "asked"))
		given := grant(&directorypb.Token{Scoped: true, Scope: asked.Within(maker)}, other.Owner)
		require.True(t, maker.Covers(given))
		require.True(t, whole.Covers(given))
		require.True(t, maker.Covers(grant(&directorypb.Token{Scoped: true, Scope: maker.Scope()}, other.Owner)))
	})
}

func TestTiers(t *testing.T) {
	counts := map[access.Tier]int{"FREE": 16, "STARTER": 10, "PROFESSIONAL": 14, "ENTERPRISE": 20, "ON_PREMISE": 20}
	for tier, features := range counts {
		require.Equal(t, tier, access.ParseTier(string(tier)))
		require.Len(t, tier.Features(), features, tier)
	}
	require.Equal(t, access.Free, access.ParseTier("GOLD"))
	for path, tiers := range map[string]string{
		"/agents/responses":    "FSPEO",
		"/responses":           "FSPEO",
		"/embeddings":          "FSPEO",
		"/moderations":         "F.PEO",
		"/guardrails/evaluate": "F.PEO",
		"/guardrailsx":         "FSPEO",
		"/prompts/{key}":       "FSPEO",
		"/traces":              "FSPEO",
		"/realtime/sessions":   "...EO",
		"/sandbox":             "...EO",
		"/mcp/hubs/{key}":      "...EO",
		"/mcp/servers":         "FSPEO",
		"/aegis/evaluate":      "...EO",
	} {
		for i, tier := range []access.Tier{access.Free, access.Starter, access.Professional, access.Enterprise, access.OnPremise} {
			require.Equal(t, tiers[i] != '.', tier.Allows(path), "%s %s", tier, path)
		}
	}
	require.EqualValues(t, 1_000, access.Free.Limits().RequestsPerMonth)
	require.EqualValues(t, 10_000, access.Starter.Limits().RequestsPerMonth)
	require.EqualValues(t, 100_000, access.Professional.Limits().RequestsPerMonth)
	require.EqualValues(t, access.Unlimited, access.OnPremise.Limits().RequestsPerMonth)
	require.Equal(t, 5, access.Free.Limits().MaxUsers)
}

func TestLevelDoesNotAllocate(t *testing.T) {
	g := grant(&directorypb.Token{}, &directorypb.User{Role: "user"})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if g.Level(access.Agents) != access.Write {
			t.Error("wrong level")
		}
	}))
}

func TestMembers(t *testing.T) {
	for role, all := range map[string]bool{"owner": true, "admin": true, "project_admin": false, "user": false} {
		user := &directorypb.User{Role: role, ProjectIds: []string{"p", "q"}}
		require.True(t, access.MemberOf(user, "p"), role)
		require.Equal(t, all, access.MemberOf(user, "other"), role)
		user.ProjectIds = nil
		require.True(t, access.MemberOf(user, "p"), "nothing is recorded")
	}
}
