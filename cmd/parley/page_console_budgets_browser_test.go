package main

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestConsoleBudgets: a person caps what the project spends, sees what is left, changes the cap and takes it away; and bounds calls by a policy.
func TestConsoleBudgets(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/budgets")
	b.see(`document.querySelector('.pane-list .empty, .pane-list .note') !== null`)
	b.tap("#new-budget")
	b.fill(`dialog input[name="label"]`, "A day")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog form [role="alert"]') !== null`) // it bounds nothing
	b.fill(`dialog input[name="daily"]`, "5")
	b.checkConsole("budgets-new")
	b.tap(`dialog button[type="submit"]`)
	id := b.tell(`location.pathname.startsWith('/dashboard/budgets/') && document.querySelector('.thing[data-ready="true"] h1')?.textContent === 'A day'`,
		`location.pathname.split('/').pop()`)
	budgets := b.ask("GET", "/budgets", nil).at("data").list()
	require.Len(t, budgets, 1)
	require.Equal(t, id, budgets[0].text("id"))
	require.InDelta(t, 5, budgets[0].number("daily_limit_usd"), 0)
	b.checkConsole("budget")

	b.tap("#edit")
	b.fill(`dialog input[name="daily"]`, "")
	b.fill(`dialog input[name="monthly"]`, "80.5")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog') === null && document.querySelector('.thing .pairs').textContent.includes('80.50')`)
	budget := b.ask("GET", "/budgets", nil).at("data").list()[0]
	require.Nil(t, budget.at("daily_limit_usd").v)
	require.InDelta(t, 80.5, budget.number("monthly_limit_usd"), 0)
	b.goTo(p, "/dashboard/budgets")
	b.see(`document.querySelectorAll('#spent meter').length === 1 && document.querySelector('#spent').textContent.includes('80.50')`)
	b.checkConsole("budgets")

	b.tap(".tabs a:nth-child(2)")
	b.see(`location.search === '?view=limits' && document.querySelectorAll('.pane-list tbody tr[data-row]').length === 1`) // a budget is a policy
	b.tap("#new-budget")
	b.fill(`dialog input[name="label"]`, "A minute")
	b.fill(`dialog textarea[name="limits"]`, `{"rateLimit":{"requests":{"perMinute":7}}}`)
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/limits/') && document.querySelector('.thing[data-ready="true"] .json')?.textContent.includes('perMinute') === true`)
	b.checkConsole("limit")

	// The sign-in ends while somebody writes: what was written is there when they are back.
	b.tap("#new-budget")
	b.fill(`dialog input[name="label"]`, "Kept")
	b.fill(`dialog textarea[name="limits"]`, `{"rateLimit":{"requests":{"perMinute":9}}}`)
	b.do(chromedp.Evaluate[chromedp.Void](`void fetch('/api/auth/logout', { method: 'POST' }).then(() => document.querySelector('dialog button[type="submit"]').click())`))
	b.see(`location.pathname === '/login' && document.querySelector('input[name="email"]') !== null`)
	b.fill(`input[name="email"]`, "ada@acme.test")
	b.fill(`input[name="password"]`, goodPassword)
	b.tap(`form button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/limits/') && document.querySelector('#new-budget') !== null`)
	b.tap("#new-budget")
	b.see(`document.querySelector('dialog input[name="label"]')?.value === 'Kept' && document.querySelector('dialog textarea[name="limits"]').value.includes('9')`)
	b.tap(`dialog button[type="submit"]`)
	b.sees(".thing h1", "Kept")

	b.goTo(p, "/dashboard/budgets/"+id)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/budgets' && document.querySelectorAll('.pane-list tbody tr[data-row]').length === 0`)
	require.Empty(t, b.ask("GET", "/budgets", nil).at("data").list())
}
