package permission_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/access"
	"parley/actors/core/permission"
	"parley/proto/directorypb"
)

type levels = map[string]string

// grant is what an unscoped token (nil scope) or a scoped one gives in the hands of a role.
func grant(role string, own, scope levels) *access.Grant {
	return access.NewGrant(
		&directorypb.Token{Scoped: scope != nil, Scope: scope}, &directorypb.User{Role: role, ServicePermissions: own},
		&directorypb.Tenant{}, &directorypb.Project{},
	)
}

// Document 1, "Authentication", 8, and document 3, 2.3, 2.7: webhooks by role, own permissions and scope, for each policy.
func TestWebhooks(t *testing.T) {
	const y, n = true, false
	for _, c := range []struct {
		name              string
		grant             *access.Grant
		read, admin       [3]bool           // built-in, off, external
		builtIn, off, ext permission.Reason // why admin is refused
	}{
		{"owner", grant("owner", nil, nil), [3]bool{y, y, y}, [3]bool{y, y, y}, "", "", ""},
		{"owner_ignores_overrides", grant("owner", levels{"webhooks": "none"}, nil), [3]bool{y, y, y}, [3]bool{y, y, y}, "", "", ""},
		{"admin", grant("admin", nil, nil), [3]bool{y, y, y}, [3]bool{y, y, y}, "", "", ""},
		{"admin_lowered", grant("admin", levels{"webhooks": "read"}, nil), [3]bool{y, y, y}, [3]bool{n, y, y}, permission.OwnerLevel, "", ""},
		{"project_admin", grant("project_admin", nil, nil), [3]bool{n, y, y}, [3]bool{n, y, y}, permission.OwnerLevel, "", ""},
		{"project_admin_raised", grant("project_admin", levels{"webhooks": "admin"}, nil), [3]bool{y, y, y}, [3]bool{y, y, y}, "", "", ""},
		{"user", grant("user", nil, nil), [3]bool{n, n, y}, [3]bool{n, n, y}, permission.OwnerLevel, permission.OwnerLevel, ""},
		{"user_raised", grant("user", levels{"webhooks": "admin"}, nil), [3]bool{y, n, y}, [3]bool{y, n, y}, "", permission.OwnerLevel, ""},
		{"user_write_is_read", grant("user", levels{"webhooks": "write"}, nil), [3]bool{y, n, y}, [3]bool{n, n, y}, permission.OwnerLevel, permission.OwnerLevel, ""},
		{"scope_reads", grant("owner", nil, levels{"webhooks": "read"}), [3]bool{y, y, y}, [3]bool{n, n, n}, permission.TokenScope, permission.TokenScope, permission.TokenScope},
		{"scope_write_is_read", grant("owner", nil, levels{"webhooks": "write"}), [3]bool{y, y, y}, [3]bool{n, n, n}, permission.TokenScope, permission.TokenScope, permission.TokenScope},
		{"scope_admin", grant("owner", nil, levels{"webhooks": "admin"}), [3]bool{y, y, y}, [3]bool{y, y, y}, "", "", ""},
		{"scope_of_others", grant("owner", nil, levels{"agents": "admin"}), [3]bool{n, n, n}, [3]bool{n, n, n}, permission.TokenScope, permission.TokenScope, permission.TokenScope},
		{"scope_never_widens", grant("user", nil, levels{"webhooks": "admin"}), [3]bool{n, n, y}, [3]bool{n, n, y}, permission.OwnerLevel, permission.OwnerLevel, ""},
		{"unknown_role", grant("guest", nil, nil), [3]bool{n, n, y}, [3]bool{n, n, y}, permission.OwnerLevel, permission.OwnerLevel, ""},
		{"nobody", nil, [3]bool{n, n, n}, [3]bool{n, n, n}, permission.Unauthorized, permission.Unauthorized, permission.Unauthorized},
	} {
		t.Run(c.name, func(t *testing.T) {
			for policy, reason := range []permission.Reason{c.builtIn, c.off, c.ext} {
				read := permission.Decide(permission.Policy(policy), c.grant, access.Webhooks, access.Read)
				admin := permission.Decide(permission.Policy(policy), c.grant, access.Webhooks, access.Admin)
				require.Equal(t, c.read[policy], read.Allowed, "read %d", policy)
				require.Equal(t, permission.Verdict{Allowed: c.admin[policy], Reason: reason}, admin, "admin %d", policy)
				require.Equal(t, admin.Allowed, admin.Reason.Text(c.grant, access.Webhooks, access.Admin) == "")
			}
		})
	}
}

func TestReasons(t *testing.T) {
	user := grant("user", levels{"audit": "admin"}, nil)
	for _, c := range []struct {
		service access.Service
		level   access.Level
		reason  permission.Reason
		text    string
	}{
		{"audit", access.Read, permission.OwnersOnly, "Only owners and admins hold audit:read"},
		{"planes", access.Read, permission.UnknownService, "There is no permission planes:read"},
		{"agents", access.None, permission.UnknownService, "There is no permission agents:none"},
		{"members", access.Admin, permission.OwnerLevel, "The user, whose role is user, does not hold members:admin"},
	} {
		for _, policy := range []permission.Policy{permission.BuiltIn, permission.Off} {
			verdict := permission.Decide(policy, user, c.service, c.level)
			require.Equal(t, permission.Verdict{Reason: c.reason}, verdict)
			require.Equal(t, c.text, verdict.Reason.Text(user, c.service, c.level))
		}
	}
	require.Equal(t, permission.OwnersOnly, permission.Decide(permission.External, user, access.Audit, access.Read).Reason)
}

// The built-in engine says what Grant.Level does, and a scope never allows what the owner's own level does not.
func TestAgreesWithGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := func(label string) levels {
			return rapid.MapOf(rapid.SampledFrom([]string{"agents", "webhooks", "audit", "members"}),
				rapid.SampledFrom([]string{"none", "read", "write", "admin"})).Draw(t, label)
		}
		role := rapid.SampledFrom([]string{"owner", "admin", "project_admin", "user", "guest"}).Draw(t, "role")
		own, scope := drawn("own"), drawn("scope")
		if rapid.Bool().Draw(t, "unscoped") {
			scope = nil
		}
		held, whole := grant(role, own, scope), grant(role, own, nil)
		for _, definition := range access.Definitions() {
			for level := access.Read; level <= access.Admin; level++ {
				allowed := permission.Decide(permission.BuiltIn, held, definition.Service, level).Allowed
				require.Equal(t, held.Level(definition.Service) >= level, allowed)
				require.True(t, !allowed || permission.Decide(permission.BuiltIn, whole, definition.Service, level).Allowed)
			}
		}
	})
}

func TestDecisionIDs(t *testing.T) {
	batch := "dec_" + strings.Repeat("a-_", 7)
	for _, number := range []int{0, 7, permission.MaxBatch - 1} {
		of, n, ok := permission.BatchOf(permission.DecisionID(batch, number))
		require.True(t, ok)
		require.Equal(t, []any{batch, number}, []any{of, n})
	}
	for _, id := range []string{"", batch, batch + "-", batch + "-x", batch + "--1", batch + "-256", batch + "_1", "run_" + batch[4:] + "-1"} {
		_, _, ok := permission.BatchOf(id)
		require.False(t, ok, id)
	}
}
