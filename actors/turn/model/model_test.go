package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/proto/agentpb"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// testKey is a key that no error, log record or metric may repeat.
const testKey = "sk-test-0123456789abcdef-SECRET"

// heard is a Stream that keeps what it hears.
type heard struct {
	pieces []string
	calls  []ToolCall
	onText func()
}

func (h *heard) Text(piece string) {
	h.pieces = append(h.pieces, piece)
	if h.onText != nil {
		h.onText()
	}
}

func (h *heard) ToolCall(call ToolCall) { h.calls = append(h.calls, call) }

func (h *heard) text() string { return strings.Join(h.pieces, "") }

// requireKept checks what holds for every call, successful or not.
func (h *heard) requireKept(tb testing.TB, answer *Answer) {
	tb.Helper()
	require.NotNil(tb, answer)
	require.Equal(tb, h.text(), answer.Text, "the pieces together are the answer")
	require.Equal(tb, h.calls, answer.ToolCalls, "the tool calls heard are those of the answer")
	require.NotContains(tb, h.pieces, "", "no empty piece")
}

// requireError returns the *Error in err and checks that it gives nothing away.
func requireError(tb testing.TB, err error, code string) *Error {
	tb.Helper()
	failure, ok := errors.AsType[*Error](err)
	require.True(tb, ok, "%v is no *Error", err)
	require.Equal(tb, code, failure.Code, failure.Message)
	require.NotEmpty(tb, failure.Message)
	requireNoSecret(tb, failure)
	return failure
}

func requireNoSecret(tb testing.TB, failure *Error) {
	tb.Helper()
	shown := failure.Error() + "\n" + failure.Message
	for cause := error(failure); cause != nil; cause = errors.Unwrap(cause) {
		shown += "\n" + cause.Error()
	}
	for _, secret := range []string{testKey, "userpart", "passpart", "querypart", "Authorization", "x-api-key"} {
		require.NotContains(tb, shown, secret)
	}
}

// adapterOf is an adapter with test-sized pauses, and its clean-up.
func adapterOf(tb testing.TB, kind agentpb.Provider, config Config) Provider {
	tb.Helper()
	if config.RetryBase == 0 {
		config.RetryBase = time.Millisecond
	}
	require.NoError(tb, config.Validate())
	providers := New(config)
	tb.Cleanup(providers.Close)
	return providers[kind]
}

func scriptedRequest(script *agentpb.Script) *Request {
	return &Request{
		Agent:    &agentpb.Agent{Name: "Tester", Model: &agentpb.Model{Provider: agentpb.Provider_SCRIPTED, Script: script}},
		RunID:    "run1",
		Messages: []Message{{Role: User, Content: "hello"}},
	}
}

// wire writes the events of one provider the way its service does.
type wire struct {
	name string
	kind agentpb.Provider
	path string
	// start opens an answer, text is one piece, end closes it with usage 11 in (5 cached), 7 out.
	start, end string
	text       func(piece string) string
	// trouble is an error event in mid-stream of the kind "overloaded".
	trouble string
	// garbled is an event whose data is no JSON.
	garbled string
}

func wires() []wire { return []wire{chatWire(), responsesWire(), anthropicWire()} }

// answer is a whole response of the given pieces.
func (w *wire) answer(pieces ...string) string {
	var body strings.Builder
	body.WriteString(w.start)
	for _, piece := range pieces {
		body.WriteString(w.text(piece))
	}
	body.WriteString(w.end)
	return body.String()
}

// exchangeLog is what a test server saw.
type exchangeLog struct {
	count  atomic.Int32
	header http.Header
	body   string
	path   string
	query  string
}

// serve starts a server that answers its n-th request (from 0) by reply.
func (w *wire) serve(tb testing.TB, reply func(n int, response http.ResponseWriter, request *http.Request)) (*httptest.Server, *exchangeLog) {
	tb.Helper()
	seen := &exchangeLog{}
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		n := int(seen.count.Add(1)) - 1
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		seen.body, seen.header, seen.path, seen.query = string(body), request.Header.Clone(), request.URL.Path, request.URL.RawQuery
		reply(n, response, request)
	}))
	tb.Cleanup(server.Close)
	return server, seen
}

// stream sends events, flushed one write at a time.
func stream(response http.ResponseWriter, events ...string) {
	response.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, event := range events {
		_, _ = io.WriteString(response, event)
		_ = http.NewResponseController(response).Flush()
	}
}

// request is a plain question to a server of this wire.
func (w *wire) request(server *httptest.Server) *Request {
	base := server.URL
	if w.kind != agentpb.Provider_ANTHROPIC {
		base += "/v1"
	}
	return &Request{
		Agent: &agentpb.Agent{
			Id: "assistant", Name: "Assistant", Instructions: "Be brief.",
			Model: &agentpb.Model{Provider: w.kind, Name: "model-1", BaseUrl: base, ApiKey: testKey},
		},
		RunID:    "run1",
		Messages: []Message{{Role: User, Content: "Hello?"}},
	}
}

// ask makes the call and checks what always holds.
func (w *wire) ask(tb testing.TB, config Config, request *Request) (*Answer, *heard, error) {
	tb.Helper()
	return w.askContext(tb, tb.Context(), config, request)
}

func (w *wire) askContext(tb testing.TB, ctx context.Context, config Config, request *Request) (*Answer, *heard, error) {
	tb.Helper()
	listener := &heard{}
	answer, err := adapterOf(tb, w.kind, config).Generate(ctx, request, listener)
	listener.requireKept(tb, answer)
	return answer, listener, err
}
