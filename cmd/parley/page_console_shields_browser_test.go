package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConsoleShields: a person makes a shield, sees what it decides, and lets a call through that waits for a person.
func TestConsoleShields(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	for _, tenant := range operate(t, p, "GET", "/tenants", nil).list() {
		operate(t, p, "PATCH", "/tenants/"+tenant.text("id"), object1{"tier": "ON_PREMISE"})
	}
	b.goTo(p, "/dashboard/shields")
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	b.ask("POST", "/models", scriptedModel("scripted"))
	b.see(`document.querySelectorAll('.pane-list tbody tr[data-id="default"]').length === 1`)
	b.tap("#new-shield")
	b.fill(`dialog input[name="name"]`, "Billing")
	b.fill(`dialog textarea[name="rules"]`, `["delete_invoice"]`)
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog textarea[name="rules"][aria-invalid="true"]') !== null`)
	b.fill(`dialog textarea[name="rules"]`, `{"deny":["drop_table"],"sideEffects":{"delete_invoice":"destructive"}}`)
	b.tap(`dialog input[name="judge"]`)
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog [role="alert"]')?.textContent.includes('llm.modelKey')`)
	b.see(`[...document.querySelector('dialog select[name="judgeModel"]').options].some((one) => one.value === 'scripted')`)
	b.choose(`dialog select[name="judgeModel"]`, "scripted")
	b.tap(`dialog input[name="judge-output.pre"]`)
	b.checkConsole("shields-new")
	b.tap(`dialog button[type="submit"]`)
	shield := b.tell(`location.pathname.startsWith('/dashboard/shields/') && document.querySelector('.thing[data-ready="true"] h1')?.textContent === 'Billing'`,
		`location.pathname.split('/').pop()`)

	b.see(`document.querySelector('.thing .json').textContent.includes('modelKey')`)
	call := object1{"stage": "tool.pre", "shieldId": shield, "resource": object1{"type": "tool", "name": "delete_invoice", "arguments": object1{"id": "i-7"}}}
	b.tap("#try summary")
	b.fill(`#try input[name="name"]`, "delete_invoice")
	b.fill(`#try textarea[name="arguments"]`, `{"id":"i-7"}`)
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('#try .outcome a')?.href.includes('/dashboard/approvals/apr_') === true && document.querySelector('#try [data-decision="require_approval"]') !== null`)
	b.ask("POST", "/aegis/evaluate", object1{"stage": "tool.pre", "shieldId": shield, "resource": object1{"type": "tool", "name": "drop_table"}})
	b.see(`(document.querySelector('#refresh')?.click(), document.querySelector('.deliveries [data-decision="block"]') !== null && document.querySelector('.deliveries [data-decision="require_approval"]') !== null)`)
	b.checkConsole("shields")
	b.choose("#decision", "block")
	b.see(`location.search === '?decision=block' && document.querySelectorAll('.deliveries tbody tr[data-row]').length === 1 && document.querySelector('.deliveries tbody').textContent.includes('drop_table')`)

	b.see(`document.querySelector('.tabs a:nth-child(2)')?.textContent.includes('1')`)
	b.tap(".tabs a:nth-child(2)")
	b.tap(`.pane-list tr[data-row="0"] a`)
	b.see(`document.querySelector('.thing[data-ready="true"] #approve') !== null && document.querySelector('.thing .json').textContent.includes('i-7')`)
	b.checkConsole("approval")
	b.tap("#approve")
	token := b.tell(`document.querySelector('#secret')?.textContent.startsWith('apt_')`, `document.querySelector('#secret').textContent`)
	b.tap("#secret-kept")
	b.see(`document.querySelector('.thing [data-status="approved"]') !== null && document.querySelector('#approve') === null`)
	require.NotContains(t, b.text(`document.body.textContent`), token)
	call["context"] = object1{"approvalToken": token}
	require.Equal(t, "allow", b.ask("POST", "/aegis/evaluate", call).text("decision"))
	b.see(`document.querySelector('.pane-list [data-status="used"]') !== null`)

	b.goTo(p, "/dashboard/shields/"+shield)
	b.tap("#edit")
	b.choose(`dialog select[name="mode"]`, "simulate")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog') === null && document.querySelector('.session-head [data-status="inactive"]') !== null`)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/shields' && document.querySelectorAll('.pane-list tbody tr[data-row]').length === 1`)
}
