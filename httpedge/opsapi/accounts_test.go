package opsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/identity"
	"parley/proto/directorypb"
)

// accountServer is an operations listener over a directory with the first tenant in it.
type accountServer struct {
	t       *testing.T
	url     string
	client  *http.Client
	records *collectiontest.Records
}

func serveAccounts(t *testing.T) *accountServer {
	t.Helper()
	s := &accountServer{t: t, records: &collectiontest.Records{}}
	var last atomic.Int64
	accounts := identity.New(s.records, identity.Env{
		NewID: func(kind string) string { return fmt.Sprintf("%s_%05d", kind, last.Add(1)) },
		Now:   time.Now, Random: func(into []byte) { copy(into, fmt.Sprintf("%032d", last.Add(1))) },
	})
	_, err := (&identity.Bootstrap{Accounts: accounts, Tier: "ON_PREMISE"}).Run(t.Context())
	require.NoError(t, err)
	s.url, s.client = serveAdmin(t, Admin{Accounts: func() *identity.Accounts { return accounts }})
	return s
}

// ask makes a request and returns its answer as it is.
func (s *accountServer) ask(method, path, body string, header ...string) (status int, answer []byte) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/v1/"+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	require.NoError(s.t, err)
	answer, err = io.ReadAll(response.Body)
	require.NoError(s.t, errors.Join(err, response.Body.Close()))
	if response.StatusCode < 300 {
		require.Equal(s.t, "no-store", response.Header.Get("Cache-Control"))
	}
	return response.StatusCode, answer
}

func (s *accountServer) done(method, path, body string) map[string]any {
	s.t.Helper()
	status, answer := s.ask(method, path, body)
	require.Less(s.t, status, 300, "%s %s: %s", method, path, answer)
	var object map[string]any
	require.NoError(s.t, json.Unmarshal(answer, &object))
	return object
}

func (s *accountServer) list(kind, tenant string) []any {
	s.t.Helper()
	status, answer := s.ask("GET", kind+"?tenant="+tenant, "")
	require.Equal(s.t, 200, status, "%s", answer)
	var list []any
	require.NoError(s.t, json.Unmarshal(answer, &list))
	return list
}

func (s *accountServer) refused(method, path, body string, status int, text string) {
	s.t.Helper()
	got, answer := s.ask(method, path, body)
	require.Equal(s.t, status, got, "%s %s %s: %s", method, path, body, answer)
	var problem struct{ Error string }
	require.NoError(s.t, json.Unmarshal(answer, &problem))
	require.Contains(s.t, problem.Error, text, body)
}

func TestAccountRoutes(t *testing.T) {
	s := serveAccounts(t)
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		answer             string
	}{
		{"GET", "tenants", "", nil, 200, `"slug":"default"`},
		{"GET", "users?tenant=t1", "", nil, 200, `[]`},
		{"POST", "tokens", "", nil, 201, `"token":"service_`},
		{"POST", "projects", `{"key":"default"}`, nil, 409, "there is a project"},
		{"PATCH", "tenants/default", `{"name":"Us"}`, nil, 200, `"name":"Us"`},
		{"DELETE", "tokens/tok_00001", "", nil, 200, `{"deleted":true}`},
		{"DELETE", "users/none", "", nil, 404, "there is no user"},
		{"POST", "tokens", "", []string{"Origin", "http://evil.test"}, 403, "may not call"},
	} {
		if c.method == "DELETE" && c.status == 200 {
			made := s.done("POST", "tokens", "")
			c.path = "tokens/" + fmt.Sprint(made["id"])
		}
		status, answer := s.ask(c.method, c.path, c.body, c.header...)
		require.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, answer)
		if c.status != 403 {
			require.Contains(t, string(answer), c.answer)
		}
	}
}

func TestAccountsOfANodeThatIsStarting(t *testing.T) {
	ask := admin(t, Admin{Accounts: func() *identity.Accounts { return nil }})
	status, body, err := ask("GET", "/v1/tenants")
	require.NoError(t, err)
	require.Equal(t, 503, status)
	require.Contains(t, body, "the node is starting")
}

func TestAccountBodyIsBounded(t *testing.T) {
	s := serveAccounts(t)
	s.done("POST", "users", `{"name":"x"}`+strings.Repeat(" ", maxAccountBody-12))
	s.refused("POST", "users", `{"name":"x"}`+strings.Repeat(" ", maxAccountBody-11), 400, "larger than 65536 bytes")
	require.Len(t, s.list("users", ""), 2)
}

func TestAccountsOfAnotherTenant(t *testing.T) {
	s := serveAccounts(t)
	acme := s.done("POST", "tenants", `{"name":"ACME Corp.","owner":"Ann"}`)
	require.Equal(t, "acme-corp", acme["slug"])
	require.Equal(t, "FREE", acme["tier"])
	id := fmt.Sprint(acme["id"])
	require.Len(t, s.list("projects", id), 1)
	require.Len(t, s.list("users", id), 1)
	require.Len(t, s.list("tenants", ""), 2)

	made := s.done("POST", "tokens", fmt.Sprintf(`{"userId":%q,"servicePermissions":{"agents":"read"},"expiresAt":%q}`,
		acme["ownerId"], time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	require.Regexp(t, "^service_[0-9a-f]{64}$", made["token"])
	require.Equal(t, acme["projectId"], made["projectId"], "the tenant's first")
	listed := s.list("tokens", id)
	require.Len(t, listed, 1)
	require.NotContains(t, listed[0], "token", "shown once")
	first, ok := listed[0].(map[string]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{"agents": "read"}, first["servicePermissions"])

	user := s.done("POST", "users", fmt.Sprintf(`{"tenantId":%q,"name":"Bob","email":"Bob@acme.test"}`, id))
	require.Equal(t, "bob@acme.test", user["email"])
	require.Equal(t, "user", user["role"])
	userID := fmt.Sprint(user["id"])
	require.Equal(t, "admin", s.done("PATCH", "users/"+userID, `{"role":"admin"}`)["role"])
	require.Equal(t, "STARTER", s.done("PATCH", "tenants/"+id, `{"tier":"STARTER"}`)["tier"])

	s.done("POST", "tokens", fmt.Sprintf(`{"userId":%q}`, userID))
	s.done("DELETE", "users/"+userID, "")
	require.Len(t, s.list("tokens", id), 1, "the user's tokens went along")
	s.done("DELETE", "tokens/"+fmt.Sprint(made["id"]), "")
	s.done("DELETE", "tenants/"+id, "")
}

func TestLastOwnerStays(t *testing.T) {
	s := serveAccounts(t)
	acme := s.done("POST", "tenants", `{"name":"ACME"}`)
	id, owner := fmt.Sprint(acme["id"]), fmt.Sprint(acme["ownerId"])
	token := fmt.Sprint(s.done("POST", "tokens", fmt.Sprintf(`{"userId":%q}`, owner))["id"])
	const last = "last owner"

	s.refused("DELETE", "users/"+owner, "", 400, last)
	require.Len(t, s.list("tokens", id), 1, "nothing was begun")
	s.refused("PATCH", "users/"+owner, `{"role":"admin"}`, 400, last)
	s.done("PATCH", "users/"+owner, `{"name":"Ann"}`)

	second := fmt.Sprint(s.done("POST", "users", fmt.Sprintf(`{"tenantId":%q,"name":"Bea","role":"owner"}`, id))["id"])
	s.done("DELETE", "users/"+owner, "")
	s.refused("DELETE", "users/"+second, "", 400, last)
	s.refused("DELETE", "tokens/"+token, "", 404, "there is no token") // deleted with the first owner
	s.done("DELETE", "tenants/"+id, "")
	s.done("DELETE", "users/"+second, "") // there is no tenant to lose
}

// TestTokenMakesAMember: a user for whom the operator creates a token in a project acts in it, and stays in the others.
func TestTokenMakesAMember(t *testing.T) {
	s := serveAccounts(t)
	user := fmt.Sprint(s.done("POST", "users", `{"name": "Robot"}`)["id"])
	project := fmt.Sprint(s.done("POST", "projects", `{"name": "Later"}`)["id"])
	for range 2 {
		s.done("POST", "tokens", fmt.Sprintf(`{"userId": %q, "projectId": %q, "label": "for it"}`, user, project))
	}
	require.Equal(t, []string{identity.DefaultProject, project}, s.user(user).GetProjectIds())
}

func (s *accountServer) user(id string) *directorypb.User {
	s.t.Helper()
	stored, found := s.records.Get(identity.Users, id)
	require.True(s.t, found)
	user := &directorypb.User{}
	require.NoError(s.t, proto.Unmarshal(stored.Value, user))
	return user
}

// TestAccountRefusals: an operator is bound by the rules of the Client API, in the same words.
func TestAccountRefusals(t *testing.T) {
	s := serveAccounts(t)
	s.done("POST", "users", `{"name":"Ann","email":"ann@x.test"}`)
	acme := s.done("POST", "tenants", `{"name":"ACME"}`)
	for _, c := range []struct {
		kind, body string
		status     int
		text       string
	}{
		{"tenants", `{}`, 400, "needs a name"},
		{"tenants", `[]`, 400, "not such a JSON object"},
		{"tenants", `{"name":"x","tier":"GOLD"}`, 400, "tier"},
		{"tenants", `{"name":"x","slug":"A b"}`, 400, "slug"},
		{"tenants", `{"name":"x","email":"nobody"}`, 400, "Invalid email format"},
		{"tenants", `{"name":"acme"}`, 409, "slug"},
		{"tenants", `{"name":"` + strings.Repeat("x", 201) + `"}`, 400, "at most"},
		{"projects", `{"tenantId":"none","key":"k"}`, 404, "tenant"},
		{"projects", `{"key":"default"}`, 409, "key"},
		{"projects", `{}`, 400, "key"},
		{"projects", `{"name":"` + strings.Repeat("x", 201) + `"}`, 400, "at most"},
		{"users", `{}`, 400, "Name and role are required"},
		{"users", `{"name":"x","role":"king"}`, 400, "Invalid role. Must be owner, admin, project_admin or user"},
		{"users", `{"name":"x","email":"nobody"}`, 400, "Invalid email format"},
		{"users", `{"name":"x","email":"A <a@example.org>"}`, 400, "Invalid email format"},
		{"users", `{"name":"x","email":"ANN@x.test"}`, 409, "User with this email already exists in your organization"},
		{"tokens", `{"userId":"none"}`, 404, "user"},
		{"tokens", `{"projectId":"none"}`, 404, "project"},
		{"tokens", fmt.Sprintf(`{"projectId":%q}`, acme["projectId"]), 400, "another tenant"},
		{"tokens", `{"label":"x"}`, 400, "Label must be at least 3 characters"},
		{"tokens", `{"label":"äb"}`, 400, "Label must be at least 3 characters"},
		{"tokens", `{"servicePermissions":{"agents":"all"}}`, 400, "no level"},
		{"tokens", `{"expiresAt":"2001-01-01T00:00:00Z"}`, 400, "expiresAt"},
	} {
		s.refused("POST", c.kind, c.body, c.status, c.text)
	}
	for path, status := range map[string]int{
		"tenants/default": 400, "projects/default": 400, "tokens/none": 404, "users/none": 404,
	} {
		got, answer := s.ask("DELETE", path, "")
		require.Equal(t, status, got, "%s: %s", path, answer)
	}
	s.refused("PATCH", "tokens/x", "", 400, "cannot be changed")
}
