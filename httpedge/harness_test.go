package httpedge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/failurepb"
)

var _ = flag.Bool("rewrite", false, "accepted because all packages of the edge are run with it; no golden file here")

func TestMain(m *testing.M) {
	// fasthttp's pool looks at its end only every ten seconds, and its clock for the Date header has none.
	goleak.VerifyTestMain(
		m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

// desk is a small surface whose handlers do what a test says.
type desk struct {
	entered chan struct{} // told when wait has begun
	release chan struct{} // lets wait go on
	streams chan endpoint.Takeover
	closed  chan struct{} // by a file that was sent
}

type echoIn struct {
	Name  string `path:"name"`
	Query string `query:"q"`
	Trace string `header:"X-Trace"`
	Text  string `json:"text"`
}

type echoOut struct {
	Name, Query, Text, Caller, RequestID string
}

func (d *desk) echo(ctx context.Context, in *echoIn) (*echoOut, error) {
	return &echoOut{in.Name, in.Query, in.Text, endpoint.CallerFrom(ctx).UserID, endpoint.RequestIDFrom(ctx)}, nil
}

type nothing struct{}

func (d *desk) wait(ctx context.Context, _ *nothing) (*endpoint.Empty, error) {
	d.entered <- struct{}{}
	select {
	case <-d.release:
		return nil, nil //nolint:nilnil // 204
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *desk) explode(context.Context, *nothing) (*echoOut, error) { panic("boom") }

func (d *desk) break_(context.Context, *nothing) (*echoOut, error) {
	return nil, errors.New("wire cut")
}

func (d *desk) empty(context.Context, *nothing) (*echoOut, error) { return nil, nil } //nolint:nilnil // the mistake under test

func (d *desk) stream(_ context.Context, _ *nothing, stream endpoint.Stream) (*endpoint.Empty, error) {
	return nil, stream.Start(func(take endpoint.Takeover) { d.streams <- take })
}

func (d *desk) routes() []endpoint.Route {
	return []endpoint.Route{
		endpoint.On("POST /echo/{name}", "desk:write", d.echo),
		endpoint.On("GET /echo/{name}", "desk:read", d.echo),
		endpoint.On("GET /wait", "desk:read", d.wait, endpoint.Status(204)),
		endpoint.On("GET /long", "desk:read", d.wait, endpoint.Status(204), endpoint.Timeout(time.Minute)),
		endpoint.On("GET /explode", "desk:read", d.explode),
		endpoint.On("GET /break", "desk:read", d.break_),
		endpoint.On("GET /empty", "desk:read", d.empty),
		endpoint.OnStream("GET /stream", "desk:read", d.stream),
		endpoint.OnUpload("POST /upload", "desk:write", d.upload),
		endpoint.OnBytes("GET /download/{size}", "desk:read", d.download),
		endpoint.On("POST /large", "desk:write", func(ctx context.Context, in *uploadIn) (*uploadOut, error) {
			return d.upload(ctx, in, nil)
		}, endpoint.MaxBody(8000)),
	}
}

func appendProblem(dst []byte, problem *endpoint.Problem) []byte {
	body, err := json.Marshal(map[string]any{"code": problem.Code, "error": problem.Message})
	if err != nil {
		return dst
	}
	return append(dst, body...)
}

func surface(routes []endpoint.Route) endpoint.Surface {
	return endpoint.Surface{
		Name: "desk", Routes: routes, AppendProblem: appendProblem,
		Refusals: map[failurepb.Code]endpoint.Refusal{
			failurepb.Code_VALIDATION:         {Status: 400, Code: "VALIDATION_ERROR"},
			failurepb.Code_AUTH_REQUIRED:      {Status: 401, Code: "AUTH_REQUIRED"},
			failurepb.Code_FORBIDDEN:          {Status: 403, Code: "forbidden"},
			failurepb.Code_NOT_FOUND:          {Status: 404, Code: "NOT_FOUND"},
			failurepb.Code_METHOD_NOT_ALLOWED: {Status: 405, Code: "method_not_allowed"},
			failurepb.Code_TOO_LARGE:          {Status: 413, Code: "too_large"},
			failurepb.Code_RATE_LIMITED:       {Status: 429, Code: "rate_limited"},
			failurepb.Code_INTERNAL:           {Status: 500, Code: "SERVER_ERROR"},
			failurepb.Code_UNAVAILABLE:        {Status: 503, Code: "unavailable"},
		},
	}
}

type bench struct {
	t        *testing.T
	desk     *desk
	server   *httpedge.Server
	addr     string
	registry *prometheus.Registry
	log      *lines
}

type setting func(*httpedge.Config, *httpedge.Parts)

func serve(t *testing.T, settings ...setting) *bench {
	t.Helper()
	b := &bench{
		t: t, log: &lines{}, registry: prometheus.NewRegistry(),
		desk: &desk{
			entered: make(chan struct{}, 9), release: make(chan struct{}), streams: make(chan endpoint.Takeover, 9),
			closed: make(chan struct{}, 1),
		},
	}
	config := httpedge.DefaultConfig()
	parts := httpedge.Parts{
		Node: "n1", Authenticator: endpointtest.Authenticate(endpointtest.Off),
		Logger: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: b.registry,
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	parts.Listener = listener
	for _, set := range settings {
		set(&config, &parts)
	}
	b.addr = listener.Addr().String()
	b.server, err = httpedge.New(config, parts)
	require.NoError(t, err)
	require.NoError(t, b.server.Mount("/desk/", surface(b.desk.routes())))
	require.NoError(t, b.server.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = b.server.Stop(ctx) // a test that cares has stopped it
	})
	return b
}

// wire is one connection, used by hand.
type wire struct {
	t *testing.T
	net.Conn
	reader *bufio.Reader
}

func (b *bench) dial() *wire {
	b.t.Helper()
	conn, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", b.addr)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	return &wire{b.t, conn, bufio.NewReader(conn)}
}

func (w *wire) send(text string) *wire {
	w.t.Helper()
	_, err := io.WriteString(w, text)
	require.NoError(w.t, err)
	return w
}

type answer struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
	close  bool
}

func (w *wire) answer() *answer {
	w.t.Helper()
	response, err := http.ReadResponse(w.reader, nil)
	require.NoError(w.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	a := &answer{status: response.StatusCode, header: response.Header, raw: raw, close: response.Close}
	if bytes.HasPrefix(raw, []byte("{")) {
		require.NoError(w.t, json.Unmarshal(raw, &a.body))
	}
	return a
}

// ended says that the server has closed the connection.
func (w *wire) ended() {
	w.t.Helper()
	rest, err := io.ReadAll(w.reader)
	require.Empty(w.t, rest)
	var timeout net.Error
	require.False(w.t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

func get(path string, header ...string) string { return request("GET", path, "", header...) }

func request(method, path, body string, header ...string) string {
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\nHost: x\r\n")
	for i := 0; i < len(header); i += 2 {
		b.WriteString(header[i] + ": " + header[i+1] + "\r\n")
	}
	if body != "" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	return b.String() + "\r\n" + body
}

func (b *bench) do(text string) *answer {
	b.t.Helper()
	return b.dial().send(text).answer()
}

func (b *bench) refused(status int, code, text string) *answer {
	b.t.Helper()
	a := b.do(text)
	require.Equal(b.t, status, a.status, "%s", a.raw)
	require.Equal(b.t, code, a.body["code"])
	require.Equal(b.t, "application/json", a.header.Get("Content-Type"))
	return a
}

// lines is a log in memory.
type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) Write(line []byte) (int, error) {
	var parsed map[string]any
	if err := json.Unmarshal(line, &parsed); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, parsed)
	return len(line), nil
}

func (l *lines) with(message string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for _, line := range l.all {
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// onePlace is a Limiter that knows one stream and no more requests than it is given.
type onePlace struct {
	mu       sync.Mutex
	requests int
	taken    bool
}

func (l *onePlace) Allow(endpoint.Caller, endpoint.Request, *endpoint.Route) *machine.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests--; l.requests < 0 {
		return failure.Verbatim(failurepb.Code_RATE_LIMITED, "slow down").With("retryAfter", 7)
	}
	return nil
}

func (l *onePlace) OpenStream(endpoint.Caller, endpoint.Request) (func(), *machine.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken {
		return nil, failure.Verbatim(failurepb.Code_RATE_LIMITED, "too many streams")
	}
	l.taken = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.taken = false
	}, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
