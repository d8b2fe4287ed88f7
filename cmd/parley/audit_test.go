package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verifyAudit runs parley audit verify and returns its exit code and what it printed.
func verifyAudit(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), append([]string{"audit", "verify"}, args...), surroundings{stdout: &out, stderr: &problems})
	return code, out.String() + problems.String()
}

// auditTrail lists all rows that a query selects, through the pages, oldest first.
func auditTrail(t *testing.T, ask func(path string) tree, query string) (rows []tree) {
	t.Helper()
	for path := "/audit/logs?limit=3&" + query; path != ""; {
		page := ask(path)
		for _, row := range page.at("logs").list() {
			rows = append([]tree{row}, rows...)
		}
		path = ""
		if next, more := page.at("nextCursor").v.(string); more {
			path = "/audit/logs?limit=3&" + query + "&after=" + next
		}
	}
	return rows
}

// TestAudit: what is changed by cookie and by token is in the trail of the tenant, without secrets, for owners and admins only; the
// chain that is exported is verified, and one that was tampered with is not.
func TestAudit(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, email, _ := company(t, p)
	in := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	userID, tenantID := in.text("user", "id"), in.text("tenant", "id")
	newVisitor(t, p).call(t, "POST", "/auth/login", object1{"email": email, "password": "Wrong-canary-1!"})
	token := operate(t, p, "POST", "/tokens", object1{"userId": userID, "label": "owner's"}).text("token")
	api := apiCaller{p, token}
	secrets := []string{token, goodPassword, "Wrong-canary-1!", "canary-credential", "canary-password", "canary-query", "canary-agent", "canary-other1!A"}

	api.done(t, "POST", "/models/providers", object1{
		"key": "shop", "driver": "openai", "settings": object1{"baseUrl": "https://example.com/canary-query"}, "credentials": object1{"apiKey": "canary-credential"},
	})
	made := owner.done(t, "POST", "/webhooks", object1{"url": newHookListener(t).URL + "/in?key=canary-query", "events": []string{"session.idled"}}).at("endpoint")
	rotated := owner.done(t, "POST", "/webhooks/"+made.text("id")+"/rotate-secret", nil)
	secrets = append(secrets, made.text("secret"), strings.TrimPrefix(made.text("secret"), "whsec_"), rotated.at("endpoint").text("secret"))
	worker := api.done(t, "POST", "/users", object1{"name": "worker", "role": "user", "email": "w@example.test"}).at("user").text("id")
	issued := api.done(t, "POST", "/users/"+worker+"/tokens", object1{"label": "of worker"})
	low := apiCaller{p, issued.text("token")}
	secrets = append(secrets, low.token)
	for range 5 {
		require.Equal(t, 403, low.ask(t, "POST", "/users", object1{"name": "x", "role": "user"}).status)
	}
	require.Equal(t, 403, low.ask(t, "GET", "/audit/logs", nil).status)
	require.Equal(t, 400, api.ask(t, "POST", "/users", object1{"name": ""}, "User-Agent", strings.Repeat("agent\xff", 200), "X-Forwarded-For", "203.0.113.9").status)
	api.done(t, "DELETE", "/users/"+worker+"/tokens/"+issued.text("id"), nil)
	require.Equal(t, 200, owner.call(t, "POST", "/auth/change-password", object1{"currentPassword": goodPassword, "newPassword": "canary-other1!A"}).status)

	byToken := func(path string) tree { return api.done(t, "GET", path, nil) }
	byCookie := func(path string) tree { return owner.done(t, "GET", path, nil) }
	require.Eventually(t, func() bool { // refusals and failed sign-ins are written a moment later
		return len(auditTrail(t, byToken, "outcome=denied")) >= 3
	}, waitLong, waitStep)
	var said []string
	rows := auditTrail(t, byToken, "")
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), fmt.Sprint(row.at("seq").v))
		require.Equal(t, tenantID, row.text("tenantId"))
		require.Equal(t, "127.0.0.1", row.text("ipAddress"), "no proxy is trusted")
		require.LessOrEqual(t, len(row.text("userAgent")), 256)
		if row.text("outcome") == "success" {
			said = append(said, row.text("event"))
		}
	}
	require.Equal(t, []string{
		"POST /api/auth/register", "POST /api/auth/login", "POST /api/client/v1/models/providers", "POST /api/webhooks", "POST /api/webhooks/{id}/rotate-secret",
		"POST /api/client/v1/users", "POST /api/client/v1/users/{id}/tokens", "DELETE /api/client/v1/users/{id}/tokens/{tokenId}", "POST /api/auth/change-password",
	}, said)
	require.Equal(t, rows, auditTrail(t, byCookie, ""), "both surfaces say the same")

	created := auditTrail(t, byCookie, "resourceType=users&action=admin&outcome=success")
	require.Len(t, created, 1)
	require.Equal(t, []string{"api_token", userID, email, "owner", "members", worker}, []string{
		created[0].text("actorType"), created[0].text("actorUserId"), created[0].text("actorEmail"), created[0].text("actorRole"), created[0].text("service"), created[0].text("resourceId"),
	})
	change := created[0].at("metadata", "changes").list()[0]
	require.Nil(t, change.at("before").v)
	require.Equal(t, []string{"worker", "user", tenantID}, []string{change.text("after", "name"), change.text("after", "role"), change.text("after", "tenant_id")})
	denied := auditTrail(t, byCookie, "outcome=denied&apiTokenId="+issued.text("id")+"&method=POST")
	require.NotEmpty(t, denied)
	require.Equal(t, worker, denied[0].text("actorUserId"))
	require.Equal(t, 400, api.ask(t, "GET", "/audit/logs?from=yesterday", nil).status)
	require.Equal(t, 400, api.ask(t, "GET", "/audit/logs?outcome=maybe", nil).status)
	require.Equal(t, 400, api.ask(t, "GET", "/audit/logs?after=x", nil).status)
	require.Empty(t, auditTrail(t, byToken, "to=2020-01-01T00:00:00Z"))
	require.Empty(t, newTenant(t, p, "FREE").done(t, "GET", "/audit/logs?actorUserId="+userID, nil).at("logs").list(), "of another tenant")

	export := owner.call(t, "GET", "/audit/logs/export", nil)
	require.Equal(t, 200, export.status)
	for _, secret := range secrets {
		require.NotContains(t, export.text, secret)
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	check := func(text string, more ...string) (int, string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return verifyAudit(t, append([]string{"--file", file}, more...)...)
	}
	code, seen := check(export.text)
	require.Equal(t, exitOK, code, seen)
	_, anchor, _ := strings.Cut(strings.TrimSpace(seen), "seen ")
	code, text := check(strings.Replace(export.text, `"role":"user"`, `"role":"none"`, 1))
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "was altered")
	code, text = check(api.ask(t, "GET", "/audit/logs/export?outcome=success", nil).text)
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "filtered")
	code, text = verifyAudit(t, "--tenant", tenantID, "--ops", "http://"+p.ops, "--seen", anchor)
	require.Equal(t, exitOK, code, text)
	code, text = verifyAudit(t, "--tenant", "nobody", "--ops", "http://"+p.ops)
	require.Equal(t, exitOK, code, text)
}

// auditOfACluster: changes that are made at once through all nodes are one chain, whichever node is asked for it.
func auditOfACluster(t *testing.T, nodes []*visitor, cookie string) {
	t.Helper()
	const each = 8
	var waits []func() answer
	for range each {
		for _, b := range nodes {
			waits = append(waits, b.asking(t, "POST", (&url.URL{Scheme: "http", Host: b.listen, Path: "/api/webhooks"}).String(),
				object1{"url": "https://example.com/in", "events": []string{"session.idled"}}, "Cookie", cookie))
		}
	}
	for _, wait := range waits {
		require.Less(t, wait().status, http.StatusInternalServerError)
	}
	var rows []tree
	for _, b := range nodes {
		ask := func(path string) tree {
			a := newVisitor(t, b.process).call(t, "GET", path, nil, "Cookie", cookie)
			require.Equal(t, 200, a.status, a.text)
			return decode(t, a.text)
		}
		all := auditTrail(t, ask, "")
		for i, row := range all {
			require.Equal(t, fmt.Sprint(i+1), fmt.Sprint(row.at("seq").v))
		}
		if rows != nil {
			require.Equal(t, rows, all, "every node says the same")
		}
		rows = all
		var posted int
		for _, row := range all {
			if row.text("event") == "POST /api/webhooks" {
				posted++
			}
		}
		require.Len(t, waits, posted)
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(newVisitor(t, b.process).call(t, "GET", "/audit/logs/export", nil, "Cookie", cookie).text), 0o600))
		code, text := verifyAudit(t, "--file", file)
		require.Equal(t, exitOK, code, text)
	}
}
