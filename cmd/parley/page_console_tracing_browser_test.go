package main

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestConsoleTracing: what a program reported is read as a waterfall, whatever its texts and spans are; a run of ours leads to its session
// and back.
func TestConsoleTracing(t *testing.T) {
	t.Parallel()
	b, p := consoleOf(t)
	b.goTo(p, "/dashboard/tracing")
	b.see(`document.querySelector('.empty') !== null`)

	const thread, agent = `ticket <b>7</b>`, `<img src="x" onerror="document.title='ran'">`
	b.ask("POST", "/tracing/sessions", object1{"sessionId": "s1", "threadId": thread, "agent": object1{"name": agent}, "startedAt": "2026-01-02T03:04:05Z", "events": []object1{
		{
			"id": "tool", "type": "tool_call", "toolName": "search", "timestamp": "2026-01-02T03:34:08Z", "durationMs": 700, "spanId": "t", "parentSpanId": "root", "status": "error", "error": "it <i>broke</i>",
			"toolDetails": object1{"arguments": object1{"order": 1182}, "result": "nothing"},
		},
		{
			"id": "chat", "type": "llm_call", "label": "chat", "model": "m1", "timestamp": "2026-01-02T03:04:06Z", "durationMs": 2100, "spanId": "c", "parentSpanId": "root", "inputTokens": 1204, "outputTokens": 88,
			"sections": []object1{{"label": "Prompt", "content": "<script>document.title='ran'</script>"}},
		},
		{"id": "root", "label": "invoke_agent", "timestamp": "2026-01-02T03:04:05Z", "durationMs": 1_804_000, "spanId": "root"},
		{"id": "x", "label": "circle", "spanId": "x", "parentSpanId": "y"},
		{"id": "y", "label": "circle", "spanId": "y", "parentSpanId": "x"},
	}})
	b.ask("POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	ours := b.agentOf("Refunds", object1{"steps": []any{object1{"text": "Done."}}}, object1{})
	session := b.ask("POST", "/agents/sessions", object1{"agent": ours}).text("id")
	b.ask("POST", "/agents/responses", object1{"model": ours, "input": "hi", "session_id": session})

	b.goTo(p, "/dashboard/tracing")
	b.see(`document.querySelectorAll('.pane-list tbody tr[data-row]').length === 2 && document.querySelector('.numbers strong') !== null`)
	b.checkConsole("tracing")
	b.press(fmt.Sprintf(`document.querySelector('.pane-list tr[data-id=%q] a')`, thread))
	b.see(`document.querySelector('.session[data-ready="true"]')?.dataset.spans === '5' && document.querySelector('.folded') !== null`)
	b.sees(".session-head h1", agent)
	b.see(`document.querySelector('.bar-row[data-state="bad"] .bar-name').textContent.includes('search')`)
	b.see(`[...document.querySelectorAll('.bar-row')].map((row) => row.dataset.seq).join() === '3,2,1,4,5'`)
	b.press(`document.querySelector('.bar-row[data-seq="2"]')`)
	b.sees(".detail", "document.title")
	b.sees(".detail", "1204→88")
	b.do(chromedp.Focus(".bars"), chromedp.KeyEvent(kb.ArrowDown))
	b.see(`new URLSearchParams(location.search).get('event') === '1' && document.querySelector('.detail[data-seq="1"] .json').textContent.includes('1182')`)
	b.sees(".detail", "it <i>broke</i>")
	b.checkConsole("tracing-session")
	b.see(`document.title !== 'ran' && document.querySelector('.pane-thing :is(img, script), .detail i, .session-head b') === null`)

	var many []object1 // of which each is within the one before
	for i := range 5000 {
		many = append(many, object1{"id": fmt.Sprint(i), "label": fmt.Sprint("step ", i), "spanId": fmt.Sprint(i), "parentSpanId": fmt.Sprint(i - 1), "timestamp": 1_767_323_045_000 + i, "durationMs": 5000 - i})
	}
	b.ask("POST", "/tracing/sessions", object1{"sessionId": "s2", "threadId": thread, "events": many})
	b.goTo(p, "/dashboard/tracing/"+url.PathEscape(thread))
	b.see(`document.querySelectorAll('.thing tbody tr[data-row]').length === 2`)
	b.checkConsole("tracing-thread")
	b.tap(`.thing tr[data-id="reported s2"] a`)
	b.see(`document.querySelector('.session[data-ready="true"]')?.dataset.spans === '5000' && document.querySelectorAll('.bar-row').length < 100`)
	b.do(chromedp.Focus(".bars"), chromedp.KeyEvent(kb.End))
	b.sees(".detail h2", "step 4999")
	b.tap("#all")

	b.goTo(p, "/dashboard/tracing/"+session)
	b.see(`document.querySelector('#conversation') !== null`)
	b.tap(`.thing tr[data-row="0"] a`)
	b.see(fmt.Sprintf(`location.pathname === '/dashboard/sessions/%s' && document.querySelector('.bar-row[data-seq="2"][aria-current]') !== null`, session))
	b.tap("#trace")
	b.see(fmt.Sprintf(`location.pathname === '/dashboard/tracing/%s' && document.querySelector('.thing[data-ready="true"]') !== null`, session))

	asks := b.agentOf("Asks", object1{"steps": []any{object1{"toolCalls": []any{object1{"name": "clock", "arguments": `{}`}}}}},
		object1{"tools": []any{object1{"name": "clock", "builtin": "current_time", "approval": "always"}}})
	b.ask("POST", "/agents/responses", object1{"model": asks, "input": "hi", "session_id": b.ask("POST", "/agents/sessions", object1{"agent": asks}).text("id")})
	b.goTo(p, "/dashboard/tracing")
	b.see(`[...document.querySelectorAll('.numbers strong')].slice(2).map((count) => count.textContent).join() === '0,1'`) // none runs, one waits
	b.checkQuiet(p)
}
