package clientapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven" // scripts of requests and answers, as for the rules
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/catalog"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/actors/turn/tool"
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// sessionKit is a Client API on a real socket over the rules of conversations, in memory.
type sessionKit struct {
	t       *testing.T
	url     string
	host    *host
	records *collectiontest.Records
	sealer  *collectiontest.Sealer
	files   *endpointtest.Files
	routes  routers.Router
	client  *http.Client
	saved   [][2]string // name and id, in the order of saving
	hooks   *strictHooks
	most    atomic.Int64 // how many requests are let pass, 0 = all
}

// strictHooks permits everything until it is told otherwise.
type strictHooks struct{ strict atomic.Bool }

// AuthorizeBudget implements endpoint.Authorizer.
func (s *strictHooks) AuthorizeBudget(_ context.Context, raise *endpoint.BudgetRaise) error {
	if s.strict.Load() {
		return failure.Verbatim(failurepb.Code_BUDGET_FORBIDDEN, fmt.Sprintf("no more than %d", raise.From.GetMaxCostNanoUsd()))
	}
	return nil
}

// AuthorizeResolve implements endpoint.Authorizer.
func (s *strictHooks) AuthorizeResolve(_ context.Context, decision *endpoint.ActionDecision) error {
	if s.strict.Load() {
		return failure.Verbatim(failurepb.Code_ACTION_FORBIDDEN, fmt.Sprintf("not by %s", decision.OwnerID))
	}
	return nil
}

// byName identifies the user named by "Authorization: Bearer <user>"; boss sees everybody's sessions, and "user@project" is
// of another project.
func byName(request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	user, ok := strings.CutPrefix(request.Header("Authorization"), "Bearer ")
	if !ok || user == "" {
		return endpoint.Caller{}, failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "Missing API token")
	}
	user, project, other := strings.Cut(user, "@")
	if !other {
		project = "p"
	}
	return endpoint.Caller{
		TenantID: "t", ProjectID: project, UserID: user, Identified: true, Trusted: user == "boss",
		Grant: &access.Grant{Token: &directorypb.Token{Id: "tok_" + user}, Owner: &directorypb.User{Id: user}},
	}, nil
}

// modelSecret is the API key of every agent's model: no command may carry it.
const modelSecret = "sk-of-the-model"

func priced(agent *agentpb.Agent) *agentpb.Agent {
	agent.Model = &agentpb.Model{Key: "scripted", ApiKey: modelSecret, Price: &agentpb.Price{OutputNanoUsdPerMtok: 1_000_000_000}}
	return agent
}

func sessionAgents() endpointtest.Agents {
	return endpointtest.Agents{
		priced(&agentpb.Agent{Id: "helper", Name: "Helper", ProjectId: "p", RunningVersion: 3, Background: true, Exposed: true, Capabilities: &agentpb.Capabilities{
			Attachments: &agentpb.Attachments{Enabled: true, MaxFiles: 2, MaxFileSize: 64, AllowedMimeTypes: []string{"text/*"}},
		}}),
		priced(&agentpb.Agent{Id: "plain", Name: "Plain"}),
		priced(&agentpb.Agent{
			Id: "bound", Name: "Bound", Background: true, BudgetBinds: true,
			DefaultBudget: &agentpb.Budget{MaxCostNanoUsd: 1_000_000_000, OnReach: "pause"},
		}),
		priced(&agentpb.Agent{Id: "metered", Name: "Metered", Exposed: true, DefaultBudget: &agentpb.Budget{MaxCostNanoUsd: 500_000_000, OnReach: "stop"}}),
		{Id: "unpriced", Name: "Unpriced", Model: &agentpb.Model{Key: "free"}},
		priced(&agentpb.Agent{Id: "titled", Name: "Titled", Experience: &agentpb.Experience{Titles: true}}),
		{Id: "asleep", Name: "Asleep", Status: "inactive"},
	}
}

func serveSessions(t *testing.T) *sessionKit {
	t.Helper()
	return serveSessionsWith(t, clientapi.DefaultConfig())
}

func serveSessionsWith(t *testing.T, config clientapi.Config, with ...func(*clientapi.Parts)) *sessionKit {
	t.Helper()
	ids, files := &endpointtest.IDs{}, &endpointtest.Files{}
	k := &sessionKit{
		t: t, host: newHost(t.Context(), ids, files), records: &collectiontest.Records{}, sealer: &collectiontest.Sealer{}, files: files,
		client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}, hooks: &strictHooks{},
	}
	k.record(catalog.Agents, catalog.Key("p", "sketch"), &directorypb.Agent{Key: "sketch", Status: "draft"})
	k.record(catalog.Agents, catalog.Key("p", "napping"), &directorypb.Agent{
		Key: "napping", Status: "inactive", Metadata: []byte(`{"a2a":{"enabled":true,"accessMode":"token"}}`),
	})
	k.record(catalog.AgentVersions, catalog.VersionKey(catalog.Key("p", "helper"), 2), &directorypb.AgentVersion{Version: 2})
	log := slog.New(slog.DiscardHandler)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: endpointtest.Authenticate(byName), Logger: log,
		Limiter: hitRecorder{&k.most}, Idempotency: endpointtest.SameSeed{},
	})
	require.NoError(t, err)
	hub, err := sse.New(sse.DefaultConfig(), convapi.NewUpstream(k.host, k.host.entities()), log, nil)
	require.NoError(t, err)
	require.NoError(t, hub.Start())
	config.CancelWait = 200 * time.Millisecond
	parts := clientapi.Parts{
		Runtime: k.host, Entities: k.host.entities(), Agents: sessionAgents(),
		Catalog: catalogIn(k.records, k.sealer, catalog.Env{}),
		Sealer:  k.sealer, Files: files, IDs: ids, Hub: hub, Authorizer: k.hooks,
		CheckCallback: endpointtest.CheckCallback, Schemas: tool.Checks{},
	}
	for _, change := range with {
		change(&parts)
	}
	api := clientapi.New(config, parts)
	require.NoError(t, server.Mount(config.BasePath, api.Surface()))
	require.NoError(t, server.Start())
	k.url = "http://" + listener.Addr().String() + config.BasePath
	t.Cleanup(func() {
		k.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, hub.Stop(ctx))
		require.NoError(t, server.Stop(ctx))
	})
	k.readDocument()
	return k
}

func (k *sessionKit) record(name, key string, message proto.Message) {
	k.t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(k.t, err)
	_, err = k.records.Put(context.Background(), name, key, 0, value)
	require.NoError(k.t, err)
}

// readDocument reads the document that is served, as a client's generator would.
func (k *sessionKit) readDocument() {
	k.t.Helper()
	response, err := k.client.Get(k.url + "/openapi.json") //nolint:noctx // bounded by the client
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	require.Equal(k.t, 200, response.StatusCode)
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromData(raw)
	require.NoError(k.t, err)
	require.NoError(k.t, document.Validate(k.t.Context()))
	document.Servers = nil
	k.routes, err = legacy.NewRouter(document)
	require.NoError(k.t, err)
}

type heard struct {
	status int
	header http.Header
	raw    []byte
}

func (k *sessionKit) do(user, method, path, body string, header ...string) *heard {
	k.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, reader)
	require.NoError(k.t, err)
	if user != "" {
		request.Header.Set("Authorization", "Bearer "+user)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := k.client.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	k.conforms(method, path, response, raw)
	return &heard{response.StatusCode, response.Header, raw}
}

// conforms holds an answer against the document: its status is there, and its body has the form that is promised.
func (k *sessionKit) conforms(method, path string, response *http.Response, raw []byte) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), method, path, http.NoBody)
	require.NoError(k.t, err)
	route, params, err := k.routes.FindRoute(request)
	if err != nil {
		require.Contains(k.t, []int{404, 405}, response.StatusCode, "%s %s is not in the document", method, path)
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route},
		Status:                 response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(raw)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json"),
		},
	}
	require.NoError(k.t, openapi3filter.ValidateResponse(k.t.Context(), input), "%s %s: %s", method, path, raw)
}

func (k *sessionKit) decode(raw []byte) (object map[string]any) {
	k.t.Helper()
	require.NoError(k.t, json.Unmarshal(raw, &object), "%s", raw)
	return object
}

// hits are the routes that the tests have asked for; TestMain compares them with the routes of sessions, responses and runs.
var hits sync.Map

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, route := range clientapi.New(clientapi.DefaultConfig(), clientapi.Parts{}).Surface().Routes {
			_, hit := hits.Load(route.Method + " " + route.Path)
			if !hit && slices.Contains([]string{"A2A", "Sessions", "Session files", "Responses", "Runs"}, route.Tag) {
				fmt.Fprintf(os.Stderr, "no test asks for %s %s\n", route.Method, route.Path)
				code = 1
			}
		}
	}
	// fasthttp's pool looks at its end only every ten seconds, and its clock for the Date header has none.
	fasthttps := []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	}
	if err := goleak.Find(fasthttps...); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// hitRecorder is a Limiter that notes the routes, and lets everybody pass or so many requests.
type hitRecorder struct{ most *atomic.Int64 }

func (r hitRecorder) Allow(_ endpoint.Caller, _ endpoint.Request, route *endpoint.Route) *machine.Failure {
	hits.Store(route.Method+" "+route.Path, true)
	if r.most.Load() > 0 && r.most.Add(-1) == 0 {
		r.most.Store(1) // none is left
		return failure.New(failurepb.Code_RATE_LIMITED, failure.TooManyRequests).With("retryAfter", 7)
	}
	return nil
}

func (hitRecorder) OpenStream(endpoint.Caller, endpoint.Request) (func(), *machine.Failure) {
	return func() {}, nil
}

// TestScripts runs the requests of testdata/sessions and compares what is answered. Run with -rewrite to take over what has
// changed, and read the diff.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/sessions", func(t *testing.T, file string) {
		t.Helper()
		k := serveSessions(t)
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			k.t = t
			return k.step(d)
		})
	})
}

// now are times that no script decides: those of the rules are of 2023.
var now = regexp.MustCompile(`("created_at":)\d+|("timestamp":)"202[4-9][^"]*"|("timestamp":)"20[3-9][^"]*"`)

// step carries out one line: a request as a user ("ann\nPOST /x\n{body}"), or what happens behind the API.
func (k *sessionKit) step(d *datadriven.TestData) string {
	k.t.Helper()
	switch d.Cmd {
	case "finish":
		k.host.finish(k.fill(d.CmdArgs[0].Key))
		return ""
	case "place":
		k.host.place()
		return ""
	case "queue":
		k.host.mu.Lock()
		k.host.places = 0
		k.host.mu.Unlock()
		return ""
	case "lock":
		k.sealer.Locked = true
		return ""
	case "strict":
		k.hooks.strict.Store(true)
		return ""
	case "told":
		return k.host.told()
	}
	first, body, _ := strings.Cut(k.fill(d.Input), "\n")
	method, path, _ := strings.Cut(first, " ")
	var header []string
	for _, arg := range d.CmdArgs {
		if arg.Key != "save" && arg.Key != "session" && arg.Key != "action" && arg.Key != "context" {
			header = append(header, arg.Key, arg.Vals[0])
		}
	}
	user := d.Cmd
	if user == "nobody" {
		user = ""
	}
	got := k.do(user, method, path, body, header...)
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "save":
			k.save(arg.Vals[0], k.decode(got.raw)["id"])
		case "session":
			k.save(arg.Vals[0], k.decode(got.raw)["session_id"])
		case "context":
			id := regexp.MustCompile(`"contextId":"(conv_[^"]*)"`).FindSubmatch(got.raw)
			require.NotEmpty(k.t, id, "no context for %s: %s", arg.Vals[0], got.raw)
			k.save(arg.Vals[0], string(id[1]))
		case "action":
			id := regexp.MustCompile(`"act_[^"]*"`).FindString(string(got.raw))
			require.NotEmpty(k.t, id, "no action for %s", arg.Vals[0])
			k.save(arg.Vals[0], strings.Trim(id, `"`))
		}
	}
	text := strings.ReplaceAll(now.ReplaceAllString(string(got.raw), `$1$2${3}now`), k.url, "$url")
	text = strings.ReplaceAll(text, strings.TrimSuffix(k.url, clientapi.DefaultConfig().BasePath), "$host")
	for _, saved := range k.saved {
		text = strings.ReplaceAll(text, saved[1], "$"+saved[0])
	}
	return fmt.Sprintf("%d\n%s", got.status, text)
}

// save names an id, so that scripts need not spell it.
func (k *sessionKit) save(name string, id any) {
	k.t.Helper()
	text, ok := id.(string)
	require.True(k.t, ok, "no id for %s", name)
	k.saved = append(k.saved, [2]string{name, text})
}

func (k *sessionKit) fill(text string) string {
	for i := len(k.saved) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, "$"+k.saved[i][0], k.saved[i][1])
	}
	return text
}

// talkOf is a conversation of the conversation server.
func (k *sessionKit) talkOf(user, source string) string {
	k.t.Helper()
	id := k.host.ids.NewID("conv")
	_, err := k.host.Ask(k.t.Context(), &conversationpb.Command{
		ConversationId: id, CommandId: "c", Caller: &conversationpb.Caller{TenantId: "t", ProjectId: "p", UserId: user},
		Body: &conversationpb.Command_Create{Create: &conversationpb.Create{
			Agent: &agentpb.Agent{Id: "helper", Name: "Helper"}, Source: source, Metadata: []byte(`{"a":"x","b":1,"c":{"d":"e"}}`),
		}},
	})
	require.NoError(k.t, err)
	return id
}
