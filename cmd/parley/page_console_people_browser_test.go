package main

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleTokens: a token is made with a scope, works, is shown once, and is revoked.
func TestConsoleTokens(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/tokens")
	b.see(`document.querySelector('.tokens .empty #new-token') !== null`)
	b.checkConsole("tokens-empty")
	b.tap("#new-token")
	b.fill(`dialog input[name="label"]`, "Nightly import")
	b.tap("#scoped")
	b.choose(`dialog select[name="level-agents"]`, "read")
	b.checkConsole("tokens-new")
	b.tap(`dialog button[type="submit"]`)
	caller := apiCaller{p, b.tell(`document.querySelector('#secret')?.textContent.startsWith('service_')`, `document.querySelector('#secret').textContent`)}
	require.Equal(t, 200, caller.ask(t, "GET", "/agents", nil).status)
	require.Equal(t, 403, caller.ask(t, "GET", "/models", nil).status, "the scope")
	b.tap("#secret-kept")
	b.see(`document.querySelector('tr[data-row]')?.textContent.includes('agents:read')`)
	b.checkConsole("tokens")
	require.NotContains(t, b.text(`document.body.textContent`), caller.token)
	b.tap("[data-revoke]")
	b.sees("dialog", "Nightly import")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('.tokens .empty') !== null`)
	require.Equal(t, 401, caller.ask(t, "GET", "/agents", nil).status)
	b.checkQuiet(p)
}

// TestConsolePeople: somebody is invited, gets a role, levels, a group and a project, and leaves; their token goes with them.
func TestConsolePeople(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/members")
	b.see(`document.querySelectorAll('tr[data-row]').length === 1`)
	b.tap("#invite")
	b.fill(`dialog input[name="name"]`, "Bob Brown")
	b.fill(`dialog input[name="email"]`, "bob@acme.test")
	b.tap(`dialog button[type="submit"]`)
	link := b.tell(`document.querySelector('#secret')?.textContent.includes('#')`, `document.querySelector('#secret').textContent`)
	b.checkConsole("members-invited")
	b.tap("#secret-kept")
	b.see(`document.querySelectorAll('tr[data-row]').length === 2 && document.querySelector('[data-status="pending"]') !== null`)
	_, token, _ := strings.Cut(link, "#token=")
	bob := accept(t, p, token)
	require.Equal(t, "user", bob.done(t, "GET", "/auth/session", nil).text("role"))
	id := bob.done(t, "GET", "/auth/session", nil).text("userId")
	programs := apiCaller{p, b.ask("POST", "/users/"+id+"/tokens", object1{"label": "Bob's"}).text("token")}

	b.goTo(p, "/dashboard/go/"+id)
	b.see(`location.pathname === '/dashboard/members/` + id + `' && document.querySelector('.thing select[name="level-agents"]') !== null`)
	b.checkConsole("member")
	b.choose(`.thing select[name="role"]`, "project_admin")
	b.tap(`.thing form button[type="submit"]`)
	b.sees(`tr[aria-current="true"]`, "Project admin")
	b.choose(`.thing select[name="level-webhooks"]`, "admin")
	b.tap("#save-levels")
	require.Eventually(t, func() bool { return bob.call(t, "GET", consoleAPI+"/webhooks", nil).status == 200 }, time.Minute, 20*time.Millisecond)

	b.goTo(p, "/dashboard/members?tab=groups")
	b.tap("#new-group")
	b.fill(`dialog input[name="name"]`, "Support")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.search.includes('group=') && document.querySelector('.thing[data-ready="true"] #group-add') !== null`)
	b.choose("#group-add", id)
	b.sees(".thing .rows-box tr[data-row]", "Bob")
	b.checkConsole("group")

	b.goTo(p, "/dashboard/members?tab=projects")
	b.see(`document.querySelector('tr[data-row]') !== null`)
	b.tap("#new-project")
	b.fill(`dialog input[name="name"]`, "Research")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/projects/') && document.querySelector('.thing[data-ready="true"] #project-add') !== null`)
	b.checkConsole("project")

	b.goTo(p, "/dashboard/members/"+id)
	require.Equal(t, 200, programs.ask(t, "GET", "/agents", nil).status)
	b.see(`document.querySelector('.thing .do small')?.textContent === '1'`)
	b.tap("#remove")
	b.sees("dialog", "1 API token of theirs is deleted")
	b.screenshot("console-member-remove.png")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/members' && document.querySelectorAll('tr[data-row]').length === 1`)
	require.Equal(t, 401, programs.ask(t, "GET", "/agents", nil).status)
	b.checkConsole("members")

	// What was done is in the trail, with the record before and after.
	b.goTo(p, "/dashboard/audit?method=POST")
	b.see(`document.querySelectorAll('tr[data-row]').length >= 4`)
	b.checkConsole("audit")
	b.see(`((row) => row !== undefined && (row.querySelector('a').click(), true))([...document.querySelectorAll('tr[data-row]')].find((row) => row.textContent.includes('invite')))`)
	require.NotContains(t, b.tell(`document.querySelector('.thing .diff .json')?.textContent.includes('bob@acme.test')`, `document.querySelector('.thing').textContent`), token)
	b.checkConsole("audit-row")
	b.do(chromedp.Evaluate[chromedp.Void](`void fetch(document.querySelector('#audit-export').href).then((a) => a.text()).then((text) => { window.exported = text; })`))
	lines := strings.Split(strings.TrimSpace(b.tell(`window.exported !== undefined`, `window.exported`)), "\n")
	require.Greater(t, len(lines), 5)
	for _, line := range lines {
		require.True(t, strings.HasPrefix(line, "{"), line)
	}
	b.checkQuiet(p)
}

// TestConsoleSettings: theme and language, the profile, a second factor, the licence, and the end of all sessions.
func TestConsoleSettings(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/settings")
	b.see(`document.querySelector('#licence') !== null && document.querySelector('.settings input[name="name"]') !== null`)
	b.checkConsole("settings")
	b.choose("#theme", "dark")
	b.see(`document.documentElement.dataset.theme === 'dark'`)
	b.choose("#language", "tr")
	b.sees(".settings h1", "Ayarlar")
	b.screenshot("console-settings-tr.png")
	b.choose("#language", "en")
	b.choose("#theme", "auto")
	b.fill(`.settings input[name="name"]`, "Ada Lovelace")
	b.tap(`.settings form button[type="submit"]`)
	b.sees(".toast", "Saved")
	b.see(`document.querySelector('#you').textContent === 'AL'`)
	b.tap("#licence-give")
	b.fill(`dialog textarea[name="licenseKey"]`, "eyJ not a key at all, but long enough")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog [role="alert"]')?.textContent.length > 5`)
	b.checkConsole("settings-licence")
	b.tap("dialog header button")

	b.tap("#factor-on")
	b.fill(`dialog input[name="password"]`, goodPassword)
	b.tap(`dialog button[type="submit"]`)
	secret := b.tell(`document.querySelector('#factor-secret')?.textContent.length > 10`, `document.querySelector('#factor-secret').textContent`)
	b.fill(`dialog input[name="code"]`, newApp(t, secret).code(0))
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelectorAll('.codes li').length >= 8`)
	b.checkConsole("settings-codes")
	b.tap("dialog footer .primary")
	b.see(`document.querySelector('#factor-off') !== null`)
	b.tap("#end-sessions")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/login'`)
	b.checkQuiet(p)
}
