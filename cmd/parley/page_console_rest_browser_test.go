package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// restConfig lets a node call receivers on this machine.
const restConfig = `
outbound: {allow: [127.0.0.0/8]}
`

// consoleOf starts a node and registers somebody in a browser.
func consoleOf(t *testing.T) (*browser, *process) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, restConfig)
	p.start()
	b.register(p)
	return b, p
}

// choose picks an option of a select as a person would.
func (b *browser) choose(selector, value string) {
	b.t.Helper()
	b.see(fmt.Sprintf(`((field) => field !== null && [...field.options].some((one) => one.value === %q) && (field.value = %q, field.dispatchEvent(new Event('input', { bubbles: true })), field.dispatchEvent(new Event('change', { bubbles: true })), true))(document.querySelector(%q))`, value, value, selector))
}

// sees waits until an element says something.
func (b *browser) sees(selector, text string) {
	b.t.Helper()
	b.see(fmt.Sprintf(`(document.querySelector(%q)?.textContent || '').includes(%q)`, selector, text))
}

// TestConsoleWebhooks is the end of the story: an endpoint fails, what it missed is sent again in the browser, it gets it, and the usage
// page shows what the turns cost.
func TestConsoleWebhooks(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/webhooks")
	b.see(`document.querySelector('.empty #new-webhook') !== null`)
	b.checkConsole("webhooks-empty")
	r := newHookListener(t)
	r.answers(http.StatusGone) // a delivery fails at once
	b.tap("#new-webhook")
	b.fill(`dialog input[name="url"]`, r.URL+"/in")
	b.fill(`dialog input[name="description"]`, "Billing")
	b.tap(`dialog input[name="events-all"]`)
	b.tap(`dialog input[name="session.idled"]`)
	b.screenshot("console-webhooks-new.png")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('#secret')?.textContent.startsWith('whsec_')`)
	b.checkConsole("webhooks-secret")
	b.tap("#secret-kept")
	b.see(`location.pathname.startsWith('/dashboard/webhooks/wh_') && document.querySelector('.thing[data-ready="true"]') !== null`)
	require.NotContains(t, b.text(`document.body.textContent`), "whsec_")
	path := b.text(`location.pathname`)

	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	agent := b.agentOf("Refunds", object1{"steps": []any{object1{"text": "Done."}}}, object1{})
	const many = 4
	for range many {
		b.ask("POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	}
	b.goTo(p, path)
	b.see(fmt.Sprintf(`(document.querySelector('#refresh')?.click(), document.querySelectorAll('.deliveries tr [data-status="failed"]').length === %d)`, many))
	b.tap(`.deliveries tr[data-row="0"] a`)
	b.see(`document.querySelector('.delivery .heads')?.textContent.includes('HTTP/1.1 410 Gone') && location.search.includes('delivery=')`)
	b.checkConsole("webhooks-failed")

	heard := len(r.got("session.idled"))
	require.Equal(t, many, heard)
	r.answers(http.StatusNoContent)
	b.tap("#redeliver")
	b.see(`document.querySelector('.delivery header [data-status="delivered"]') !== null`)
	require.Len(t, r.got("session.idled"), heard+1)
	b.tap("#redeliver-failed")
	b.see(fmt.Sprintf(`document.querySelector('#again-count')?.dataset.count === '%d'`, many-1))
	b.checkConsole("webhooks-again")
	b.tap("#again-yes")
	b.see(`document.querySelector('dialog') === null`)
	b.see(fmt.Sprintf(`document.querySelectorAll('.deliveries tr [data-status="delivered"]').length === %d`, many))
	told := r.got("session.idled")
	require.Len(t, told, 2*many, "each was told once more")
	for event, times := range distinct(told) {
		require.Equal(t, 2, times, event)
	}
	b.tap("#test")
	b.sees(".toast", "HTTP 204")
	b.tap("#rotate")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('#secret')?.textContent.startsWith('whsec_')`)
	b.tap("#secret-kept")
	b.tap("#toggle")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('.session-head [data-status="disabled"]') !== null && document.querySelector('#redeliver-failed').disabled`)
	b.tap(".toast button:not([aria-label])") // undo
	b.see(`document.querySelector('.session-head [data-status="active"]') !== null`)
	b.tap("#edit")
	b.fill(`dialog input[name="description"]`, "Invoices")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('.session-head h1').textContent === 'Invoices' && document.querySelector('dialog') === null`)
	b.checkConsole("webhooks")

	b.goTo(p, "/dashboard/usage")
	spent, calls, _ := strings.Cut(b.tell(`document.querySelector('.usage[aria-busy="false"] #total-cost') !== null`,
		`document.querySelector('#total-cost').textContent + ' ' + document.querySelectorAll('.usage .numbers strong')[1].textContent`), " ")
	cost, err := strconv.ParseFloat(strings.TrimPrefix(spent, "$"), 64)
	require.NoError(t, err)
	require.Positive(t, cost)
	require.Equal(t, strconv.Itoa(many), calls)
	b.goTo(p, path)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/webhooks' && document.querySelector('.empty #new-webhook') !== null`)
	b.checkQuiet(p)
}

// TestConsoleUsage: numbers, charts and tables by model, user, token, agent and service, of a span that is in the address.
func TestConsoleUsage(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/usage")
	b.see(`document.querySelector('.usage[aria-busy="false"] .empty') !== null`)
	b.checkConsole("usage-empty")
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	for _, name := range []string{"Refunds", "Research"} {
		agent := b.agentOf(name, object1{"steps": []any{object1{"text": "Done by " + name + "."}}}, object1{})
		b.ask("POST", "/agents/responses", object1{"model": agent, "input": "hi"})
	}
	b.goTo(p, "/dashboard/usage")
	for _, group := range []string{"user", "token", "agent", "service", "model"} {
		b.tap(fmt.Sprintf(`.tabs a[href*="by=%s"]`, group))
		b.see(fmt.Sprintf(`location.search.includes('by=%s') && document.querySelector('.usage[aria-busy="false"] .part tr[data-row]') !== null`, group))
	}
	b.see(`document.querySelectorAll('.usage .part tr[data-row]').length === 2 && document.querySelectorAll('.usage svg rect').length >= 4`)
	b.sees(".usage .part tbody", "Research")
	b.checkConsole("usage")
	b.tap(".usage .chart button")
	b.see(`document.querySelector('.chart-table tbody tr') !== null`)
	b.see(`[...document.querySelectorAll('.page-head .tiny')][0].click() === undefined && location.search.includes('from=')`)
	b.see(`document.querySelector('.usage[aria-busy="false"] tr[data-row]') !== null`)
	b.goTo(p, "/dashboard/usage?from=2020-01-01&to=2020-01-31")
	b.see(`document.querySelector('.usage[aria-busy="false"] .empty') !== null && document.querySelector('#usage-from').value === '2020-01-01'`)
	b.checkQuiet(p)
}

// TestConsoleRuns: what runs and waits is listed with why, changes by itself, and is cancelled.
func TestConsoleRuns(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/runs")
	b.see(`document.querySelector('.empty') !== null`)
	b.checkConsole("runs-empty")
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	agent := b.agentOf("Refunds", object1{"steps": []any{object1{"text": "I look.", "toolCalls": []any{object1{"name": "clock", "arguments": `{}`}}}, object1{"text": "Done."}}},
		object1{"tools": []any{object1{"name": "clock", "builtin": "current_time", "approval": "always"}}})
	session := b.ask("POST", "/agents/sessions", object1{"agent": agent}).text("id")
	run := b.ask("POST", "/agents/responses", object1{"model": agent, "input": "hi", "background": true, "session_id": session}).text("id")
	b.see(`document.querySelector('tr[data-row] [data-status="requires_action"]') !== null`)
	b.sees("tr[data-row]", "a person")
	b.checkConsole("runs")
	b.goTo(p, "/dashboard/go/"+run)
	b.see(fmt.Sprintf(`location.pathname === '/dashboard/runs/%s' && document.querySelector('.thing[data-ready="true"]') !== null`, run))
	b.checkConsole("run")
	b.tap("#cancel")
	b.sees("dialog", "ends where it is")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('.thing [data-status="canceled"]') !== null`)
	b.goTo(p, "/dashboard/runs")
	// The run may be told as canceled after the list was read: it is shown then.
	b.see(`document.querySelector('#queue')?.dataset.queued === '0' && document.querySelector('[data-status="requires_action"]') === null`)
	b.checkQuiet(p)
}
