package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// closedAccounts is accountsConfig with authentication of the conversation server: then nothing but the guard of the accounts' routes
// stands between a page of another site and the routes.
const closedAccounts = accountsConfig + "auth: {enabled: true, provider: static, tokens: [{token: of-the-conversation-server, user_id: ada}]}\n"

// forged is what pages of other sites have the browser send. {id} is the signed-in user.
func forged() [][3]string {
	return [][3]string{
		{"POST", "/auth/login", `{"email":"mallory@evil.test","password":"x"}`},
		{"POST", "/auth/register", `{"companyName":"Evil","name":"M","email":"m@evil.test","password":"` + goodPassword + `"}`},
		{"POST", "/auth/logout", `{}`},
		{"POST", "/auth/sessions/end", `{}`},
		{"POST", "/auth/change-password", `{"currentPassword":"` + goodPassword + `","newPassword":"` + goodPassword + `2"}`},
		{"POST", "/auth/forgot-password", `{"email":"m@evil.test"}`},
		{"POST", "/auth/second-factor/enrol", `{"password":"` + goodPassword + `"}`},
		{"POST", "/webhooks", `{"url":"https://evil.test/in","events":["session.idled"]}`},
		{"POST", "/users/invite", `{"name":"M","email":"m@evil.test","role":"admin"}`},
		{"POST", "/users/{id}/tokens", `{"label":"stolen"}`},
		{"POST", "/projects", `{"name":"Evil"}`},
		{"POST", "/groups", `{"name":"Evil"}`},
		{"PATCH", "/users/{id}", `{"name":"Stolen"}`},
		{"DELETE", "/users/{id}", `{}`},
	}
}

// hears notes what the browser sends below a URL and how it is answered, which the page may not see. Preflights, which change nothing,
// are left out.
type hears struct {
	mu       sync.Mutex
	sent     map[network.RequestID]bool
	statuses map[network.RequestID]int64
}

// answers are the statuses of what was answered so far.
func (h *hears) answers() (all []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range h.sent {
		if status := h.statuses[id]; status != 0 {
			all = append(all, status)
		}
	}
	return all
}

func (b *browser) hear(below string) *hears {
	b.t.Helper()
	h := &hears{sent: map[network.RequestID]bool{}, statuses: map[network.RequestID]int64{}}
	_, err := chromedp.Run(b.ctx, func(_ context.Context, target *chromedp.Target) (chromedp.Void, error) {
		requests, responses := cdp.Events(b.ctx, target, network.RequestWillBeSent), cdp.Events(b.ctx, target, network.ResponseReceivedExtraInfo) //nolint:contextcheck // as long as the tab
		b.ended.Go(func() {
			for event, err := range requests {
				if err != nil {
					return
				}
				if strings.HasPrefix(event.Request.URL, below) && event.Request.Method != http.MethodOptions {
					h.mu.Lock()
					h.sent[event.RequestID] = true
					h.mu.Unlock()
				}
			}
		})
		b.ended.Go(func() {
			for event, err := range responses { // of all that is answered, be it kept from the page or not
				if err != nil {
					return
				}
				h.mu.Lock()
				h.statuses[event.RequestID] = event.StatusCode
				h.mu.Unlock()
			}
		})
		return chromedp.Void{}, nil
	})
	require.NoError(b.t, err)
	return h
}

// cookies returns the cookies that the browser holds for a URL.
func (b *browser) cookies(of string) map[string]*network.Cookie {
	b.t.Helper()
	found, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) (network.GetCookiesResult, error) {
		return cdp.Call(ctx, target, network.GetCookies, network.GetCookiesParams{URLs: []string{of}})
	})
	require.NoError(b.t, err)
	named := map[string]*network.Cookie{}
	for _, cookie := range found.Cookies {
		named[cookie.Name] = cookie
	}
	return named
}

// script runs a piece of asynchronous JavaScript, and returns what it says.
func (b *browser) script(body string) string {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`void (async () => { delete document.body.dataset.said; document.body.dataset.said = await (async () => {` + body + `})(); })()`))
	return b.tell(`document.body.dataset.said !== undefined`, `document.body.dataset.said`)
}

// TestAccountsInABrowser: scripts cannot read the session's cookie, and what pages of other origins have the browser send in the name
// of whom is signed in, by scripts and forms, is refused and changes nothing; a name that is rebound to the server gets no session.
func TestAccountsInABrowser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><p id=ready>ready")
	}))
	t.Cleanup(web.Close)
	elsewhere, err := url.Parse(web.URL)
	require.NoError(t, err)
	b := newBrowser(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	for name, config := range map[string]string{"open": accountsConfig, "with_authentication": closedAccounts} {
		t.Run(name, func(t *testing.T) {
			b.in(t)
			p := shared.of(t, config)
			_, email, _ := company(t, p)
			_, port, err := net.SplitHostPort(p.listen)
			require.NoError(t, err)
			own := "http://127.0.0.1:" + port
			b.signIn(own, email)
			held := b.cookies(own)
			session, project := held["token"], held["active_project_id"]
			require.NotNil(t, session)
			require.NotNil(t, project)
			require.Equal(t, []any{true, network.CookieSameSiteLax}, []any{session.HTTPOnly, session.SameSite})
			require.Equal(t, []any{false, network.CookieSameSiteLax}, []any{project.HTTPOnly, project.SameSite})
			seen := b.text(`document.cookie`)
			require.Contains(t, seen, "active_project_id=")
			require.NotContains(t, seen, "token=")
			require.NotContains(t, seen, session.Value)

			user := newVisitor(t, p).withCookie(session.Value)
			id := user.done(t, "GET", "/auth/session", nil).text("userId")
			before := possessions(t, user)
			for name, page := range map[string]string{"another_site": "http://evil.example:" + elsewhere.Port() + "/", "another_port": web.URL + "/"} {
				t.Run(name, func(t *testing.T) { b.in(t).forge(page, own+"/api", id) })
				b.t = t
				require.Equal(t, session.Value, b.cookies(own)["token"].Value, "the browser still holds it")
				require.Equal(t, before, possessions(t, user), "nothing was changed")
			}
			newVisitor(t, p).done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})

			t.Run("rebinding", func(t *testing.T) {
				b.in(t)
				want := 403
				if name == "with_authentication" { // names are not checked: without the cookie it is a stranger as all others
					want = 401
				}
				rebound := "http://evil.example:" + port
				b.arrive(rebound + "/docs-of-nothing")
				require.Empty(t, b.cookies(rebound), "the cookies are of the address only")
				require.Equal(t, fmt.Sprint(want, " ", want, " ", want), b.script(`
					const status = async (method, path) => (await fetch("/api" + path, {method, credentials: "include", headers: {"Content-Type": "application/json"},
						body: method === "GET" ? undefined : "{}"})).status;
					return [await status("GET", "/auth/session"), await status("POST", "/auth/sessions/end"), await status("GET", "/users")].join(" ")`))
				require.True(t, user.signedIn(t))
			})
		})
	}
}

// in has the browser fail a subtest.
func (b *browser) in(t *testing.T) *browser {
	t.Helper()
	b.t = t
	return b
}

// becomes waits until an expression has a value, also while the browser goes from one page to the next: what is evaluated then fails.
func (b *browser) becomes(expression, want string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
		return err == nil && found == want
	}, waitLong, waitStep, expression)
}

// arrive opens a page and waits until it is there.
func (b *browser) arrive(page string) {
	b.t.Helper()
	b.do(chromedp.Navigate(page))
	b.becomes(fmt.Sprintf(`String(location.href === %q && document.body !== null && document.readyState === "complete")`, page), "true")
}

// signIn signs in on a page of the server itself.
func (b *browser) signIn(own, email string) {
	b.t.Helper()
	b.arrive(own + "/")
	require.Equal(b.t, "200", b.script(fmt.Sprintf(`
		const answer = await fetch("/api/auth/login", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({email: %q, password: %q})});
		return answer.status`, email, goodPassword)))
}

// possessions is what a user's company has, and who they are.
func possessions(t *testing.T, user *visitor) (all []string) {
	t.Helper()
	for _, path := range []string{"/auth/session", "/users", "/groups", "/projects", "/webhooks"} {
		a := user.call(t, "GET", path, nil)
		require.Equal(t, 200, a.status, a.text)
		all = append(all, a.text)
	}
	id := decode(t, all[0]).text("userId")
	return append(all, user.call(t, "GET", "/users/"+id+"/tokens", nil).text)
}

// forge has a page send everything, by scripts as simple requests, which ask nobody first, and with JSON, which do, and by a form.
func (b *browser) forge(page, api, id string) {
	t := b.t
	t.Helper()
	answers := b.hear(api)
	b.arrive(page)
	var calls []string
	simple := 0
	for _, f := range forged() {
		calls = append(calls, fmt.Sprintf("[%q,%q,%q]", f[0], strings.ReplaceAll(f[1], "{id}", id), f[2]))
		if f[0] == "POST" {
			simple += 2
		}
	}
	seen := b.script(`
		const said = new Set(), api = "` + api + `";
		const attempt = async (name, path, options) => {
			try { const answer = await fetch(api + path, {credentials: "include", ...options}); said.add(name + " " + (answer.type === "opaque" ? "opaque" : answer.status)); }
			catch { said.add(name + " blocked"); }
		};
		for (const [method, path, body] of [` + strings.Join(calls, ",") + `]) {
			await attempt("json", path, {method, body, headers: {"Content-Type": "application/json"}});
			if (method !== "POST") continue;
			await attempt("simple", path, {method, body, mode: "no-cors"});
			await attempt("text", path, {method, body});
		}
		await attempt("read", "/auth/session", {});
		return [...said].sort().join(",")`)
	require.Equal(t, "json blocked,read blocked,simple opaque,text blocked", seen)
	var statuses []int64
	require.Eventually(t, func() bool { // the browser tells of them a moment later
		statuses = answers.answers()
		return len(statuses) >= simple
	}, waitLong, waitStep)
	refused := 0
	for _, status := range statuses {
		if status == http.StatusForbidden {
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, simple, "each of them is 403: %v", statuses)
	require.LessOrEqual(t, len(statuses), simple+1, "besides only the page's read is sent: %v", statuses)

	for _, f := range [][2]string{{"/auth/logout", `{"x":"=`}, {"/auth/sessions/end", `{"x":"=`}, {"/webhooks", `{"url":"https://evil.test/in","events":["session.idled"],"x":"=`}} {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded"} {
			b.arrive(page)
			b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (() => {
				const form = document.createElement("form"), field = document.createElement("input"), [name, value] = %q.split("=");
				form.method = "POST"; form.action = %q; form.enctype = %q; field.name = name; field.value = value + "\"}";
				form.append(field); document.body.append(form); setTimeout(() => form.submit());
			})()`, f[1], api+f[0], kind)))
			b.becomes(fmt.Sprintf(`location.href === %q ? String(performance.getEntriesByType("navigation")[0]?.responseStatus) : ""`, api+f[0]), "403")
		}
	}
}
