package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/inference"
	"parley/actors/machine"
	"parley/actors/turn/model"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/gateway"
	"parley/httpedge/openapi"
	"parley/proto/agentpb"
	"parley/proto/directorypb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's pool looks at its end only every ten seconds, and its clock for the Date header has none.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

// models joins the gateway with real calls, as the node does.
type models struct{ caller *inference.Caller }

func (m models) Chat(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := m.caller.Chat(ctx, translated(call))
	return answer, problem(err)
}

func (m models) Embed(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := m.caller.Embed(ctx, translated(call))
	return answer, problem(err)
}

func (m models) Moderate(ctx context.Context, call *gateway.Call) ([]byte, error) {
	answer, err := m.caller.Moderate(ctx, translated(call))
	return answer, problem(err)
}

func (m models) ChatStream(ctx context.Context, call *gateway.Call, emit func([]byte, bool) error) error {
	return problem(m.caller.ChatStream(ctx, translated(call), emit))
}

func translated(call *gateway.Call) *inference.Call {
	return &inference.Call{
		TenantID: call.Caller.TenantID, ProjectID: call.Caller.ProjectID, UserID: call.Caller.UserID,
		RequestID: call.RequestID, Model: call.Model, Body: call.Body, Cache: (*inference.Cache)(call.Cache),
	}
}

func problem(err error) error {
	var failed *inference.Error
	if !errors.As(err, &failed) {
		return err
	}
	return &endpoint.Problem{
		Status: failed.Status, Code: failed.Code, Message: failed.Message, RetryAfter: failed.RetryAfter,
		Details: map[string]any{"type": failed.Type, "param": failed.Param},
	}
}

// kit is a gateway on a real socket before a provider on another.
type kit struct {
	t       testing.TB
	url     string
	api     *gateway.API
	client  *http.Client
	answer  http.HandlerFunc // of the provider
	asked   chan []byte      // bodies that the provider got
	mu      sync.Mutex
	booked  []inference.Usage
	schemas *openapi3.T
	callee  *agentpb.Model // of the models that are relayed
	door    doorkeeper
	kept    []string // verdicts of guardrails
}

// doorkeeper lets in whoever has a token, until it is told why not.
type doorkeeper struct {
	endpoint.Authenticator

	why atomic.Pointer[machine.Failure]
}

func (d *doorkeeper) Watch(endpoint.Caller, *endpoint.Route) func() *machine.Failure {
	return d.why.Load
}

// moved says that the provider is elsewhere.
func (k *kit) moved(address string) { k.callee.BaseUrl = address + "/v1" }

func (k *kit) catalog(provider string) func(projectID, key string) (*agentpb.Model, *directorypb.Model, bool) {
	callee := &agentpb.Model{Provider: agentpb.Provider_OPENAI, Name: "up", BaseUrl: provider + "/v1", ApiKey: "sk-upstream-secret", MaxRetries: -1}
	k.callee = callee
	scripted := &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: &agentpb.Script{Steps: []*agentpb.Script_Step{
		{ToolCalls: []*agentpb.Script_ToolCall{{Name: "weather", Arguments: `{"city":"Rome"}`}}}, {Text: "It is sunny in Rome"},
	}}}
	known := map[string]struct {
		callee   *agentpb.Model
		category string
	}{
		"relayed": {callee, "llm"}, "keeping": {callee, "llm"}, "embed": {callee, "embedding"}, "moderate": {callee, "moderation"},
		"scripted": {scripted, "llm"}, "words": {&agentpb.Model{Provider: agentpb.Provider_SCRIPTED}, "embedding"},
	}
	return func(_, key string) (*agentpb.Model, *directorypb.Model, bool) {
		one, ok := known[key]
		record := &directorypb.Model{Id: "mdl_" + key, Key: key, Category: one.category, ProviderKey: "main"}
		if key == "keeping" {
			record.Cache = &directorypb.ModelCache{Enabled: true, TtlSeconds: 3600, Most: 100}
		}
		return one.callee, record, ok
	}
}

type lookup func(projectID, key string) (*agentpb.Model, *directorypb.Model, bool)

func (l lookup) Model(projectID, key string) (*agentpb.Model, *directorypb.Model, bool) {
	return l(projectID, key)
}

func serve(tb testing.TB, answer http.HandlerFunc, change ...func(*gateway.Config)) *kit {
	tb.Helper()
	k := &kit{t: tb, answer: answer, asked: make(chan []byte, 1000), client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		select {
		case k.asked <- raw:
		default:
		}
		k.answer(w, r)
	}))
	providers := model.New(model.Config{})
	upstream := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	settings := inference.DefaultConfig()
	settings.BreakerThreshold = 0
	caller := inference.New(settings, inference.Parts{
		Catalog: lookup(k.catalog(provider.URL)), Providers: providers, Client: upstream,
		Book: func(u inference.Usage) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.booked = append(k.booked, u)
		},
	})
	k.door.Authenticator = endpointtest.Authenticate(endpointtest.ByToken)
	config := gateway.DefaultConfig()
	for _, set := range change {
		set(&config)
	}
	require.NoError(tb, config.Validate())
	log := slog.New(slog.DiscardHandler)
	k.api = gateway.New(config, models{caller}, log)
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: &k.door, Logger: log,
	})
	require.NoError(tb, err)
	surface := k.api.Surface()
	require.NoError(tb, server.Mount(config.BasePath, surface))
	require.NoError(tb, server.Start())
	k.url = "http://" + listener.Addr().String() + config.BasePath
	document := openapi.Document(openapi.Info{
		Title: "t", Version: "1", Refusals: surface.Refusals, Error: gateway.ErrorBody{},
	}, surface.Routes)
	k.schemas, err = openapi3.NewLoader().LoadFromData(document)
	require.NoError(tb, err)
	require.NoError(tb, k.schemas.Validate(context.Background()))
	tb.Cleanup(func() {
		k.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(tb, k.api.Stop(ctx))
		require.NoError(tb, server.Stop(ctx))
		upstream.CloseIdleConnections()
		providers.Close()
		provider.Close()
	})
	return k
}

// post sends a body and checks the answer against the document.
func (k *kit) post(path, body string) (int, http.Header, string) {
	k.t.Helper()
	return k.postWith(path, body, "")
}

// postWith is post with a Cache-Control header, "" = without.
func (k *kit) postWith(path, body, control string) (int, http.Header, string) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, k.url+path, bytes.NewBufferString(body))
	require.NoError(k.t, err)
	request.Header.Set("Authorization", "Bearer me")
	request.Header.Set("Content-Type", "application/json")
	if control != "" {
		request.Header.Set("Cache-Control", control)
	}
	response, err := k.client.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	if response.Header.Get("Content-Type") == "application/json" {
		k.validate(path, response.StatusCode, raw)
	}
	return response.StatusCode, response.Header, string(raw)
}

func (k *kit) validate(path string, status int, raw []byte) {
	k.t.Helper()
	responses := k.schemas.Paths.Find(path).Post.Responses
	described := responses.Status(status)
	if described == nil {
		described = responses.Default()
	}
	var schema *openapi3.SchemaRef
	if described != nil {
		schema = described.Value.Content.Get("application/json").Schema
	} else { // a provider may refuse with any status: the body looks the same
		schema = k.schemas.Components.Schemas["Error"]
	}
	var value any
	require.NoError(k.t, json.Unmarshal(raw, &value))
	require.NoError(k.t, schema.Value.VisitJSON(value), "%s %d %s", path, status, raw)
}

func (k *kit) usages() []inference.Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]inference.Usage(nil), k.booked...)
}

// says answers with a JSON document.
func says(status int, document string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, document)
	}
}

// streams answers with events.
func streams(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range events {
			_, _ = io.WriteString(w, "data: "+event+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
}

const (
	hello  = `{"model":"relayed","messages":[{"role":"user","content":"hi"}]}`
	answer = `{"id":"chatcmpl-up","object":"chat.completion","created":1700000000,"model":"up","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Hello","refusal":null},"finish_reason":"stop","logprobs":null}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`
)
