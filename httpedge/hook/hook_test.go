package hook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/httpedge/hook"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// application answers hooks as a test says, and remembers what it was asked.
type application struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	answer string
	asked  []map[string]any
	header http.Header
	raw    []byte
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{status: 200, answer: `{"allowed":true}`}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		var question map[string]any
		if err != nil || json.Unmarshal(body, &question) != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		a.asked, a.header, a.raw = append(a.asked, question), r.Header.Clone(), body
		if a.status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.answer)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *application) says(status int, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status, a.answer = status, answer
}

func (a *application) last(t *testing.T) map[string]any {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.NotEmpty(t, a.asked)
	return a.asked[len(a.asked)-1]
}

func hooks(t *testing.T, config hook.Config) *hook.Hooks {
	t.Helper()
	h, err := hook.New(config, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(h.Stop)
	return h
}

// request is what a hook sees of one.
type request map[string]string

func (r request) Method() string            { return "POST" }
func (r request) Path() string              { return "/conversations/conv_1/messages" }
func (r request) Header(name string) string { return r[name] }
func (r request) Query(name string) string  { return r["?"+name] }
func (r request) RemoteIP() string          { return "192.0.2.7" }

func TestResolveContext(t *testing.T) {
	app := newApplication(t)
	inner := endpointtest.Authenticate(endpointtest.Off)
	h := hooks(t, hook.Config{ResolveContext: hook.Endpoint{URL: app.URL, Secret: "s3cret"}})
	auth := h.Authenticator(inner)
	ask := func(r request) (endpoint.Caller, *machine.Failure) { return auth.Authenticate(t.Context(), r) }

	app.says(200, `{"userId":"ann"}`)
	caller, failure := ask(request{"Cookie": "sid=1", "Authorization": "Bearer x", "X-Other": "no", "?userId": "bob"})
	require.Nil(t, failure)
	require.Equal(t, endpoint.Caller{TenantID: "t", ProjectID: "p", UserID: "ann", Identified: true}, caller)
	require.Equal(t, map[string]any{
		"hook": "resolve_context", "method": "POST", "path": "/conversations/conv_1/messages", "remoteIp": "192.0.2.7",
		"headers": map[string]any{"Cookie": "sid=1", "Authorization": "Bearer x"}, "query": map[string]any{"userId": "bob"},
	}, app.last(t))
	stamp, signature, _ := strings.Cut(strings.TrimPrefix(app.header.Get("X-Service-Signature"), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write([]byte(stamp + "." + string(app.raw)))
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), signature)

	for _, nobody := range []string{`{}`, `{"userId":""}`, `{"userId":null}`} {
		app.says(200, nobody)
		caller, failure = ask(request{"?userId": "bob"})
		require.Nil(t, failure)
		require.Equal(t, endpoint.Caller{TenantID: "t", ProjectID: "p"}, caller, "neither claimed nor trusted")
	}
	for _, c := range []struct {
		status int
		answer string
		code   failurepb.Code
		text   string
	}{
		{401, `{"message":"Session\nexpired"}`, failurepb.Code_AUTH_REQUIRED, "Session expired"},
		{401, ``, failurepb.Code_AUTH_REQUIRED, "Authentication required"},
		{403, `nonsense`, failurepb.Code_FORBIDDEN, "Access denied"},
		{200, `{"allowed":false}`, failurepb.Code_FORBIDDEN, "Access denied"},
		{200, `{"userId":"a\nb"}`, failurepb.Code_UNAVAILABLE, ""},
		{200, `{"userId":5}`, failurepb.Code_UNAVAILABLE, ""},
		{200, ``, failurepb.Code_UNAVAILABLE, ""},
		{500, ``, failurepb.Code_UNAVAILABLE, ""},
		{302, ``, failurepb.Code_UNAVAILABLE, ""},
	} {
		app.says(c.status, c.answer)
		_, failure = ask(request{})
		require.NotNil(t, failure, "%d %s", c.status, c.answer)
		require.Equal(t, c.code, failure.Code, "%d %s", c.status, c.answer)
		require.Contains(t, failure.DefaultText(), c.text)
	}
	asked := len(app.asked)
	identified := h.Authenticator(endpointtest.Authenticate(endpointtest.ByToken))
	caller, failure = identified.Authenticate(t.Context(), request{"Authorization": "Bearer eve"})
	require.Nil(t, failure)
	require.Equal(t, "eve", caller.UserID)
	_, failure = identified.Authenticate(t.Context(), request{})
	require.Equal(t, failurepb.Code_AUTH_REQUIRED, failure.Code)
	require.Len(t, app.asked, asked, "nobody asks about those who are known, or refused already")
}

// everybody is a Limiter without limits, but for those it refuses.
type everybody struct{ refusal *machine.Failure }

func (e everybody) Allow(endpoint.Caller, endpoint.Request, *endpoint.Route) *machine.Failure {
	return e.refusal
}

func (everybody) OpenStream(endpoint.Caller, endpoint.Request) (func(), *machine.Failure) {
	return func() {}, nil
}

func TestRateLimit(t *testing.T) {
	app := newApplication(t)
	h := hooks(t, hook.Config{RateLimit: hook.Endpoint{URL: app.URL}})
	limiter := h.Limiter(everybody{})
	route := &endpoint.Route{Path: "/conversations/{id}/messages"}
	allow := func() *machine.Failure {
		return limiter.Allow(endpoint.Caller{UserID: "ann", Identified: true, ProjectID: "p"}, request{}, route)
	}
	require.Nil(t, allow())
	require.Equal(t, map[string]any{
		"hook": "rate_limit", "method": "POST", "path": "/conversations/conv_1/messages", "remoteIp": "192.0.2.7",
		"route": "/conversations/{id}/messages", "caller": map[string]any{"userId": "ann", "identified": true, "projectId": "p"},
	}, app.last(t))
	require.Empty(t, app.header.Get("X-Service-Signature"), "no secret, no signature")
	for _, c := range []struct {
		status int
		answer string
		after  int
	}{
		{200, `{"allowed":false,"retryAfter":7.2,"message":"slow down"}`, 8},
		{200, `{"allowed":false}`, 1},
		{200, `{"allowed":false,"retryAfter":1e300}`, 86400},
		{429, ``, 1},
		{200, `{}`, 1},
		{503, ``, 1},
		{200, `[]`, 1},
	} {
		app.says(c.status, c.answer)
		failure := allow()
		require.NotNil(t, failure, c.answer)
		require.Equal(t, failurepb.Code_RATE_LIMITED, failure.Code)
		require.Equal(t, c.after, failure.Details["retryAfter"], c.answer)
	}
	own := failure.Verbatim(failurepb.Code_RATE_LIMITED, "own")
	require.Equal(t, own, h.Limiter(everybody{own}).Allow(endpoint.Caller{}, request{}, route), "the server's own limit comes first")
	release, failure := limiter.OpenStream(endpoint.Caller{}, request{})
	require.Nil(t, failure)
	release()
}

func TestAuthorize(t *testing.T) {
	app := newApplication(t)
	at := hook.Endpoint{URL: app.URL}
	authorizer := hooks(t, hook.Config{AuthorizeBudget: at, AuthorizeResolve: at}).Authorizer()
	ctx := endpoint.WithCall(t.Context(), &endpoint.Call{Caller: endpoint.Caller{UserID: "ann", Identified: true, ProjectID: "p"}})
	ann := map[string]any{"userId": "ann", "identified": true, "projectId": "p"}
	raise := func() error {
		return authorizer.AuthorizeBudget(ctx, &endpoint.BudgetRaise{
			ConversationID: "conv_1", AgentID: "a", OwnerID: "ann", From: &conversationpb.Budget{MaxCostNanoUsd: 1e9, OnReach: "stop"},
			SpentNanoUSD: 250_000_000,
		})
	}
	decide := func() error {
		return authorizer.AuthorizeResolve(ctx, &endpoint.ActionDecision{
			ConversationID: "conv_1", AgentID: "a", OwnerID: "ann", ActionID: "act_1",
			Action: &conversationpb.PendingAction{Kind: "tool_approval", ToolName: "send_mail", Args: []byte(`{"to":"bob"}`)},
			Resolution: &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{
				Approval: &conversationpb.ToolApproval{Allow: true, ApprovedArgs: []byte(`{"to":"eve"}`)},
			}},
		})
	}
	require.NoError(t, raise())
	require.Equal(t, map[string]any{
		"hook": "authorize_budget", "caller": ann, "conversationId": "conv_1", "agentId": "a", "ownerId": "ann",
		"budget": nil, "previous": map[string]any{"maxCostUsd": 1.0, "onReach": "stop"}, "spentUsd": 0.25,
	}, app.last(t))
	require.NoError(t, decide())
	require.Equal(t, map[string]any{
		"hook": "authorize_resolve", "caller": ann, "conversationId": "conv_1", "agentId": "a", "ownerId": "ann",
		"actionId": "act_1", "kind": "tool_approval", "toolName": "send_mail", "args": map[string]any{"to": "bob"},
		"resolution": map[string]any{"type": "tool_approval", "decision": "allow", "approvedArgs": map[string]any{"to": "eve"}},
	}, app.last(t))
	for answer, status := range map[string]int{
		`{"allowed":false,"message":"ask your manager"}`: 200, `{}`: 200, `{"allowed":"yes"}`: 200, `{"allowed":true}`: 500, `no`: 403,
	} {
		app.says(status, answer)
		require.Equal(t, failurepb.Code_BUDGET_FORBIDDEN, codeOf(t, raise()), answer)
		require.Equal(t, failurepb.Code_ACTION_FORBIDDEN, codeOf(t, decide()), answer)
	}
	off := hooks(t, hook.Config{}).Authorizer()
	require.NoError(t, off.AuthorizeBudget(ctx, &endpoint.BudgetRaise{}))
	require.NoError(t, off.AuthorizeResolve(ctx, &endpoint.ActionDecision{}))
}

func codeOf(t *testing.T, err error) failurepb.Code {
	t.Helper()
	var failure *machine.Failure
	require.ErrorAs(t, err, &failure)
	return failure.Code
}

func TestNoAnswer(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer slow.Close()
	defer close(release)
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"allowed":true,"message":"`+strings.Repeat("x", 70<<10)+`"}`)
	}))
	defer huge.Close()
	for name, address := range map[string]string{"slow": slow.URL, "closed": "http://127.0.0.1:1", "huge": huge.URL} {
		t.Run(name, func(t *testing.T) {
			for policy, refused := range map[string]bool{"": true, hook.Refuse: true, hook.Allow: false} {
				at := hook.Endpoint{URL: address, Timeout: 100 * time.Millisecond, OnError: policy}
				h := hooks(t, hook.Config{ResolveContext: at, RateLimit: at, AuthorizeBudget: at, AuthorizeResolve: at})
				began := time.Now()
				caller, failure := h.Authenticator(endpointtest.Authenticate(endpointtest.Off)).Authenticate(t.Context(), request{"?userId": "bob"})
				require.Equal(t, refused, failure != nil)
				require.Equal(t, endpoint.Caller{}, endpoint.Caller{UserID: caller.UserID, Trusted: caller.Trusted})
				require.Equal(t, refused, h.Limiter(everybody{}).Allow(endpoint.Caller{}, request{}, &endpoint.Route{}) != nil)
				require.Equal(t, refused, h.Authorizer().AuthorizeBudget(t.Context(), &endpoint.BudgetRaise{}) != nil)
				require.Equal(t, refused, h.Authorizer().AuthorizeResolve(t.Context(), &endpoint.ActionDecision{}) != nil)
				require.Less(t, time.Since(began), 30*time.Second)
			}
		})
	}
}

// TestQuestionsAreBounded: those beyond the bound wait, no longer than they may, and are refused then.
func TestQuestionsAreBounded(t *testing.T) {
	const bound, more = 2, 4
	arrived, release := make(chan struct{}, bound+more), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, `{"allowed":true}`)
	}))
	defer app.Close()
	registry := prometheus.NewRegistry()
	h, err := hook.New(hook.Config{AuthorizeBudget: hook.Endpoint{URL: app.URL, Timeout: 20 * time.Second, MaxConcurrent: bound}},
		slog.New(slog.DiscardHandler), registry)
	require.NoError(t, err)
	defer h.Stop()
	ask := func(ctx context.Context) error { return h.Authorizer().AuthorizeBudget(ctx, &endpoint.BudgetRaise{}) }
	permitted := make(chan error, bound)
	for range bound {
		go func() { permitted <- ask(context.Background()) }()
	}
	for range bound {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range more {
		require.Error(t, ask(ctx))
	}
	require.Empty(t, arrived)
	close(release)
	for range bound {
		require.NoError(t, <-permitted)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	counts := map[string]float64{}
	for _, metric := range families[0].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "answer" {
				counts[label.GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"yes": bound, "no": 0, "failed": more}, counts)
}

func TestConfig(t *testing.T) {
	for address, good := range map[string]bool{
		"https://app.example.com/hook": true, "http://127.0.0.1:1/": true, "http://localhost/": true, "http://[::1]:80/x": true,
		"http://app.example.com/": false, "ftp://app.example.com/": false, "https://u:p@app.example.com/": false, "https:///x": false,
		"app": false, "https://%zz/": false,
	} {
		_, err := hook.New(hook.Config{RateLimit: hook.Endpoint{URL: address}}, slog.New(slog.DiscardHandler), nil)
		require.Equal(t, good, err == nil, "%s: %v", address, err)
	}
	_, err := hook.New(hook.Config{RateLimit: hook.Endpoint{URL: "https://a.example/", OnError: "shrug"}}, slog.New(slog.DiscardHandler), nil)
	require.Error(t, err)
	inner := endpointtest.Authenticate(endpointtest.Off)
	h := hooks(t, hook.Config{})
	require.Equal(t, endpoint.Limiter(everybody{}), h.Limiter(everybody{}), "what is off is not in the way")
	_, wrapped := h.Authenticator(inner).(endpointtest.Authenticate)
	require.True(t, wrapped)
}
