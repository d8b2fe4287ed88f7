package clientapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/openapi"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// makers is a Client API on a real socket over a directory in memory. Whatever it answers is as its document says, and holds
// none of the secrets that were sent.
type makers struct {
	t       *testing.T
	url     string
	records *collectiontest.Records
	sealer  *collectiontest.Sealer
	routes  routers.Router
	client  *http.Client

	mu      sync.Mutex
	secrets []string // that no answer may hold
}

// byProject identifies a user of the project named by "Authorization: Bearer <project>".
func byProject(request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	project, ok := strings.CutPrefix(request.Header("Authorization"), "Bearer ")
	if !ok {
		return endpoint.Caller{}, failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "Missing API token")
	}
	tier := "ENTERPRISE"
	if project == "small" {
		tier = "FREE"
	}
	return endpoint.Caller{
		TenantID: "of " + project, ProjectID: project, UserID: "ann", Identified: true, Trusted: true,
		Grant: access.NewGrant(&directorypb.Token{Id: "tok"}, &directorypb.User{Id: "ann", Role: "owner"},
			&directorypb.Tenant{Id: "of " + project, Tier: tier}, &directorypb.Project{Id: project, TenantId: "of " + project}),
	}, nil
}

func serveMakers(t *testing.T) *makers {
	t.Helper()
	k := &makers{
		t: t, records: &collectiontest.Records{}, sealer: &collectiontest.Sealer{},
		client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second},
	}
	for _, project := range []string{"default", "small", "elsewhere"} {
		value, err := proto.Marshal(&directorypb.Project{Id: project, TenantId: "of " + project})
		require.NoError(t, err)
		_, err = k.records.Put(t.Context(), identity.Projects, project, 0, value)
		require.NoError(t, err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: endpointtest.Authenticate(byProject), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	config := clientapi.DefaultConfig()
	configured := endpointtest.Agents{{Id: "assistant", Name: "Assistant", Model: &agentpb.Model{Name: "scripted", MaxOutputTokens: 7}}}
	surface := clientapi.New(config, clientapi.Parts{
		Agents: configured, Sealer: k.sealer, IDs: &endpointtest.IDs{},
		Catalog: catalogIn(k.records, k.sealer, catalog.Env{
			Configured: func(project, key string) bool {
				_, is := configured.Agent(project, key)
				return is
			},
			CheckAgent: func(_ string, config *definition.Config) error {
				for _, tool := range config.Tools {
					if tool.Name == "broken" {
						return errors.New(`tool "broken": it does not work`)
					}
				}
				return nil
			},
		}),
	}).Surface()
	require.NoError(t, server.Mount(config.BasePath, surface))
	require.NoError(t, server.Start())
	k.url = "http://" + listener.Addr().String() + config.BasePath
	t.Cleanup(func() {
		k.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
	})
	document, err := openapi3.NewLoader().LoadFromData(openapi.Document(openapi.Info{
		Title: "t", Version: "1", Server: k.url, BearerAuth: true, Refusals: surface.Refusals, Error: struct {
			Error string `json:"error"`
			Code  string `json:"code"`
		}{},
	}, surface.Routes))
	require.NoError(t, err)
	k.routes, err = legacy.NewRouter(document)
	require.NoError(t, err)
	return k
}

// ask sends a request and returns status and body, both checked.
func (k *makers) ask(project, request, body string) (int, answer) {
	k.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	sent, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, strings.NewReader(body))
	require.NoError(k.t, err)
	sent.Header.Set("Authorization", "Bearer "+project)
	sent.Header.Set("Content-Type", "application/json")
	response, err := k.client.Do(sent)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	k.mu.Lock()
	for _, secret := range k.secrets {
		require.NotContains(k.t, string(raw), secret, "%s", request)
	}
	k.mu.Unlock()
	route, params, err := k.routes.FindRoute(sent)
	require.NoError(k.t, err)
	require.NoError(k.t, openapi3filter.ValidateResponse(k.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: sent, PathParams: params, Route: route},
		Status:                 response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(raw)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}), "%s: %d %s", request, response.StatusCode, raw)
	var got answer
	require.NoError(k.t, json.Unmarshal(raw, &got), "%s", raw)
	return response.StatusCode, got
}

// done is ask that succeeds, and what is in its body under a key.
func (k *makers) done(request, body, key string) answer {
	k.t.Helper()
	status, got := k.ask("default", request, body)
	require.Less(k.t, status, 300, "%s: %v", request, got)
	if key == "" {
		return got
	}
	return inner(k.t, got, key)
}

// refused asks in the project default.
func (k *makers) refused(request, body string, status int, code, text string) {
	k.t.Helper()
	got, answered := k.ask("default", request, body)
	require.Equal(k.t, status, got, "%s %s: %v", request, body, answered)
	require.Equal(k.t, answer{"error": text, "code": code}, answered, "%s %s", request, body)
}

func inner(t *testing.T, of answer, key string) answer {
	t.Helper()
	value, ok := of[key].(answer)
	require.True(t, ok, "%s of %v", key, of)
	return value
}

// keysOf is what a list of objects has under a key.
func keysOf(t *testing.T, list any, key string) []any {
	t.Helper()
	items, ok := list.([]any)
	require.True(t, ok, "%v", list)
	keys := make([]any, len(items))
	for i, item := range items {
		object, ok := item.(answer)
		require.True(t, ok)
		keys[i] = object[key]
	}
	return keys
}
