package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConsoleGuardrails: a person makes a guardrail, sees who names it and what it found, tries texts, changes it and deletes it; who may
// only read has no buttons for it.
func TestConsoleGuardrails(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	for _, tenant := range operate(t, p, "GET", "/tenants", nil).list() {
		operate(t, p, "PATCH", "/tenants/"+tenant.text("id"), object1{"tier": "ON_PREMISE"})
	}
	b.goTo(p, "/dashboard/guardrails")
	b.see(`document.querySelector('.pane-list .empty #make-first') !== null`)
	b.checkConsole("guardrails-empty")
	b.tap("#new-guardrail")
	b.fill(`dialog input[name="name"]`, "Secrets")
	b.tap(`dialog button[type="submit"]`)
	b.sees(`dialog form > [role="alert"]`, "at least one rule")
	b.choose(`dialog select[name="action"]`, "redact")
	b.fill(`dialog textarea[name="message"]`, "Not here.")
	for _, rule := range []string{"pii", "wordFilter", "moderation", "promptShield"} {
		b.tap(`dialog input[name="` + rule + `"]`)
	}
	b.choose(`dialog select[name="pii-phone"]`, "")
	b.choose(`dialog select[name="pii-iban"]`, "flag")
	b.fill(`dialog textarea[name="words"]`, "project falcon\n\n  quarterly  numbers ")
	b.choose(`dialog select[name="wordFilter-action"]`, "block")
	b.tap(`dialog input[name="topics-all"]`)
	b.tap(`dialog input[name="topic-weapons"]`)
	b.choose(`dialog select[name="moderation-action"]`, "warn")
	b.checkConsole("guardrails-new")
	b.tap(`dialog button[type="submit"]`)
	key := b.tell(`location.pathname.startsWith('/dashboard/guardrails/') && document.querySelector('.thing[data-ready="true"] h1')?.textContent === 'Secrets'`,
		`location.pathname.split('/').pop()`)
	made := b.ask("GET", "/guardrails/"+key, nil).at("guardrail")
	require.Equal(t, []any{"redact", "Not here.", true}, []any{made.at("action").v, made.at("message").v, made.at("enabled").v})
	require.Equal(t, decode(t, `{"pii":{"categories":{"email":"","creditCard":"","tckn":"","apiKey":"","iban":"flag"}},
		"wordFilter":{"action":"block","words":["project falcon","quarterly  numbers"]},"moderation":{"action":"warn","categories":["weapons"]},"promptShield":{}}`).v, made.at("rules").v)

	// Who names it, and what it found: in a session, of a call, and of a text that is tried.
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	railed := scriptedModel("railed")
	railed["outputGuardrailKey"] = key
	b.ask("POST", "/models", railed)
	b.ask("POST", "/models", scriptedModel("plain"))
	agent := b.ask("POST", "/agents", object1{"name": "Teller", "config": object1{"modelKey": "plain", "inputGuardrailKey": key}}).text("agent", "key")
	b.ask("POST", "/agents/"+agent+"/publish", object1{})
	b.ask("PATCH", "/agents/"+agent, object1{"config": object1{"modelKey": "plain"}}) // what is published names it still
	session := b.ask("POST", "/agents/responses", object1{"model": agent, "input": "Write to ada@example.com"}).text("session_id")
	b.goTo(p, "/dashboard/guardrails/"+key)
	b.see(`((models, agents) => models?.textContent.includes('railed') && agents?.textContent.includes('Teller') && models.querySelector('a[href="/dashboard/models/railed"]') !== null)(document.querySelector('#uses-models'), document.querySelector('#uses-agents'))`)
	b.see(`(document.querySelector('#refresh')?.click(), document.querySelector('.deliveries a[href="/dashboard/sessions/` + session + `"]') !== null)`)
	b.fill("#try-text", "About Project Falcon: bob@example.com")
	b.tap("#try-do")
	b.see(`document.querySelector('.outcome[data-outcome="error"]')?.textContent.includes('Not here.')`)
	require.Equal(t, "About Project Falcon: [REDACTED:email]", b.text(`document.querySelector('#try-left').textContent`))
	b.see(`(document.querySelector('#refresh')?.click(), document.querySelector('.deliveries [data-decision="block"]') !== null && document.querySelectorAll('.deliveries tbody tr[data-row]').length === 2)`)
	require.NotContains(t, b.text(`document.querySelector('.deliveries').textContent`), "Falcon")
	b.checkConsole("guardrail")
	b.choose("#action", "redact")
	b.see(`location.search === '?action=redact' && document.querySelectorAll('.deliveries tbody tr[data-row]').length === 1 && document.querySelector('.deliveries [data-decision="redact"]') !== null`)
	b.choose("#action", "warn")
	b.sees(".deliveries .note", "Nothing matches")

	b.tap("#edit")
	b.see(`document.querySelector('dialog select[name="pii-iban"]')?.value === 'flag' && document.querySelector('dialog textarea[name="words"]').value.startsWith('project falcon')`)
	b.fill(`dialog textarea[name="message"]`, "")
	b.tap(`dialog input[name="enabled"]`)
	b.tap(`dialog input[name="wordFilter"]`)
	b.ask("PATCH", "/guardrails/"+key, object1{"description": "Theirs"}) // somebody else, meanwhile
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog #confirm-yes') !== null && document.querySelector('.session-head [data-status="disabled"]') === null`)
	b.checkConsole("guardrail-meanwhile")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('dialog') === null && document.querySelector('.session-head [data-status="disabled"]') !== null && document.querySelector('[data-rule="wordFilter"]') === null`)
	changed := b.ask("GET", "/guardrails/"+key, nil).at("guardrail")
	require.Equal(t, []any{nil, false, nil}, []any{changed.at("message").v, changed.at("enabled").v, changed.at("rules", "wordFilter").v})
	b.fill("#try-text", "bob@example.com")
	b.tap("#try-do")
	b.sees(".outcome", "not enabled")

	b.tap("#delete")
	b.sees("dialog", "2 models and agents name it")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/guardrails' && document.querySelector('.pane-list .empty') !== null`)
	require.Empty(t, b.ask("GET", "/guardrails", nil).at("guardrails").list())
	b.goTo(p, "/dashboard/guardrails/"+key)
	b.sees(".pane-thing .failure", "Guardrail not found")

	b.checkQuiet(p)
}
