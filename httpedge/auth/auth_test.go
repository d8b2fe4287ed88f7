package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a hand-made endpoint.Request.
type request struct {
	path   string
	header map[string]string
	query  map[string]string
}

func (r request) Method() string           { return "GET" }
func (r request) Path() string             { return r.path }
func (r request) Query(name string) string { return r.query[name] }
func (r request) RemoteIP() string         { return "127.0.0.1" }

func (r request) Header(name string) string {
	for key, value := range r.header {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func bearer(token string) request {
	return request{path: "/conversations", header: map[string]string{"authorization": "Bearer " + token}}
}

type providerFunc func(ctx context.Context, token string) (string, error)

func (f providerFunc) Validate(ctx context.Context, token string) (string, error) {
	return f(ctx, token)
}

func static(tb testing.TB, pairs ...string) *Static {
	tb.Helper()
	var tokens []StaticToken
	for i := 0; i < len(pairs); i += 2 {
		tokens = append(tokens, StaticToken{SHA256: sha256.Sum256([]byte(pairs[i])), UserID: pairs[i+1]})
	}
	s, err := NewStatic(tokens)
	require.NoError(tb, err)
	return s
}

func newAuthenticator(tb testing.TB, provider Provider, change func(*Config)) *Authenticator {
	tb.Helper()
	config := DefaultConfig()
	config.Enabled = true
	if change != nil {
		change(&config)
	}
	a, err := New(config, provider, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(tb, err)
	return a
}

func TestOffTrustsEveryone(t *testing.T) {
	a := newAuthenticator(t, nil, func(c *Config) { c.Enabled = false })
	caller, failure := a.Authenticate(t.Context(), request{path: "/x", query: map[string]string{"userId": "alice"}})
	require.Nil(t, failure)
	require.Equal(t, endpoint.Caller{TenantID: "default", ProjectID: "default", UserID: "alice", Trusted: true}, caller)
}

func TestHeader(t *testing.T) {
	for name, test := range map[string]struct {
		header map[string]string
		change func(*Config)
		user   string
		text   string
	}{
		"bearer":              {header: map[string]string{"Authorization": "Bearer t1"}, user: "alice"},
		"any_case":            {header: map[string]string{"aUTHORIZATION": "bEARER t1"}, user: "alice"},
		"bare_token":          {header: map[string]string{"Authorization": "t1"}, user: "alice"},
		"blanks":              {header: map[string]string{"Authorization": "Bearer   t1 "}, user: "alice"},
		"none":                {text: "Authentication required"},
		"empty":               {header: map[string]string{"Authorization": ""}, text: "Authentication required"},
		"prefix_only":         {header: map[string]string{"Authorization": "Bearer "}, text: "Authentication required"},
		"unknown":             {header: map[string]string{"Authorization": "Bearer t2"}, text: "Invalid token"},
		"other_case_of_token": {header: map[string]string{"Authorization": "Bearer T1"}, text: "Invalid token"},
		"prefix_of_token":     {header: map[string]string{"Authorization": "Bearer t"}, text: "Invalid token"},
		"other_scheme":        {header: map[string]string{"Authorization": "Basic t1"}, text: "Invalid token"},
		"control_character":   {header: map[string]string{"Authorization": "Bearer t1\x00"}, text: "Invalid token"},
		"not_ascii":           {header: map[string]string{"Authorization": "Bearer t1é"}, text: "Invalid token"},
		"huge":                {header: map[string]string{"Authorization": "Bearer " + strings.Repeat("a", 9000)}, text: "Invalid token"},
		"own_header": {
			header: map[string]string{"X-Api-Key": "t1"},
			change: func(c *Config) { c.HeaderName, c.TokenPrefix = "x-api-key", "" }, user: "alice",
		},
		"own_prefix": {
			header: map[string]string{"Authorization": "Token t1"},
			change: func(c *Config) { c.TokenPrefix = "Token " }, user: "alice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthenticator(t, static(t, "t1", "alice"), test.change)
			caller, failure := a.Authenticate(t.Context(), request{path: "/conversations", header: test.header})
			if test.text != "" {
				require.NotNil(t, failure)
				require.Equal(t, failurepb.Code_AUTH_REQUIRED, failure.Code)
				require.Equal(t, test.text, failure.DefaultText())
				require.Equal(t, endpoint.Caller{}, caller)
				return
			}
			require.Nil(t, failure)
			require.Equal(t, endpoint.Caller{TenantID: "default", ProjectID: "default", UserID: test.user, Identified: true}, caller)
		})
	}
}

func TestExcludedRoutes(t *testing.T) {
	for _, test := range []struct {
		route, path string
		excluded    bool
	}{
		{"/docs", "/docs", true},
		{"/docs", "/docs/", false},
		{"/docs", "/docs/openapi.json", false},
		{"/docs", "/Docs", false},
		{"/docs/*", "/docs", false},
		{"/docs/*", "/docs/", true},
		{"/docs/*", "/docs/openapi.json", true},
		{"/docs/*", "/docs/a/b", true},
		{"/docs/*", "/docs/../conversations", false},
		{"/docs/*", "/docs/..%2fconversations", false},
		{"/docs/*", "/docs/%2e%2e/conversations", false},
		{"/docs/*", "/docs//conversations", false},
		{"/docs/*", `/docs/..\conversations`, false},
		{"/docs/*", "/docsx", false},
		{"/agents*", "/agents/a", true},
		{"/conversations/*/events", "/conversations/conv_1/events", true},
		{"/conversations/*/events", "/conversations/events", false},
		{"/conversations/*/events", "/conversations/conv_1/events/stream", false},
		{"/a*b*c", "/abc", true},
		{"/a*b*c", "/ac", false},
		{"/aa*aa", "/aaa", false},
		{"*", "/anything", true},
	} {
		require.Equal(t, test.excluded, parseRoute(test.route).matches(test.path), "%s covers %s", test.route, test.path)
	}
}

func TestExcludedRouteNeedsNoToken(t *testing.T) {
	a := newAuthenticator(t, static(t, "t1", "alice"), func(c *Config) { c.ExcludeRoutes = []string{"/docs"} })
	anonymous := endpoint.Caller{TenantID: "default", ProjectID: "default"}
	for _, token := range []string{"", "unknown"} {
		open := bearer(token)
		open.path = "/docs"
		caller, failure := a.Authenticate(t.Context(), open)
		require.Nil(t, failure)
		require.Equal(t, anonymous, caller)
	}
	open := bearer("t1")
	open.path = "/docs"
	caller, failure := a.Authenticate(t.Context(), open)
	require.Nil(t, failure)
	require.True(t, caller.Identified, "an identity that can be established counts everywhere")
}

// TestNobodyBecomesAUserOfTheDirectory: not by the subject of a token, nor by a claim.
func TestNobodyBecomesAUserOfTheDirectory(t *testing.T) {
	const own = "usr_default"
	for _, user := range []string{own, "ext:" + own} {
		caller, failure := newAuthenticator(t, static(t, "t1", user), nil).Authenticate(t.Context(), bearer("t1"))
		require.Nil(t, failure)
		require.Equal(t, "ext:"+user, caller.UserID)
		claim := request{path: "/x", query: map[string]string{"userId": user}}
		caller, failure = newAuthenticator(t, nil, func(c *Config) { c.Enabled = false }).Authenticate(t.Context(), claim)
		require.Nil(t, failure)
		require.Equal(t, "ext:"+user, caller.UserID)
	}
}

func TestClaimedUser(t *testing.T) {
	claim := func(token, user string) request {
		r := bearer(token)
		r.query = map[string]string{"userId": user}
		return r
	}
	a := newAuthenticator(t, static(t, "t1", "alice"), nil)
	caller, failure := a.Authenticate(t.Context(), claim("t1", "mallory"))
	require.Nil(t, failure)
	require.Equal(t, "alice", caller.UserID, "an identity wins over a claim")

	open := func(c *Config) { c.ExcludeRoutes = []string{"*"} }
	a = newAuthenticator(t, static(t, "t1", "alice"), open)
	caller, _ = a.Authenticate(t.Context(), claim("", "bob"))
	require.Equal(t, "bob", caller.UserID)
	require.False(t, caller.Identified)
	for _, bad := range []string{strings.Repeat("x", 257), "a\x00b", "\xff"} {
		_, failure = a.Authenticate(t.Context(), claim("", bad))
		require.Equal(t, failurepb.Code_VALIDATION, failure.Code)
	}

	a = newAuthenticator(t, static(t, "t1", "alice"), func(c *Config) { open(c); c.UserIDFromQuery = false })
	caller, _ = a.Authenticate(t.Context(), claim("", "bob"))
	require.Empty(t, caller.UserID)
}

func TestCustomProvider(t *testing.T) {
	var logged bytes.Buffer
	config := DefaultConfig()
	config.Enabled = true
	answer := errors.New("connection refused")
	user := ""
	a, err := New(config, providerFunc(func(context.Context, string) (string, error) { return user, answer }),
		slog.New(slog.NewTextHandler(&logged, nil)), prometheus.NewRegistry())
	require.NoError(t, err)

	for range 3 {
		_, failure := a.Authenticate(t.Context(), bearer("s3cret"))
		require.Equal(t, failurepb.Code_UNAVAILABLE, failure.Code, "fails closed")
		require.NotContains(t, failure.DefaultText(), "refused")
	}
	require.Equal(t, 1, strings.Count(logged.String(), "\n"), "an outage is logged once")
	answer = nil
	caller, failure := a.Authenticate(t.Context(), bearer("s3cret"))
	require.Nil(t, failure)
	require.False(t, caller.Identified, "valid for nobody in particular is no identity")
	require.False(t, caller.Trusted)
	require.Equal(t, 2, strings.Count(logged.String(), "\n"))
	require.NotContains(t, logged.String(), "s3cret")

	user = "a\nb"
	_, failure = a.Authenticate(t.Context(), bearer("s3cret"))
	require.Equal(t, "Invalid token", failure.DefaultText())
}

func TestNewRefusesNonsense(t *testing.T) {
	config := DefaultConfig()
	config.Enabled = true
	_, err := New(config, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.Error(t, err)
	_, err = NewStatic(nil)
	require.Error(t, err)
	one := StaticToken{UserID: "a"}
	_, err = NewStatic([]StaticToken{one, one})
	require.Error(t, err)
	_, err = NewStatic([]StaticToken{{UserID: "a\n"}})
	require.Error(t, err)
}

func TestCacheIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	c := newCache(100)
	later := time.Now().Add(time.Hour)
	hot := digestOf("hot")
	c.put(hot, "h", later)
	for i := range 10_000 {
		c.put(digestOf(fmt.Sprint(i)), "u", later)
		user, ok := c.get(hot, time.Now())
		require.True(t, ok)
		require.Equal(t, "h", user)
		require.LessOrEqual(t, c.len(), 100)
	}
	_, ok := c.get(digestOf("0"), time.Now())
	require.False(t, ok)
	_, ok = c.get(hot, later)
	require.False(t, ok, "gone at its end")
	require.NotPanics(t, func() { newCache(0).put(hot, "h", later) })
}

func BenchmarkStatic(b *testing.B) {
	a := newAuthenticator(b, static(b, "tok_0123456789abcdef0123456789abcdef", "alice"), nil)
	var r endpoint.Request = bearer("tok_0123456789abcdef0123456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		if _, failure := a.Authenticate(b.Context(), r); failure != nil {
			b.Fatal(failure)
		}
	}
}
