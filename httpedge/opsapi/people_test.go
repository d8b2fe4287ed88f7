package opsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// crowd notes what it is asked.
type crowd struct{ told []string }

func (c *crowd) List(_ context.Context, kind PeopleKind, tenant string) (any, error) {
	c.told = append(c.told, fmt.Sprint("list ", kind, " of ", tenant))
	return []string{"one"}, nil
}

func (c *crowd) Create(_ context.Context, kind PeopleKind, body json.RawMessage) (any, error) {
	c.told = append(c.told, fmt.Sprint("create ", kind, " ", string(body)))
	if kind == Projects {
		return nil, machine.Fail(failurepb.Code_CONFLICT, "there is one")
	}
	return map[string]string{"secret": "s"}, nil
}

func (c *crowd) Update(_ context.Context, kind PeopleKind, id string, body json.RawMessage) (any, error) {
	c.told = append(c.told, fmt.Sprint("update ", kind, " ", id, " ", string(body)))
	return map[string]string{}, nil
}

func (c *crowd) Delete(_ context.Context, kind PeopleKind, id string) error {
	c.told = append(c.told, fmt.Sprint("delete ", kind, " ", id))
	if id == "none" {
		return machine.Fail(failurepb.Code_NOT_FOUND, "no %s", id)
	}
	return nil
}

func TestPeople(t *testing.T) {
	people := &crowd{}
	ask := admin(t, Admin{People: people})
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"GET", "/v1/tenants", nil, 200, `["one"]`},
		{"GET", "/v1/users?tenant=t1", nil, 200, `["one"]`},
		{"POST", "/v1/tokens", nil, 201, `{"secret":"s"}`},
		{"POST", "/v1/projects", nil, 409, "there is one"},
		{"PATCH", "/v1/tenants/t1", nil, 200, `{}`},
		{"DELETE", "/v1/tokens/tok_1", nil, 200, `{"deleted":true}`},
		{"DELETE", "/v1/users/none", nil, 404, "no none"},
		{"POST", "/v1/tokens", []string{"Origin", "http://evil.test"}, 403, "may not call"},
	} {
		status, body, err := ask(c.method, c.path, c.header...)
		require.NoError(t, err)
		require.Equal(t, c.status, status, "%s %s: %s", c.method, c.path, body)
		require.Contains(t, body, c.body)
	}
	require.Equal(t, []string{
		"list tenants of ", "list users of t1", "create tokens ", "create projects ", "update tenants t1 ", "delete tokens tok_1",
		"delete users none",
	}, people.told)
}

func TestPeopleBodyIsBounded(t *testing.T) {
	people := &crowd{}
	url, client := serveAdmin(t, Admin{People: people})
	for size, status := range map[int]int{maxPeopleBody: 201, maxPeopleBody + 1: 400} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/users", strings.NewReader(strings.Repeat("x", size)))
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, size)
	}
	require.Len(t, people.told, 1)
}
