package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// consoleReady is a page of the console that is drawn.
const consoleReady = `document.body.dataset.ready === 'true'`

// ask sends a request from the page, with its cookies, and returns the answer.
func (b *browser) ask(method, path string, body any) tree {
	b.t.Helper()
	sent := "undefined" // a GET has no body
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(b.t, err)
		sent = strconv.Quote(string(text))
	}
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (window.answered = undefined, fetch(%q, { method: %q, headers: { 'Content-Type': 'application/json' }, body: %s }).then((a) => a.text().then((text) => { window.answered = a.status + ' ' + text; })))`,
		"/api/console/v1"+path, method, sent)))
	status, text, _ := strings.Cut(b.tell(`window.answered !== undefined`, `window.answered`), " ")
	require.Regexp(b.t, "^2", status, text)
	return decode(b.t, text)
}

// goTo opens an address of the console and waits until it is drawn.
func (b *browser) goTo(p *process, path string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://" + p.listen + path))
	b.see(consoleReady)
}

// register makes a company in the browser and leaves it at the overview.
func (b *browser) register(p *process) {
	b.t.Helper()
	b.goTo(p, "/register")
	for name, text := range map[string]string{"companyName": "Acme", "name": "Ada", "email": "ada@acme.test", "password": goodPassword} {
		b.fill(`input[name="`+name+`"]`, text)
	}
	b.tap(`form button[type="submit"]`)
	b.see(`location.pathname === '/dashboard' && document.querySelector('.rail') !== null && document.querySelector('.overview') !== null`)
}

// agentOf makes an agent with a scripted model, and returns its key.
func (b *browser) agentOf(name string, script, config object1) string {
	b.t.Helper()
	config["modelKey"] = b.ask("POST", "/models", object1{
		"name": name, "providerKey": "scripted", "category": "llm", "modelId": "m",
		"pricing": object1{"inputTokenPer1M": 0, "outputTokenPer1M": 1000}, "settings": object1{"script": script},
	}).text("model", "key")
	return b.ask("POST", "/agents", object1{"name": name, "config": config, "metadata": object1{"background": object1{"enabled": true}}}).text("agent", "key")
}

// checkConsole: the checker finds nothing on the page that is open, in both themes, on a desktop and on a phone.
func (b *browser) checkConsole(name string) {
	b.t.Helper()
	checker, err := os.ReadFile(filepath.Join(pageTools, "axe-core", "axe.min.js"))
	if err != nil {
		b.t.Log("the checker is not installed: make page-tools")
		return
	}
	b.do(chromedp.Evaluate[chromedp.Void](string(checker) + `; undefined`))
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, width := range []int64{1440, 390} {
			b.do(chromedp.EmulateViewport(width, 900))
			b.see(fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, width))
			b.checkAxe("console-"+name, scheme, width)
		}
	}
	b.do(chromedp.EmulateViewport(1440, 900))
	b.scheme("light")
}

// TestConsoleStory: somebody registers, opens a session, talks, approves, raises a budget and reads the waterfall.
func TestConsoleStory(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/dashboard"))
	b.see(`location.pathname === '/login' && document.querySelector('input[name="email"]') !== null`)
	b.checkConsole("login")
	b.register(p)
	b.checkConsole("overview-empty")
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	b.agentOf("Refunds", object1{"steps": []any{
		object1{"text": "I look at the clock.", "toolCalls": []any{object1{"name": "clock", "arguments": `{}`}}},
		object1{"text": "The refund is **done**."},
	}}, object1{"tools": []any{object1{"name": "clock", "builtin": "current_time", "approval": "always"}}})

	b.goTo(p, "/dashboard/sessions")
	b.tap("#new-session")
	b.see(`document.querySelector('dialog[open] select[name="agent"]') !== null`)
	b.fill(`dialog input[name="budget"]`, "0.02")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/sessions/conv_') && document.querySelector('.session[data-ready="true"] #composer') !== null`)
	b.fill("#composer", "Refund order 1182")
	b.tap("#send")
	b.see(`document.querySelector('.waits-for .allow') !== null && document.querySelector('[data-status="requires_action"]') !== null`)
	b.checkConsole("waits")
	b.tap(".waits-for .allow")
	b.see(`document.querySelector('.message.assistant strong')?.textContent === 'done' && document.querySelector('.waits-for') === null`)
	b.checkConsole("answered")

	path := b.text(`location.pathname`)
	b.goTo(p, path+"?view=waterfall&event=1")
	b.see(`['turn', 'model', 'tool', 'wait'].every((kind) => document.querySelector('.bar-row[data-kind="' + kind + '"]')) && document.querySelector('.detail[data-seq="1"]') !== null`)
	b.tap(`.bar-row[data-kind="tool"]`)
	b.see(`document.querySelector('.detail h2').textContent.includes('clock') && location.search.includes('event=')`)
	b.checkConsole("waterfall")
	for _, view := range []string{"log", "files", "money"} {
		b.goTo(p, path+"?view="+view)
		b.see(`document.querySelector('.session[data-ready="true"]') !== null`)
		b.checkConsole(view)
	}

	// Each answer costs a cent or so: the second one reaches the budget.
	b.goTo(p, path)
	b.see(`document.querySelector('.session[data-ready="true"]') !== null`)
	const status = `document.querySelector('.session-head .status').dataset.status`
	for b.tell(`['idle', 'budget_paused'].includes(`+status+`)`, status) != "budget_paused" {
		before := b.text(`String(document.querySelectorAll('.message.user').length)`)
		b.fill("#composer", "Another one")
		b.tap("#send")
		b.see(`document.querySelectorAll('.message.user').length > ` + before + ` || document.querySelector('.budget[data-paused="true"]') !== null`)
		b.see(`((allow) => allow !== null && !allow.disabled ? (allow.click(), true) : document.querySelector('.budget[data-paused="true"]') !== null)(document.querySelector('.waits-for .allow'))`)
		b.see(`document.querySelector('.waits-for .allow') === null && ['idle', 'budget_paused'].includes(` + status + `)`)
	}
	b.screenshot("console-budget.png")
	b.fill("#budget-amount", "5")
	b.tap("#budget-raise")
	b.see(`document.querySelector('.session-head .facts').textContent.includes('of $5.00') && document.querySelector('.session-head .status').dataset.status !== 'budget_paused'`)

	b.goTo(p, "/dashboard")
	b.see(`document.querySelector('.overview table tr[data-row]') !== null && document.querySelector('.shards li') !== null`)
	b.checkConsole("overview")
	b.goTo(p, "/dashboard/sessions?status=idle")
	b.see(`document.querySelector('tr[data-row]') !== null || document.querySelector('.pane-list .note') !== null`)
	b.checkConsole("sessions")
	b.checkQuiet(p)
}

// TestConsoleSurvives: the node is killed in mid-answer; the page goes on by itself, and nothing typed is lost.
func TestConsoleSurvives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.register(p)
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	agent := b.agentOf("Slow", object1{"tokens": 60, "tokenIntervalMs": 150}, object1{})
	session := b.ask("POST", "/agents/sessions", object1{"agent": agent}).text("id")
	b.goTo(p, "/dashboard/sessions/"+session)
	b.see(`document.querySelector('.session[data-ready="true"]') !== null`)
	b.fill("#composer", "Count, please")
	b.tap("#send")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w5')`)
	b.fill("#composer", "A draft")
	p.kill()
	b.see(`document.querySelector('.session .lost') !== null`)
	p.start()
	b.see(`document.querySelector('.session .lost') === null && document.querySelector('[data-status="idle"]') !== null && document.querySelector('.message.assistant')?.textContent.includes('w60')`)
	require.Equal(t, "A draft", b.text(`document.querySelector('#composer').value`))
	b.goTo(p, "/dashboard/sessions/"+session+"?view=waterfall")
	b.see(`document.querySelector('.bar-row[data-kind="mark"]')?.textContent.includes('recovered')`)
	b.screenshot("console-recovered.png")
	b.checkQuiet(p)
}

// TestConsoleComponents: the gallery in both themes, keys, focus that returns, and how much the first page weighs.
func TestConsoleComponents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.register(p)
	b.goTo(p, "/dashboard")
	// The browser counts what it had kept as nothing: so each part is asked for anew.
	const most = 120_000
	weight := 0
	for part := range strings.FieldsSeq(b.tell(`document.querySelector('.overview[aria-busy="false"]') !== null`, `[...new Set(performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).map((entry) => entry.name))]
		.filter((name) => !name.includes('/api/')).join(' ')`)) {
		weight += compressed(t, part)
	}
	t.Logf("the first page is %d bytes", weight)
	require.Greater(t, weight, 20_000)
	require.Less(t, weight, most)
	b.goTo(p, "/dashboard/gallery")
	b.checkConsole("gallery")
	b.see(`document.querySelectorAll('.gallery .table-box tr[data-row]').length < 100`)
	b.tap("#open-dialog")
	b.see(`document.querySelector('dialog[open]') !== null`)
	b.do(chromedp.Evaluate[chromedp.Void](`void document.querySelector('#open-dialog').focus()`))
	b.tap("dialog[open] header button")
	b.see(`document.querySelector('dialog') === null`)
	for _, step := range []struct{ key, seen string }{
		{`{ key: '?' }`, `document.querySelector('dialog[open] .keys') !== null`},
		{`{ key: 'k', ctrlKey: true }`, `document.querySelector('#palette') !== null`},
	} {
		b.do(chromedp.Evaluate[chromedp.Void](`void document.body.dispatchEvent(new KeyboardEvent('keydown', Object.assign(` + step.key + `, { bubbles: true, cancelable: true })))`))
		b.see(step.seen)
		b.tap("dialog[open] header button")
		b.see(`document.querySelector('dialog') === null`)
	}
	// What comes between drawing and the frame, after which components hear of changes, is drawn, too.
	b.do(chromedp.Evaluate[chromedp.Void](`void Promise.all([import(` + module("dashboard/lib.js") + `), import(` + module("dashboard/store.js") + `)]).then(([{ html, render }, { Store, useStore }]) => {
		const store = new Store('before'), root = document.createElement('div');
		function Shown() { return html` + "`<b id=\"shown\">${useStore(store)}</b>`" + `; }
		document.body.append(root);
		render(html` + "`<${Shown} />`" + `, root);
		store.set('since');
	})`))
	b.see(`document.querySelector('#shown')?.textContent === 'since'`)
	// Every word that was asked for is in the table.
	b.do(chromedp.Evaluate[chromedp.Void](`void import(` + module("dashboard/messages.js") + `).then(({ missing, speak }) => { speak('tr'); window.missing = [...missing].join(); })`))
	require.Empty(t, b.tell(`window.missing !== undefined && document.documentElement.lang === 'tr'`, `window.missing`))
	b.checkQuiet(p)
}

// compressed is the number of bytes that an answer takes on the wire.
func compressed(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	require.Equal(t, http.StatusOK, response.StatusCode, address)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return len(body)
}
