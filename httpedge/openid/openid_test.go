package openid_test

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge/openid"
	"parley/httpedge/openid/openidtest"
)

func newProvider(t *testing.T, issuer string, change func(*openid.Config)) *openid.Provider {
	t.Helper()
	config := openid.Config{
		Issuer: issuer, ClientID: openidtest.Client, ClientSecret: openidtest.Secret, Scopes: []string{"openid", "email", "profile"},
		Redirect: &url.URL{Scheme: "https", Host: "parley.test", Path: "/api/auth/oidc/callback"}, Timeout: 2 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	provider := openid.New(config)
	t.Cleanup(provider.Close)
	return provider
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	at := openidtest.New(t)
	provider := newProvider(t, at.Issuer, nil)
	ann := openidtest.Person{Subject: "s1", Email: "ann@example.test", Name: "Ann", Verified: true}
	at.Is(ann, nil)
	address, flow, err := provider.Begin(t.Context())
	require.NoError(t, err)
	require.NotContains(t, address, flow.Verifier, "the provider learns it with the code")
	back := at.Visit(t, address)
	who, err := provider.Finish(t.Context(), flow, back.Get("state"), back.Get("code"))
	require.NoError(t, err)
	require.Equal(t, openid.Person{Issuer: at.Issuer, Subject: "s1", Email: "ann@example.test", Name: "Ann", Verified: true}, who)
	_, err = provider.Finish(t.Context(), flow, back.Get("state"), back.Get("code"))
	require.ErrorIs(t, err, openid.ErrRefused, "a code is taken once")

	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	set := func(name string, value any) func(map[string]any, **rsa.PrivateKey) {
		return func(claims map[string]any, _ **rsa.PrivateKey) { claims[name] = value }
	}
	for name, tamper := range map[string]func(map[string]any, **rsa.PrivateKey){
		"foreign key":   func(_ map[string]any, key **rsa.PrivateKey) { *key = foreign },
		"issuer":        set("iss", "https://evil.test"),
		"audience":      set("aud", "another"),
		"nonce":         set("nonce", "another"),
		"no nonce":      set("nonce", ""),
		"expired":       set("exp", time.Now().Add(-time.Hour).Unix()),
		"in the future": set("nbf", time.Now().Add(time.Hour).Unix()),
	} {
		at.Is(ann, tamper)
		address, flow, err = provider.Begin(t.Context())
		require.NoError(t, err)
		back = at.Visit(t, address)
		_, err = provider.Finish(t.Context(), flow, back.Get("state"), back.Get("code"))
		require.ErrorIs(t, err, openid.ErrRefused, name)
	}
	at.Is(ann, nil)
	for verified, want := range map[any]bool{true: true, "true": true, false: false, "false": false, nil: false, 1: false} {
		at.Is(openidtest.Person{Subject: "s1", Verified: verified}, nil)
		address, flow, err = provider.Begin(t.Context())
		require.NoError(t, err)
		back = at.Visit(t, address)
		who, err = provider.Finish(t.Context(), flow, back.Get("state"), back.Get("code"))
		require.NoError(t, err)
		require.Equal(t, want, who.Verified, verified)
	}
}

// TestOthersFlows: a code is of no use with another browser's flow, another verifier or no state; the provider is not even asked.
func TestOthersFlows(t *testing.T) {
	t.Parallel()
	at := openidtest.New(t)
	provider := newProvider(t, at.Issuer, nil)
	address, flow, err := provider.Begin(t.Context())
	require.NoError(t, err)
	_, other, err := provider.Begin(t.Context())
	require.NoError(t, err)
	back := at.Visit(t, address)
	for _, c := range []struct {
		flow        openid.Flow
		state, code string
	}{{other, back.Get("state"), back.Get("code")}, {openid.Flow{}, "", back.Get("code")}, {flow, "", back.Get("code")}, {flow, flow.State, ""}} {
		_, err = provider.Finish(t.Context(), c.flow, c.state, c.code)
		require.ErrorIs(t, err, openid.ErrRefused)
	}
	require.Zero(t, at.Asked())
	flow.Verifier = other.Verifier
	_, err = provider.Finish(t.Context(), flow, flow.State, back.Get("code"))
	require.ErrorIs(t, err, openid.ErrRefused)
	require.Equal(t, 1, at.Asked())
}

// TestProviderFaults: a provider that is away, endless, somebody else's or not ours says so within its time.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	at := openidtest.New(t)
	serve := func(handler http.HandlerFunc) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, issuer := range map[string]string{
		"away": "http://127.0.0.1:1",
		"endless": serve(func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 64<<10)))
			}
		}),
		"redirects": serve(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, at.Issuer+r.URL.Path, http.StatusFound)
		}),
		"somebody else's": serve(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer": "https://evil.test"}`))
		}),
	} {
		_, _, err := newProvider(t, issuer, nil).Begin(t.Context())
		require.ErrorIs(t, err, openid.ErrProvider, name)
	}
	wrong := newProvider(t, at.Issuer, func(c *openid.Config) { c.ClientSecret = "hunter2" })
	address, flow, err := wrong.Begin(t.Context())
	require.NoError(t, err)
	back := at.Visit(t, address)
	_, err = wrong.Finish(t.Context(), flow, back.Get("state"), back.Get("code"))
	require.ErrorIs(t, err, openid.ErrProvider)
	require.NotContains(t, err.Error(), "hunter2")
}
