package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClientOperators: tenants, projects, users and tokens on the command line.
func TestClientOperators(t *testing.T) {
	t.Parallel()
	h := house(t)
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		got := runBinary(t, []string{"PARLEY_OPS=http://" + h.p.ops}, args...)
		require.Equalf(t, 0, got.code, "parley %v: %s", args, got.stderr)
		return got.stdout
	}
	made := decode(t, run(t, "tenant", "create", "--name", "Command Line", "--slug", slugFor(t), "--tier", "STARTER", "--owner", "Olga"))
	tenantID, owner := made.text("id"), made.text("ownerId")
	project := decode(t, run(t, "project", "create", "--tenant", tenantID, "--name", "Side Project"))
	require.Equal(t, "side-project", project.text("key"))
	user := decode(t, run(t, "user", "create", "--tenant", tenantID, "--name", "Robot", "--role", "user", "--permissions", "models:read")).text("id")

	t.Run("token_is_printed_once", func(t *testing.T) {
		token := strings.TrimSpace(run(t, "token", "create", "--user", owner, "--label", "quiet", "--quiet"))
		require.Regexp(t, "^service_[0-9a-f]{64}$", token)
		h.with(token).done(t, "GET", "/users", nil)
		require.NotContains(t, run(t, "token", "list", "--json"), token)
		require.NotContains(t, run(t, "token", "list", "--tenant", tenantID), token)
	})
	t.Run("scope_project_and_expiry", func(t *testing.T) {
		token := decode(t, run(t, "token", "create", "--user", user, "--project", project.text("id"), "--label", "narrow", "--scope", "models:write, agents.read", "--expires-in", "1h"))
		require.Equal(t, project.text("id"), token.text("projectId"))
		require.Equal(t, object1{"models": "write", "agents": "read"}, token.at("servicePermissions").v)
		require.NotNil(t, token.at("expiresAt").v)
		b := h.with(token.text("token"))
		b.done(t, "GET", "/models", nil)
		b.done(t, "GET", "/agents", nil)
		b.ask(t, "POST", "/models", `{}`).denied(403, "forbidden", "Forbidden: models requires write permission")
		t.Run("and_deleted", func(t *testing.T) {
			require.Equal(t, "API token "+token.text("id")+" deleted\n", run(t, "token", "delete", token.text("id")))
			b.ask(t, "GET", "/models", nil).denied(401, "unauthorized", "Invalid API token")
		})
	})
	t.Run("lists", func(t *testing.T) {
		for _, kind := range []struct{ name, heading, id string }{
			{"tenant", "ID +NAME +SLUG +TIER", tenantID}, {"project", "ID +TENANTID +KEY", project.text("id")}, {"user", "ID +TENANTID +NAME", user}, {"token", "ID +TENANTID +PROJECTID", owner},
		} {
			table := run(t, kind.name, "list", "--tenant", tenantID)
			require.Regexp(t, "(?i)^"+kind.heading, table)
			require.Contains(t, table, kind.id)
			rows := decode(t, run(t, kind.name, "list", "--json", "--tenant", tenantID)).list()
			require.NotEmpty(t, rows)
			require.Len(t, rows, strings.Count(table, "\n")-1)
		}
	})
	t.Run("names_cannot_disturb_the_terminal", func(t *testing.T) {
		made := h.done(t, "POST", "/users", object1{"name": "Eve\x1b[2J\tx\ny", "role": "user"}).text("user", "id")
		require.Contains(t, run(t, "user", "list"), "Eve\uFFFD[2J\uFFFDx\uFFFDy")
		run(t, "user", "delete", made)
	})
	t.Run("set", func(t *testing.T) {
		require.Equal(t, "PROFESSIONAL", decode(t, run(t, "tenant", "set", "--tier", "PROFESSIONAL", tenantID)).text("tier"))
		require.Equal(t, "Renamed", decode(t, run(t, "project", "set", "--name", "Renamed", project.text("id"))).text("name"))
		require.Equal(t, "admin", decode(t, run(t, "user", "set", "--role", "admin", user)).text("role"))
	})
	t.Run("delete", func(t *testing.T) {
		run(t, "user", "delete", user)
		run(t, "project", "delete", project.text("id"))
		require.NotContains(t, run(t, "user", "list"), user)
		require.NotContains(t, run(t, "project", "list"), project.text("id"))
	})
	t.Run("refusals", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code int
			text string
		}{
			{[]string{"tenant", "create"}, 1, "a tenant needs a name"},
			{[]string{"tenant", "create", "--name", "x", "--tier", "GOLD"}, 1, "FREE, STARTER, PROFESSIONAL, ENTERPRISE or ON_PREMISE"},
			{[]string{"tenant", "delete", "default"}, 1, "is the first one"},
			{[]string{"tenant", "delete", tenantID}, 1, "has API tokens"},
			{[]string{"user", "delete", owner}, 1, "is the last owner"},
			{[]string{"user", "create", "--name", "x", "--role", "king"}, 1, "owner, admin, project_admin or user"},
			{[]string{"token", "create", "--user", "usr_nobody"}, 1, "there is no user"},
			{[]string{"token", "create", "--scope", "models"}, 1, "is not service:level"},
			{[]string{"token", "create", "--scope", "models:most"}, 1, "none, read, write, admin"},
			{[]string{"token", "create", "--expires-in", "-1h"}, 1, "is not a duration above 0"},
			{[]string{"token", "delete", "tok_nobody"}, 1, "there is no token"},
			{[]string{"token", "delete"}, 2, "ID"},
			{[]string{"token", "set"}, 2, "Usage: parley token"},
			{[]string{"user"}, 2, "Usage: parley user"},
		} {
			got := runBinary(t, []string{"PARLEY_OPS=" + h.p.ops}, c.args...)
			require.Equalf(t, c.code, got.code, "%v: %s", c.args, got.stderr)
			require.Contains(t, got.stderr, c.text, "%v", c.args)
			require.Empty(t, got.stdout)
		}
	})
}
