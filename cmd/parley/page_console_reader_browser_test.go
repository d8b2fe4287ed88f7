package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/access"
)

// changes lists the buttons of the page that is open, but those that change nothing of the project.
const changes = `[...document.querySelectorAll('main button')].filter((one) => one.checkVisibility()
	&& !one.matches('#refresh, #compare, #follow, .compare-version, .failure button, .json button, button.tiny[aria-label], .said footer button, .wait button[aria-pressed], figcaption button, #end-sessions, #factor-on')).map((one) => one.id || one.textContent).join()`

// TestConsoleReader: somebody who may read everything sees every page, without a button that would be refused; and what they may do is asked
// once for a page.
func TestConsoleReader(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	for _, tenant := range operate(t, p, "GET", "/tenants", nil).list() {
		operate(t, p, "PATCH", "/tenants/"+tenant.text("id"), object1{"tier": "ON_PREMISE"})
	}
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	agent := b.agentOf("Asks", object1{"steps": []any{object1{"toolCalls": []any{object1{"name": "clock", "arguments": `{}`}}}}},
		object1{"tools": []any{object1{"name": "clock", "builtin": "current_time", "approval": "always"}}})
	b.ask("POST", "/agents/"+agent+"/publish", object1{})
	model := b.ask("GET", "/models", nil).at("models").list()[0].text("key")
	run := b.ask("POST", "/agents/responses", object1{"model": agent, "input": "hi", "background": true})
	session := b.ask("POST", "/agents/responses", object1{"model": agent, "input": "hi"}).text("session_id")
	guardrail := b.ask("POST", "/guardrails", object1{"name": "Mails", "rules": object1{"pii": object1{}}}).text("guardrail", "key")
	shield := b.ask("POST", "/aegis/shields", object1{"name": "Billing", "mode": "enforce", "rules": object1{"sideEffects": object1{"delete_invoice": "destructive"}}}).text("shield", "id")
	approval := b.ask("POST", "/aegis/evaluate", object1{"stage": "tool.pre", "shieldId": shield, "resource": object1{"type": "tool", "name": "delete_invoice"}}).text("approval", "approvalId")
	budget := b.ask("POST", "/budgets", object1{"label": "A day", "daily_limit_usd": 10}).text("id")
	hook := b.ask("POST", "/webhooks", object1{"url": newHookListener(t).URL + "/in", "events": []string{"session.idled"}}).text("endpoint", "id")
	me := b.ask("GET", "/members", nil).at("users").list()[0].text("id")
	b.ask("POST", "/users/"+me+"/tokens", object1{"label": "Nightly"})
	pages := []struct{ path, seen string }{ // by what one must be allowed to change
		{"/sessions", "tr[data-row]"},
		{"/sessions/" + session, ".waits-for"},
		{"/sessions/" + session + "?view=files", ".empty, .filters"},
		{"/sessions/" + session + "?view=money", ".budget"},
		{"/runs", "main"},
		{"/runs/" + run.text("id"), `.thing [data-status="requires_action"]`},
		{"/agents", "tr[data-row]"},
		{"/agents/" + agent, ".agent-form input"},
		{"/agents/" + agent + "?view=versions", ".versions"},
		{"/models", "tr[data-row]"},
		{"/models?view=providers", "tr[data-row]"},
		{"/models/" + model, ".model-form input"},
		{"/models/providers/scripted", ".model-form input"},
		{"/guardrails", "tr[data-row]"},
		{"/guardrails/" + guardrail, `.thing [data-rule="pii"]`},
		{"/shields", "tr[data-row]"},
		{"/shields/" + shield, ".thing .deliveries"},
		{"/approvals/" + approval, `.thing [data-status="pending"]`},
		{"/budgets", "tr[data-row]"},
		{"/budgets/" + budget, ".thing .pairs"},
		{"/limits/" + budget, ".thing .pairs"},
		{"/webhooks", "tr[data-row]"},
		{"/webhooks/" + hook, ".thing .deliveries"},
		{"/tokens", "tr[data-row], .failure"},
		{"/members", "tr[data-row], .failure"},
		{"/members/" + me, ".thing, .failure"},
		{"/members?tab=projects", "tr[data-row], .failure"},
		{"/members?tab=groups", ".empty, .failure"},
		{"/settings", "#licence"},
	}
	const known = `document.querySelector('.rail a[href="/dashboard/guardrails"]') !== null`
	for _, page := range pages {
		b.goTo(p, "/dashboard"+page.path)
		b.see(fmt.Sprintf(`document.querySelector(%q) !== null && (%s) !== ''`, page.seen, changes))
	}

	all := object1{}
	for _, definition := range access.Definitions() {
		all[string(definition.Service)] = "read"
	}
	invited := b.ask("POST", "/members/invite", object1{"name": "Rae", "email": "rae@acme.test", "role": "project_admin"})
	b.ask("PATCH", "/members/"+invited.text("user", "id")+"/permissions", object1{"servicePermissions": all})
	b.goTo(p, "/accept-invite#token="+invited.text("invite", "token"))
	b.fill(`input[name="password"]`, goodPassword)
	b.tap(`form button[type="submit"]`)
	b.see(`location.pathname === '/dashboard' && ` + known)
	for _, page := range pages {
		before := b.asked("/api/console/v1/permissions")
		b.goTo(p, "/dashboard"+page.path)
		require.Empty(t, b.tell(fmt.Sprintf(`document.querySelector(%q) !== null && %s`, page.seen, known), changes), page.path)
		require.Equal(t, 1, b.asked("/api/console/v1/permissions")-before, page.path)
	}
	b.see(`document.querySelector('.rail a[href="/dashboard/audit"]') === null`) // owners and admins alone may read it
	b.goTo(p, "/dashboard/models/"+model)
	b.checkConsole("model-read")
}
