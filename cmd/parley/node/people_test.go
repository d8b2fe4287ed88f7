package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/opsapi"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// desk is the operator's side with a tenant in it, answering in JSON.
type desk struct {
	*people

	t *testing.T
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	records := &endpointtest.Records{}
	f := &founding{records: records, ids: mint(t), tier: "ON_PREMISE", now: time.Now}
	_, err := f.found(t.Context())
	require.NoError(t, err)
	return &desk{&people{records: records, ids: mint(t), now: time.Now}, t}
}

func (d *desk) create(kind opsapi.PeopleKind, body string) map[string]any {
	d.t.Helper()
	made, err := d.Create(d.t.Context(), kind, json.RawMessage(body))
	require.NoError(d.t, err)
	return d.json(made)
}

func (d *desk) json(value any) map[string]any {
	d.t.Helper()
	text, err := json.Marshal(value)
	require.NoError(d.t, err)
	var object map[string]any
	require.NoError(d.t, json.Unmarshal(text, &object))
	return object
}

func (d *desk) list(kind opsapi.PeopleKind, tenant string) []any {
	d.t.Helper()
	found, err := d.List(d.t.Context(), kind, tenant)
	require.NoError(d.t, err)
	text, err := json.Marshal(found)
	require.NoError(d.t, err)
	var list []any
	require.NoError(d.t, json.Unmarshal(text, &list))
	return list
}

func TestPeopleOfAnotherTenant(t *testing.T) {
	d := newDesk(t)
	acme := d.create(opsapi.Tenants, `{"name":"ACME Corp.","owner":"Ann"}`)
	require.Equal(t, "acme-corp", acme["slug"])
	require.Equal(t, "FREE", acme["tier"])
	id := fmt.Sprint(acme["id"])
	require.Len(t, d.list(opsapi.Projects, id), 1)
	require.Len(t, d.list(opsapi.Users, id), 1)
	require.Len(t, d.list(opsapi.Tenants, ""), 2)

	made := d.create(opsapi.Tokens, fmt.Sprintf(`{"userId":%q,"servicePermissions":{"agents":"read"},"expiresAt":%q}`,
		acme["ownerId"], time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	require.Regexp(t, "^service_[0-9a-f]{64}$", made["token"])
	require.Equal(t, acme["projectId"], made["projectId"], "the tenant's first")
	listed := d.list(opsapi.Tokens, id)
	require.Len(t, listed, 1)
	require.NotContains(t, listed[0], "token", "shown once")
	first, ok := listed[0].(map[string]any)
	require.True(t, ok)
	require.Equal(t, map[string]any{"agents": "read"}, first["servicePermissions"])

	user := d.create(opsapi.Users, fmt.Sprintf(`{"tenantId":%q,"name":"Bob","email":"Bob@acme.test"}`, id))
	require.Equal(t, "bob@acme.test", user["email"])
	require.Equal(t, "user", user["role"])
	changed, err := d.Update(t.Context(), opsapi.Users, fmt.Sprint(user["id"]), json.RawMessage(`{"role":"admin"}`))
	require.NoError(t, err)
	require.Equal(t, "admin", d.json(changed)["role"])
	changed, err = d.Update(t.Context(), opsapi.Tenants, id, json.RawMessage(`{"tier":"STARTER"}`))
	require.NoError(t, err)
	require.Equal(t, "STARTER", d.json(changed)["tier"])

	d.create(opsapi.Tokens, fmt.Sprintf(`{"userId":%q}`, user["id"]))
	require.NoError(t, d.Delete(t.Context(), opsapi.Users, fmt.Sprint(user["id"])))
	require.Len(t, d.list(opsapi.Tokens, id), 1, "his tokens went with him")
	require.NoError(t, d.Delete(t.Context(), opsapi.Tokens, fmt.Sprint(made["id"])))
	require.NoError(t, d.Delete(t.Context(), opsapi.Tenants, id))
}

func TestLastOwnerStays(t *testing.T) {
	d := newDesk(t)
	acme := d.create(opsapi.Tenants, `{"name":"ACME"}`)
	id, owner := fmt.Sprint(acme["id"]), fmt.Sprint(acme["ownerId"])
	token := fmt.Sprint(d.create(opsapi.Tokens, fmt.Sprintf(`{"userId":%q}`, owner))["id"])
	refused := func(err error) {
		t.Helper()
		var failure *machine.Failure
		require.ErrorAs(t, err, &failure)
		require.Contains(t, failure.DefaultText(), "last owner")
	}

	refused(d.Delete(t.Context(), opsapi.Users, owner))
	require.Len(t, d.list(opsapi.Tokens, id), 1, "nothing was begun")
	_, err := d.Update(t.Context(), opsapi.Users, owner, json.RawMessage(`{"role":"admin"}`))
	refused(err)
	_, err = d.Update(t.Context(), opsapi.Users, owner, json.RawMessage(`{"name":"Ann"}`))
	require.NoError(t, err)

	second := fmt.Sprint(d.create(opsapi.Users, fmt.Sprintf(`{"tenantId":%q,"name":"Bea","role":"owner"}`, id))["id"])
	require.NoError(t, d.Delete(t.Context(), opsapi.Users, owner))
	refused(d.Delete(t.Context(), opsapi.Users, second))
	require.Error(t, d.Delete(t.Context(), opsapi.Tokens, token), "went with the first")
	require.NoError(t, d.Delete(t.Context(), opsapi.Tenants, id))
	require.NoError(t, d.Delete(t.Context(), opsapi.Users, second), "there is no tenant to lose")
}

// TestTokenMakesAMember: whom the operator gives a token for a project acts in it, and stays in the others.
func TestTokenMakesAMember(t *testing.T) {
	d := newDesk(t)
	user := fmt.Sprint(d.create(opsapi.Users, `{"name": "Robot"}`)["id"])
	project := fmt.Sprint(d.create(opsapi.Projects, `{"name": "Later"}`)["id"])
	for range 2 {
		d.create(opsapi.Tokens, fmt.Sprintf(`{"userId": %q, "projectId": %q, "label": "for it"}`, user, project))
	}
	found, err := one[directorypb.User](t.Context(), d.people, endpoint.Users, user, "user")
	require.NoError(t, err)
	require.Equal(t, []string{firstProject, project}, found.value.GetProjectIds())
}

func TestPeopleRefusals(t *testing.T) {
	d := newDesk(t)
	d.create(opsapi.Users, `{"name":"Ann","email":"ann@x.test"}`)
	acme := d.create(opsapi.Tenants, `{"name":"ACME"}`)
	for _, c := range []struct {
		kind opsapi.PeopleKind
		body string
		code failurepb.Code
		text string
	}{
		{opsapi.Tenants, `{}`, failurepb.Code_VALIDATION, "needs a name"},
		{opsapi.Tenants, `[]`, failurepb.Code_VALIDATION, "not such a JSON object"},
		{opsapi.Tenants, `{"name":"x","tier":"GOLD"}`, failurepb.Code_VALIDATION, "tier"},
		{opsapi.Tenants, `{"name":"x","slug":"A b"}`, failurepb.Code_VALIDATION, "slug"},
		{opsapi.Tenants, `{"name":"acme"}`, failurepb.Code_CONFLICT, "slug"},
		{opsapi.Tenants, `{"name":"` + strings.Repeat("x", maxName+1) + `"}`, failurepb.Code_VALIDATION, "at most"},
		{opsapi.Projects, `{"tenantId":"none","key":"k"}`, failurepb.Code_NOT_FOUND, "tenant"},
		{opsapi.Projects, `{"key":"default"}`, failurepb.Code_CONFLICT, "key"},
		{opsapi.Projects, `{}`, failurepb.Code_VALIDATION, "key"},
		{opsapi.Users, `{}`, failurepb.Code_VALIDATION, "needs a name"},
		{opsapi.Users, `{"name":"x","role":"king"}`, failurepb.Code_VALIDATION, "role"},
		{opsapi.Users, `{"name":"x","email":"ANN@x.test"}`, failurepb.Code_CONFLICT, "address"},
		{opsapi.Tokens, `{"userId":"none"}`, failurepb.Code_NOT_FOUND, "user"},
		{opsapi.Tokens, `{"projectId":"none"}`, failurepb.Code_NOT_FOUND, "project"},
		{opsapi.Tokens, fmt.Sprintf(`{"projectId":%q}`, acme["projectId"]), failurepb.Code_VALIDATION, "another tenant"},
		{opsapi.Tokens, `{"label":"x"}`, failurepb.Code_VALIDATION, "label"},
		{opsapi.Tokens, `{"label":"äb"}`, failurepb.Code_VALIDATION, "label"},
		{opsapi.Tokens, `{"servicePermissions":{"agents":"all"}}`, failurepb.Code_VALIDATION, "no level"},
		{opsapi.Tokens, `{"expiresAt":"2001-01-01T00:00:00Z"}`, failurepb.Code_VALIDATION, "expiresAt"},
	} {
		_, err := d.Create(t.Context(), c.kind, json.RawMessage(c.body))
		var failure *machine.Failure
		require.ErrorAs(t, err, &failure, c.body)
		require.Equal(t, c.code, failure.Code, c.body)
		require.Contains(t, failure.DefaultText(), c.text)
	}
	for kind, id := range map[opsapi.PeopleKind]string{opsapi.Tenants: firstTenant, opsapi.Projects: firstProject, opsapi.Tokens: "none", opsapi.Users: "none"} {
		err := d.Delete(t.Context(), kind, id)
		var failure *machine.Failure
		require.ErrorAs(t, err, &failure, string(kind))
	}
	_, err := d.Update(t.Context(), opsapi.Tokens, "x", nil)
	require.ErrorContains(t, err, "cannot be changed")
}
