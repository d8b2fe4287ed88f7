package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestPagesOfOtherSites: a page of the web, in the browser of somebody who runs a server without authentication, can neither use it
// nor read from it: not across sites, and not under a name of its own that it lets resolve to this machine.
func TestPagesOfOtherSites(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "node: {name: alone}\n")
	p.start()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><p id=ready>ready")
	}))
	t.Cleanup(web.Close)
	elsewhere, err := url.Parse(web.URL)
	require.NoError(t, err)
	b := newBrowser(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	_, port, err := net.SplitHostPort(p.listen)
	require.NoError(t, err)
	_, opsPort, err := net.SplitHostPort(p.ops)
	require.NoError(t, err)

	// What a script of the page can do: send without asking, and try to read.
	const try = `void (async () => {
		const done = [];
		const say = async (name, request) => { try { const r = await request(); done.push(name + " " + (r.type === "opaque" ? "opaque" : r.status)); }
			catch { done.push(name + " blocked"); } };
		const api = %q + "/api/agents";
		const body = JSON.stringify({agentId: "assistant", userId: "mallory"});
		await say("simple", () => fetch(api + "/conversations", {method: "POST", mode: "no-cors", body}));
		await say("json", () => fetch(api + "/conversations", {method: "POST", headers: {"Content-Type": "application/json"}, body}));
		await say("read", () => fetch(api + "/agents"));
		await say("metrics", () => fetch(%q + "/metrics"));
		await say("profile", () => fetch(%q + "/debug/pprof/heap", {mode: "no-cors"}));
		document.body.dataset.done = done.join(",");
	})()`
	attack := func(page, api, ops string) string {
		b.do(chromedp.Navigate(page))
		b.see(`document.body !== null`)
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(try, api, ops, ops)))
		return b.tell(`document.body.dataset.done !== undefined`, `document.body.dataset.done`)
	}
	own, ownOps := "http://127.0.0.1:"+port, "http://127.0.0.1:"+opsPort
	for name, page := range map[string]string{"another_site": "http://evil.example:" + elsewhere.Port() + "/", "another_port": web.URL} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "simple opaque,json blocked,read blocked,metrics blocked,profile opaque", attack(page, own, ownOps))
		})
	}
	t.Run("rebinding", func(t *testing.T) {
		rebound, reboundOps := "http://evil.example:"+port, "http://evil.example:"+opsPort
		require.Equal(t, "simple 403,json 403,read 403,metrics blocked,profile opaque", attack(rebound+"/", rebound, reboundOps))
		require.Equal(t, "simple opaque,json blocked,read blocked,metrics 403,profile 403", attack(reboundOps+"/metrics", rebound, reboundOps))
	})
	require.Empty(t, p.ask(t, "GET", "/conversations?userId=mallory", nil).fits(200, anyObject).at("conversations").list(), "nothing was made")

	// A link leads to the page, which works; a script without a type is refused even there, a program is not.
	b.do(chromedp.Navigate(own + "/"))
	b.see(`document.title !== ""`)
	require.Equal(t, "simple 400,json 201,read 200,metrics blocked,profile blocked", attack(own+"/", own, ownOps))
	require.Equal(t, 201, p.ask(t, "POST", "/conversations", `{"agentId":"assistant","userId":"ada"}`, "Content-Type", "application/x-www-form-urlencoded").status)
}
