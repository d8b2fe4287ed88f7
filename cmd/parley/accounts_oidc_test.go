package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/openid/openidtest"
)

// traveller signs in at a provider: it holds the cookies of a browser, and asks whichever node.
type traveller struct {
	t       *testing.T
	at      []*visitor
	cookies map[string]string
}

func newTraveller(t *testing.T, at []*visitor) *traveller {
	t.Helper()
	return &traveller{t, at, map[string]string{}}
}

func (r *traveller) get(node int, path string) answer {
	r.t.Helper()
	var held []string
	for name, value := range r.cookies {
		held = append(held, name+"="+value)
	}
	a := newVisitor(r.t, r.at[node].process).call(r.t, "GET", path, nil, "Cookie", strings.Join(held, "; "))
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		require.True(r.t, cookie.Secure, "the server is reached over https")
		require.True(r.t, cookie.HttpOnly || cookie.Name == "active_project_id")
		if cookie.MaxAge < 0 {
			delete(r.cookies, cookie.Name)
		} else {
			r.cookies[cookie.Name] = cookie.Value
		}
	}
	return a
}

// start is sent to the provider, and returns what it is sent back with.
func (r *traveller) start(node int, provider *openidtest.Provider, returnTo string) url.Values {
	r.t.Helper()
	a := r.get(node, "/auth/oidc/start?return_to="+url.QueryEscape(returnTo))
	require.Equal(r.t, http.StatusFound, a.status, a.text)
	require.True(r.t, strings.HasPrefix(a.header.Get("Location"), provider.Issuer+"/authorize?"), a.header.Get("Location"))
	return provider.Visit(r.t, a.header.Get("Location"))
}

func (r *traveller) who() tree {
	r.t.Helper()
	a := r.get(0, "/auth/session")
	require.Equal(r.t, 200, a.status, a.text)
	return decode(r.t, a.text)
}

// providerOfACluster: who comes from the provider is signed in on all nodes, whichever they began and ended at; nobody else is.
func providerOfACluster(t *testing.T, at []*visitor, provider *openidtest.Provider) {
	t.Helper()
	options := at[1].done(t, "GET", "/auth/oidc", nil)
	require.Equal(t, []any{true, "Single sign-on"}, []any{options.flag("enabled"), options.text("name")})
	for _, path := range []string{"https://evil.test/", "//evil.test", `/\evil.test`, "/\t/evil.test", "javascript:alert(1)", "x", "/" + strings.Repeat("x", 2000)} {
		a := newTraveller(t, at).get(0, "/auth/oidc/start?return_to="+url.QueryEscape(path))
		require.Equal(t, 400, a.status, "%s: %s", path, a.text)
	}

	carl := openidtest.Person{Subject: "s-carl", Email: "Carl@Provider.test", Name: "Carl", Verified: true}
	provider.Is(carl, nil)
	browser := newTraveller(t, at)
	back := browser.start(0, provider, "/a?b=c#d")
	others := newTraveller(t, at).get(1, "/auth/oidc/callback?"+back.Encode())
	require.Equal(t, 401, others.status, "another browser")
	asked := provider.Asked()
	require.Equal(t, 401, newTraveller(t, at).get(2, "/auth/oidc/callback?code=x&state=").status)
	require.Equal(t, asked, provider.Asked(), "the provider was not bothered")
	in := browser.get(1, "/auth/oidc/callback?"+back.Encode())
	require.Equal(t, 302, in.status, in.text)
	require.Equal(t, "/a?b=c", in.header.Get("Location"))
	require.NotContains(t, browser.cookies, "signin_flow")
	made := browser.who()
	require.Equal(t, []any{"user", 1.0}, []any{made.text("role"), made.number("projectCount")}, "made as the settings say, in the first company")
	require.Equal(t, 401, browser.get(2, "/auth/oidc/callback?"+back.Encode()).status, "once")

	carl.Email = "renamed@provider.test"
	provider.Is(carl, nil)
	again := newTraveller(t, at)
	require.Equal(t, 302, again.get(0, "/auth/oidc/callback?"+again.start(2, provider, "").Encode()).status)
	require.Equal(t, made.text("userId"), again.who().text("userId"), "by the subject, whatever the email is")

	provider.Is(openidtest.Person{Subject: "s-other", Email: "carl@provider.test", Verified: true}, nil)
	thief := newTraveller(t, at)
	a := thief.get(0, "/auth/oidc/callback?"+thief.start(0, provider, "/").Encode())
	require.Equal(t, 403, a.status, "an email alone proves nothing once somebody has come with it: %s", a.text)
	provider.Is(openidtest.Person{Subject: "s-unverified", Email: "dora@provider.test", Verified: false}, nil)
	a = thief.get(0, "/auth/oidc/callback?"+thief.start(0, provider, "/").Encode())
	require.Equal(t, 403, a.status, a.text)
	require.NotContains(t, thief.cookies, "token")
	login := at[0].call(t, "POST", "/auth/forgot-password", object1{"email": "carl@provider.test"})
	require.Equal(t, 429, login.status, "counted by address before anything else: %s", login.text)
}
