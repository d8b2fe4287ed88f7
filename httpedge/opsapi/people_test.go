package opsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
		{"POST", "/v1/tokens", []string{"Origin", "http://evil.test"}, 403, "not for pages"},
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
	s := &Server{config: DefaultConfig(), parts: Parts{Admin: Admin{People: people}}}
	handler := s.people(Users, func(context.Context, *http.Request, []byte) (int, any, error) {
		t.Error("must not be asked")
		return 0, nil, nil
	})
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/users", bytes.NewReader([]byte(strings.Repeat("x", maxPeopleBody+1))))
	handler.ServeHTTP(recorder, request)
	require.Equal(t, 400, recorder.Code)
}
