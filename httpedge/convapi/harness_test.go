package convapi_test

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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/actors/schema"
	"parley/httpedge"
	"parley/httpedge/convapi"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/export"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// hits are the routes that the tests have asked for; TestMain compares them with all routes.
var hits sync.Map

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" {
		for _, route := range convapi.New(convapi.DefaultConfig(), convapi.Parts{}).Surface().Routes {
			if _, ok := hits.Load(route.Method + " " + route.Path); !ok {
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

// hitRecorder is a Limiter that lets everybody pass and notes the routes.
type hitRecorder struct{}

func (hitRecorder) Allow(_ endpoint.Caller, _ endpoint.Request, route *endpoint.Route) *machine.Failure {
	hits.Store(route.Method+" "+route.Path, true)
	return nil
}

func (hitRecorder) OpenStream(endpoint.Caller, endpoint.Request) (func(), *machine.Failure) {
	return func() {}, nil
}

// fullOfStreams is one whose callers have all the streams they may have.
type fullOfStreams struct{ hitRecorder }

func (fullOfStreams) OpenStream(endpoint.Caller, endpoint.Request) (func(), *machine.Failure) {
	return nil, fail(failurepb.Code_RATE_LIMITED, "too many open streams")
}

const (
	conv1 = "conv_000000000000000000001"
	conv2 = "conv_000000000000000000002"
	gone  = "conv_nnnnnnnnnnnnnnnnnnnnn"
)

// kit is a conversation server on a real socket, with stand-ins behind it.
type kit struct {
	t        *testing.T
	url      string
	runtime  *endpointtest.Runtime
	store    *endpointtest.Store
	config   convapi.Config
	auth     endpointtest.Authenticate
	client   *http.Client
	files    *endpointtest.Files
	tasks    *endpointtest.Tasks
	entities endpointtest.Entities
	agents   endpointtest.Agents
	pdf      export.Printer

	authorizer endpoint.Authorizer
	limiter    endpoint.Limiter
	invents    bool // refuses with what the rules never refuse a route with
}

type setting func(*kit)

func withAuth(k *kit) { k.auth = endpointtest.ByToken }

func withConfig(change func(*convapi.Config)) setting { return func(k *kit) { change(&k.config) } }

func serve(t *testing.T, settings ...setting) *kit {
	t.Helper()
	k := &kit{
		t: t, runtime: &endpointtest.Runtime{}, store: &endpointtest.Store{},
		config: convapi.DefaultConfig(), auth: endpointtest.Off,
		client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
		files:  &endpointtest.Files{}, tasks: &endpointtest.Tasks{}, entities: endpointtest.Entities{}, agents: agents(),
		limiter: hitRecorder{},
	}
	k.store.Serve(k.entities)
	k.tasks.Serve(k.entities)
	for _, set := range settings {
		set(k)
	}
	require.NoError(t, k.config.Validate())
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Authenticator: k.auth, Limiter: k.limiter, Logger: log, Idempotency: endpointtest.SameSeed{},
	})
	require.NoError(t, err)
	hub, err := sse.New(sse.DefaultConfig(), upstream{k}, log, nil)
	require.NoError(t, err)
	require.NoError(t, hub.Start())
	api := convapi.New(k.config, convapi.Parts{
		Runtime: k.runtime, Agents: k.agents, IDs: &endpointtest.IDs{}, Hub: hub,
		Files: k.files, PDF: k.pdf, Authorizer: k.authorizer,
		CheckCallback: endpointtest.CheckCallback, Entities: k.entities, CheckArgs: schema.Validate,
	})
	require.NoError(t, server.Mount(api.BasePath(), api.Surface()))
	require.NoError(t, server.Start())
	k.url = "http://" + listener.Addr().String() + api.BasePath()
	t.Cleanup(func() {
		k.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, hub.Stop(ctx))
		require.NoError(t, server.Stop(ctx))
	})
	return k
}

// upstream lets the hub follow what the kit holds: the log as it is, and nothing new.
type upstream struct{ k *kit }

func (u upstream) Follow(ctx context.Context, id string, _ follow.Sink) (*conversationpb.Snapshot, func(), error) {
	state, err := u.k.store.State(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return &conversationpb.Snapshot{Epoch: 1, LastSeq: state.GetLastSeq()}, func() {}, nil
}

func (u upstream) Events(ctx context.Context, id string, after uint64, limit int) ([]*conversationpb.Event, uint64, error) {
	page, err := u.k.store.Events(ctx, &nodepb.EventsQuery{Id: id, After: after, Limit: uint32(limit)})
	if err != nil {
		return nil, 0, err
	}
	return page.Events, page.LastSeq, nil
}

func agents() endpointtest.Agents {
	return endpointtest.Agents{
		{
			Id: "assistant", Name: "Assistant", Description: "Helps", Version: "1",
			Model:    &agentpb.Model{Price: &agentpb.Price{OutputNanoUsdPerMtok: 1}},
			Metadata: []byte(`{"welcomeText":"Hi","starters":["a","b"],"enableFileUpload":"not mine"}`),
			Capabilities: &agentpb.Capabilities{AskUser: true, Attachments: &agentpb.Attachments{
				Enabled: true, MaxFiles: 3, MaxFileSize: 10 << 20, AllowedMimeTypes: []string{"image/png"}, AcceptsImages: true,
			}},
			Experience: &agentpb.Experience{
				Copy: true, Rename: true, Pin: true, BulkDelete: true, ExportFormats: []string{"md"}, Titles: true,
			},
		},
		{Id: "strict", Name: "Strict", Experience: &agentpb.Experience{}},
		{Id: "plain", Name: "Plain"},
		{Id: "metered", Name: "Metered", DefaultBudget: &agentpb.Budget{MaxCostNanoUsd: 2_000_000_000, OnReach: "stop"}},
	}
}

// reply makes the runtime answer every command alike.
func (k *kit) reply(reply *conversationpb.Reply) {
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) { return reply, nil }
}

func (k *kit) refuse(err error) {
	k.runtime.OnAsk = func(context.Context, *conversationpb.Command) (*conversationpb.Reply, error) { return nil, err }
}

func (k *kit) last() *conversationpb.Command {
	k.t.Helper()
	commands := k.runtime.Commands()
	require.NotEmpty(k.t, commands)
	return commands[len(commands)-1]
}

type response struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any // nil when the body is no JSON object
}

// at follows a path of keys and indexes into the body.
func (r *response) at(t *testing.T, path ...any) any {
	t.Helper()
	var value any = r.body
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, ok := value.(map[string]any)
			require.True(t, ok, "%v in %s", path, r.raw)
			value = object[key]
		case int:
			list, ok := value.([]any)
			require.True(t, ok && key < len(list), "%v in %s", path, r.raw)
			value = list[key]
		}
	}
	return value
}

func (k *kit) do(method, path, body string, header ...string) *response {
	k.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, reader)
	require.NoError(k.t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer, err := k.client.Do(request)
	require.NoError(k.t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(k.t, err)
	k.conforms(method, path, answer, raw)
	out := &response{status: answer.StatusCode, header: answer.Header, raw: raw}
	if bytes.HasPrefix(raw, []byte("{")) {
		require.NoError(k.t, json.Unmarshal(raw, &out.body), "%s", raw)
	}
	return out
}

// refused does a request and checks the whole shape of the refusal.
func (k *kit) refused(status int, code, method, path, body string, header ...string) *response {
	k.t.Helper()
	r := k.do(method, path, body, header...)
	require.Equal(k.t, status, r.status, "%s", r.raw)
	require.Equal(k.t, code, r.at(k.t, "code"), "%s", r.raw)
	require.NotEmpty(k.t, r.at(k.t, "error"))
	require.Equal(k.t, r.at(k.t, "error"), r.at(k.t, "message"))
	require.Equal(k.t, "application/json", r.header.Get("Content-Type"))
	return r
}

func stateReply(state *conversationpb.State) *conversationpb.Reply {
	return &conversationpb.Reply{Body: &conversationpb.Reply_State{State: state}}
}

func fail(code failurepb.Code, text string) *machine.Failure { return failure.Verbatim(code, text) }
