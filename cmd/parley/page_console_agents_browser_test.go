package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// opened is the agent or the model that is open.
const opened = `document.querySelector('.pane-thing [data-ready="true"]') !== null`

// TestConsoleAgents: somebody makes an agent, talks to it, changes it, publishes twice, goes back, calls its tools and shows its card.
func TestConsoleAgents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = w.Write([]byte("order " + request.URL.Query().Get("order") + " is on its way"))
	}))
	defer service.Close()
	b := newBrowser(t)
	p := newProcess(t, "builtin_assistant: false\noutbound: {allow: [127.0.0.0/8]}\nagents: [{id: other, name: Other, projects: [elsewhere], model: {provider: scripted}}]\n")
	p.start()
	b.register(p)
	b.goTo(p, "/dashboard/agents")
	b.see(`document.querySelector('.empty .curl code')?.textContent.includes(location.origin + '/api/client/v1/agents')`)
	b.checkConsole("agents-empty")
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	b.ask("POST", "/models", object1{
		"name": "Script", "key": "script", "providerKey": "scripted", "category": "llm", "modelId": "m",
		"pricing": object1{"inputTokenPer1M": 1, "outputTokenPer1M": 10}, "settings": object1{"script": object1{"steps": []any{object1{"text": "It is **on its way**."}}}},
	})

	b.goTo(p, "/dashboard/agents")
	b.tap("#make-first")
	b.see(`document.querySelector('dialog[open] select[name="modelKey"]')?.value === 'script'`)
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog [name="name"]').getAttribute('aria-invalid') === 'true' && document.querySelector('dialog .field .bad') !== null`)
	b.fill(`dialog [name="name"]`, "Orders")
	b.fill(`dialog [name="systemPrompt"]`, "You help with orders.")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/agents/orders') && ` + opened)

	at := b.text(`location.pathname`)
	b.tap("#play-begin")
	b.see(`document.querySelector('.playground #composer') !== null`)
	b.fill("#composer", "Where is order 7?")
	b.tap("#send")
	b.see(`document.querySelector('.playground .message.assistant strong')?.textContent === 'on its way'`)
	b.do(chromedp.EmulateViewport(390, 900)) // there is no room for both
	b.tap("#play")
	b.checkConsole("agent-playground")
	b.do(chromedp.EmulateViewport(390, 900))
	b.tap("#play")
	b.do(chromedp.EmulateViewport(1440, 900))

	b.tap("#publish")
	b.fill(`dialog [name="changelog"]`, "The first one")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog') === null && document.querySelector('.facts').textContent.includes('version 1 runs') && document.querySelector('#unpublished') === null`)

	b.see(`document.querySelectorAll('.agent-form select[name$="GuardrailKey"]').length === 2`)
	b.fill(`.agent-form [name="temperature"]`, "9")
	b.do(chromedp.Evaluate[chromedp.Void](`void document.querySelector('.agent-form [name="temperature"]').dispatchEvent(new FocusEvent('blur'))`))
	b.see(`document.querySelector('.agent-form [name="temperature"]').getAttribute('aria-invalid') === 'true'`)
	b.fill(`.agent-form [name="temperature"]`, "0.5")
	b.see(`document.querySelector('.agent-form [name="temperature"]').getAttribute('aria-invalid') !== 'true'`)
	b.fill(`.agent-form [name="tools"]`, `[{"name": "track", "url": "`+service.URL+`", "client": true}]`)
	b.tap(`.agent-form button[type="submit"]`)
	b.see(`document.querySelector('.agent-form [name="tools"]').getAttribute('aria-invalid') === 'true' && document.querySelector('dialog') === null`)
	b.checkConsole("agent-invalid")
	b.goTo(p, at+"?view=versions")
	b.tap(`.tabs a`)
	b.see(`document.querySelector('.agent-form [name="temperature"]') !== null`)
	// Typed, and left before the next frame is drawn.
	b.see(`((field, away) => field !== null && (field.value = '0.5', field.dispatchEvent(new Event('input', { bubbles: true })), away.click(), true))(
		document.querySelector('.agent-form [name="temperature"]'), document.querySelector('.tabs a:nth-child(3)'))`)
	b.see(`document.querySelector('.versions') !== null`)
	b.tap(`.tabs a`)
	b.see(`document.querySelector('.agent-form [name="temperature"]')?.value === '0.5'`) // what was typed is still there
	b.fill(`.agent-form [name="tools"]`, `[{"name": "track", "description": "Where an order is", "url": "`+service.URL+`", "method": "GET", "approval": "always", "headers": {"X-Key": "verysecret"}, "inputSchema": {"type": "object", "properties": {"order": {"type": "integer", "minimum": 1}}, "required": ["order"]}}]`)
	b.fill(`.agent-form [name="mcpServers"]`, `[{"name": "away", "url": "http://127.0.0.1:1"}]`)
	b.tap(`.agent-form button[type="submit"]`)
	require.NotContains(t, b.tell(`document.querySelector('dialog .diff ins') !== null && document.querySelector('dialog .diff').textContent.includes('config.temperature')`,
		`document.querySelector('dialog').textContent`), "verysecret")
	b.checkConsole("agent-review")
	b.tap("#save-draft")
	require.NotContains(t, b.tell(`document.querySelector('dialog') === null && document.querySelector('#unpublished') !== null`,
		`document.body.innerHTML + document.querySelector('.agent-form [name="tools"]').value`), "verysecret")

	b.goTo(p, at+"?view=tools")
	b.see(`document.querySelector('[data-tool="track"] summary') !== null`)
	b.see(`document.querySelectorAll('#dropped li').length === 1 && /All tools.*of the server “away”.*\S{3}/s.test(document.querySelector('#dropped li').textContent)`)
	b.tap(`[data-tool="track"] summary`)
	b.fill(`[data-tool="track"] [name="order"]`, "7")
	b.tap(`[data-tool="track"] button[type="submit"]`)
	b.see(`document.querySelector('dialog #confirm-yes') !== null`)
	b.tap("#confirm-yes")
	b.see(`document.querySelector('.outcome[data-outcome="ok"] pre')?.textContent.includes('order 7 is on its way')`)
	b.checkConsole("agent-tools")

	b.tap("#publish")
	b.see(`document.querySelector('dialog .diff ins') !== null`)
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog') === null && document.querySelector('.facts').textContent.includes('version 2 runs')`)
	b.goTo(p, at+"?view=versions")
	b.see(`document.querySelectorAll('.versions li').length === 2`)
	b.checkConsole("agent-versions")
	b.tap(`.compare-version[data-version="1"]`)
	b.see(`document.querySelector('dialog .diff del') !== null`)
	b.tap("#restore")
	require.NotContains(t, b.tell(`document.querySelector('dialog') === null && document.querySelector('#unpublished') !== null`,
		`document.querySelector('.pane-thing').textContent`), "track")

	b.goTo(p, at+"?view=a2a")
	b.tap("#expose")
	b.see(`document.querySelector('.copy-line code')?.textContent.endsWith('/api/client/v1/a2a/' + location.pathname.split('/').at(-1) + '/.well-known/agent-card.json') && document.querySelector('.agent-card .json') !== null`)
	b.checkConsole("agent-card")

	b.goTo(p, "/dashboard/agents?status=active")
	b.see(`document.querySelectorAll('tr[data-row]').length === 1`)
	b.checkConsole("agents")
	b.goTo(p, at)
	b.see(opened)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/agents' && document.querySelector('.empty') !== null`)

	b.tap("#make-first")
	b.tap(`dialog [name="kind"]:not(:checked)`)
	b.see(`document.querySelector('dialog [name="url"]') !== null`)
	b.fill(`dialog [name="name"]`, "Elsewhere")
	b.fill(`dialog [name="url"]`, "nowhere")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog [name="url"]').getAttribute('aria-invalid') === 'true'`)
	b.fill(`dialog [name="url"]`, service.URL)
	b.fill(`dialog [name="apiKey"]`, "sk-verysecret-2")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/agents/elsewhere') && document.querySelector('.agent-form [name="url"]') !== null`)
	require.NotContains(t, b.text(`document.body.innerHTML + [...document.querySelectorAll('input, textarea')].map((one) => one.value).join()`), "verysecret")
	b.checkConsole("agent-connected")
	b.fill(`.agent-form [name="description"]`, "Runs over there")
	b.tap(`.agent-form button[type="submit"]`)
	b.see(`document.querySelectorAll('dialog .diff > div').length === 1`) // and nothing of its key
	b.tap("#save-draft")
	b.see(`document.querySelector('dialog') === null && document.querySelector('.toast') !== null`)
	b.words()
	b.checkQuiet(p)
}

// words: every word that was asked for is in the table.
func (b *browser) words() {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`void import(` + module("dashboard/messages.js") + `).then(({ missing }) => { window.missing = [...missing].join(); })`))
	require.Empty(b.t, b.tell(`window.missing !== undefined`, `window.missing`))
}

// TestConsoleModels: a provider whose key is never shown again, a model, a call of it that fails and one that does not.
func TestConsoleModels(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	var open atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !open.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"no","code":"invalid_api_key"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`))
	}))
	defer service.Close()
	b := newBrowser(t)
	p := newProcess(t, "outbound: {allow: [127.0.0.0/8]}\n")
	p.start()
	b.register(p)
	b.goTo(p, "/dashboard/models")
	b.see(`document.querySelector('.empty .curl') !== null`)
	b.checkConsole("models-empty")
	b.goTo(p, "/dashboard/models?view=providers")
	b.tap("#make-first")
	b.fill(`dialog [name="label"]`, "House")
	b.fill(`dialog [name="baseUrl"]`, "nowhere")
	b.tap(`dialog button[type="submit"]`)
	b.see(`document.querySelector('dialog [name="baseUrl"]').getAttribute('aria-invalid') === 'true'`)
	b.fill(`dialog [name="baseUrl"]`, service.URL+"/v1")
	b.fill(`dialog [name="apiKey"]`, "sk-verysecret-1")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/models/providers/house') && document.querySelector('#credentials')?.textContent.includes('apiKey')`)
	require.NotContains(t, b.text(`document.body.innerHTML + [...document.querySelectorAll('input, textarea')].map((one) => one.value).join()`), "verysecret")
	house := b.text(`location.pathname`)
	b.checkConsole("provider")

	b.goTo(p, "/dashboard/models")
	b.tap("#make-first")
	b.fill(`dialog [name="name"]`, "Quick")
	b.fill(`dialog [name="modelId"]`, "quick-1")
	for _, c := range []struct{ category, prices string }{
		{"tts", "outputSecondPer1K inputCharacterPer1M"}, {"stt", "inputTokenPer1M outputTokenPer1M inputSecondPer1K"}, {"embedding", "inputTokenPer1M"}, {"llm", "inputTokenPer1M outputTokenPer1M cachedTokenPer1M"},
	} {
		b.choose(`dialog [name="category"]`, c.category)
		b.see(`[...document.querySelectorAll('dialog input')].map((one) => one.name).filter((name) => /Per1/.test(name)).join(' ') === ` + strconv.Quote(c.prices))
	}
	b.fill(`dialog [name="inputTokenPer1M"]`, "1")
	b.fill(`dialog [name="outputTokenPer1M"]`, "10")
	b.tap(`dialog button[type="submit"]`)
	b.see(`location.pathname.startsWith('/dashboard/models/quick') && ` + opened)
	quick := b.text(`location.pathname`)
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('.outcome[data-outcome="error"]')?.textContent.includes('invalid_api_key')`)
	b.checkConsole("model-failed")
	open.Store(true)
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('.outcome[data-outcome="ok"]').textContent.includes('9 → 1 tokens') && document.querySelector('.outcome').textContent.includes('$0.000019')`)
	b.checkConsole("model")
	b.see(`['inputGuardrailKey', 'outputGuardrailKey'].every((name) => document.querySelector('.model-form select[name="' + name + '"]') !== null)`)
	b.fill(`.model-form [name="inputTokenPer1M"]`, "-1")
	b.tap(`.model-form button[type="submit"]`)
	b.see(`document.querySelector('.model-form [name="inputTokenPer1M"]').getAttribute('aria-invalid') === 'true'`)
	b.fill(`.model-form [name="inputTokenPer1M"]`, "2")
	b.tap(`.model-form button[type="submit"]`)
	b.see(`document.querySelector('.toast') !== null`)
	b.goTo(p, quick)
	b.see(`document.querySelector('.model-form [name="inputTokenPer1M"]')?.value === '2'`)
	b.goTo(p, house)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`document.querySelector('dialog .bad') !== null`) // a model uses it
	b.tap("#confirm-no")
	b.goTo(p, "/dashboard/models")
	b.see(`document.querySelectorAll('tr[data-row]').length === 1`)
	b.checkConsole("models")
	b.goTo(p, quick)
	b.tap("#delete")
	b.tap("#confirm-yes")
	b.see(`location.pathname === '/dashboard/models' && document.querySelector('.empty') !== null`)
	b.checkSound(p)
	b.words()
	b.checkQuiet(p)
}

// checkSound: a person hears what a model makes of a text, and reads what another one hears in it.
func (b *browser) checkSound(p *process) {
	b.t.Helper()
	const sentence = "Bir ses, duyulmak için."
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	for category, pricing := range map[string]object1{"tts": {"inputCharacterPer1M": 1000}, "stt": {}} {
		id := "scripted-" + category
		b.ask("POST", "/models", object1{
			"key": id, "name": id, "providerKey": "scripted", "category": category, "modelId": id, "pricing": pricing, "settings": object1{},
		})
	}
	folder := b.keepDownloads()
	b.goTo(p, "/dashboard/models/scripted-tts")
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('#try [name="input"]').getAttribute('aria-invalid') === 'true'`)
	b.fill(`#try [name="input"]`, sentence)
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('audio')?.duration > 0.2 && document.querySelector('#try blockquote').textContent === ` + fmt.Sprintf("%q", sentence))
	b.see(`document.querySelector('#try .facts').textContent.includes('0.023')`) // of 23 characters
	b.checkConsole("model-speech")
	b.do(chromedp.Evaluate[chromedp.Void](`void document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true, bubbles: true, cancelable: true }))`))
	b.see(`document.querySelector('#palette') !== null`)
	b.fill("#palette", "scripted-stt") // a key, as any word
	b.see(`document.querySelectorAll('#palette-list li').length === 1`)
	b.tap("#palette-list li")
	b.see(`location.pathname === '/dashboard/models/scripted-stt'`)
	b.goTo(p, "/dashboard/models/scripted-tts")
	b.fill(`#try [name="input"]`, sentence)
	b.tap(`#try button[type="submit"]`)
	b.see(`document.querySelector('#try a[download]') !== null`)
	b.tap(`#try a[download]`)
	downloaded(b.t, folder, "speech.wav")

	large := filepath.Join(b.t.TempDir(), "large.wav")
	require.NoError(b.t, os.WriteFile(large, make([]byte, 2_000_001), 0o600))
	b.goTo(p, "/dashboard/models/scripted-stt")
	choose := func(file string) {
		b.do(chromedp.SetUploadFiles(`#try input[type="file"]`, []string{file}))
		b.tap(`#try button[type="submit"]`)
	}
	choose(large)
	b.see(`document.querySelector('#try [role="alert"]')?.textContent.includes('2.0 MB') && document.querySelector('.outcome') === null`)
	choose(filepath.Join(folder, "speech.wav"))
	b.see(`document.querySelector('.outcome[data-outcome="ok"] pre')?.textContent === ` + fmt.Sprintf("%q", sentence))
	b.checkConsole("model-heard")
}
