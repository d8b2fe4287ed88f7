package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// pageLong is an agent whose answers are longer than a window.
func pageLong() string {
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, `line %d\n\n`, i)
	}
	return fmt.Sprintf(`
agents:
  - id: long
    model: {provider: scripted, script: {text: "%sthe end", token_interval: 20ms}}
`, text.String())
}

const (
	pageBelow = `((box) => Math.round(box.scrollHeight - box.clientHeight - box.scrollTop))(document.querySelector('#messages'))`
	pageTop   = `Math.round(document.querySelector('#messages').scrollTop)`
)

// wheel turns the wheel over the messages.
func wheel(by float64) chromedp.Action[chromedp.Void] {
	return chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, 700, 400, func(p *input.DispatchMouseEventParams) {
		p.DeltaX, p.DeltaY = 1e-3, by // none is left out where it is 0, which is refused
	})
}

// TestPageIsReadInPeace: the view is at the end of a long answer when it ends, stays where the reader turned while it grows and when it
// ends, and goes to the end again when it is told to.
func TestPageIsReadInPeace(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageLong())
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("long")
	b.say("Go")
	b.see(pageTop + ` > 300 && document.querySelector('.message.streaming') !== null && ` + pageBelow + ` <= 1`)
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.body = document.querySelector('.message.streaming .body'))`))
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.tools') !== null && ` + pageTop + ` > 1000 && ` + pageBelow + ` <= 1 && document.querySelector('#to-end').hidden`)
	b.see(`window.body.isConnected && window.body.lastChild.textContent === 'the end'`) // what was drawn of the answer is the answer

	b.say("Again")
	b.see(`document.querySelector('.message.streaming .body')?.textContent.includes('line 20')`)
	const step = 3
	b.do(wheel(-step))
	b.see(`!document.querySelector('#messages').classList.contains('follows')`)
	b.see(`document.querySelector('.message.streaming .body')?.textContent.includes('line 25')`)
	top := b.number(pageTop) // before or after the step itself: the browser scrolls some frames before or after the page hears of it
	b.see(pageIdle + ` && document.querySelectorAll('.message.assistant .tools').length === 2 && !document.querySelector('#to-end').hidden`)
	require.InDelta(t, top, b.number(pageTop), step)
	b.screenshot("50-to-the-end.png")
	b.do(click("#to-end"))
	b.see(pageBelow + ` <= 1 && document.querySelector('#to-end').hidden && document.activeElement.id === 'messages'`)

	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelectorAll('.message').length === 4 && ` + pageBelow + ` <= 1 && ` + pageTop + ` > 2000`)
	b.checkQuiet(p)
}

// pageYardstick counts the frames of a page from its first moment on, and what people wait for: it is told, and decides nothing.
const pageYardstick = `
window.drawn = 0; window.longest = 0; window.found = 0;
(function count() { window.drawn++; requestAnimationFrame(count); })();
new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration); }).observe({ type: 'longtask' });
new MutationObserver(() => { window.found ||= document.querySelector('.message .body') ? performance.now() : 0; }).observe(document, { childList: true, subtree: true });`

// layouts is how often the page that is open was laid out so far.
func (b *browser) layouts() float64 {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	require.NoError(b.t, err)
	for _, metric := range result.Metrics {
		if metric.Name == "LayoutCount" {
			return metric.Value
		}
	}
	b.t.Fatal("the browser counts no layouts")
	return 0
}

// number is what an expression of the page says now.
func (b *browser) number(expression string) float64 {
	b.t.Helper()
	value, err := strconv.ParseFloat(b.tell("true", expression), 64)
	require.NoError(b.t, err)
	return value
}

// TestPageOfALongConversation: the newest messages are shown at once, earlier ones on demand, and those stay when something new is said.
// Opening lays out the page with its frames, not with its rows; a log that was closed stays closed and has none; a huge message is folded.
func TestPageOfALongConversation(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	const sends = 102
	b := newBrowser(t)
	p := newProcess(t, testAgents)
	p.start()
	id := p.create("quick")
	for i := range sends {
		text := fmt.Sprintf("number %d", i)
		if i == sends-2 {
			text = strings.Repeat("a long story\n\n", 3000)
		}
		status, _ := p.try("POST", p.url("/conversations/"+id+"/messages"), map[string]any{"message": text})
		require.Equal(t, http.StatusOK, status)
	}
	_, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: pageYardstick})
	require.NoError(t, err)
	b.do(chromedp.Navigate("http://" + p.listen + "/#" + id + "&user=ada"))
	b.see(pageReady + ` && document.querySelectorAll('.message .body').length === 200 && document.querySelectorAll('#events li').length === 408 && ` + pageBelow + ` <= 1`)
	layouts, frames := b.layouts(), b.number("window.drawn")
	t.Logf("opening: %v layouts in %v frames, first message after %.0f ms, longest task %.0f ms (0 = under 50)", layouts, frames, b.number("window.found"), b.number("window.longest"))
	require.Less(t, layouts, 2*frames+60, "a layout for each row would be more than 600")
	const folded = `[...document.querySelectorAll('.message.user')].at(-2)`
	require.Less(t, b.number(folded+`.querySelector('.body').textContent.length`), 5000.0)
	b.press(folded + `.querySelector('.unfold')`)
	b.see(folded + `.querySelector('.body').textContent.length === 42000 && ` + folded + `.querySelector('.unfold') === null`)

	b.do(click("#log-toggle"))
	b.see(`document.querySelectorAll('#events li').length === 0`)
	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelectorAll('.message .body').length === 200 && document.querySelector('.earlier') !== null`)
	t.Logf("opening, log closed: first message after %.0f ms, longest task %.0f ms", b.number("window.found"), b.number("window.longest"))
	require.Zero(t, b.number(`document.querySelectorAll('#events li').length`))
	b.press(`document.querySelector('.earlier')`)
	b.see(`document.querySelectorAll('.message .body').length === 204 && document.querySelector('.earlier') === null`)
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.longest = 0)`))
	b.say("and one more")
	said := b.tell(pageIdle+` && document.querySelectorAll('.message .body').length === 206 && `+lastAnswer+`.querySelector('.tools')?.textContent.includes('3 → 5 tokens')`,
		`document.querySelector('.message .body').textContent + ', ' + `+lastSaid+`.querySelector('.body').textContent`)
	require.Equal(t, "number 0, and one more", said)
	t.Logf("an answer: longest task %.0f ms", b.number("window.longest"))
	b.see(pageBelow + ` <= 1`)
	b.do(click("#log-toggle"))
	b.see(`document.querySelectorAll('#events li').length >= 412`)
	b.checkQuiet(p)
}

// TestPageTellsWhatBecame: why a turn failed, was stopped, and what a person decided stays in the transcript and in the list, in words,
// whoever looks later.
func TestPageTellsWhatBecame(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents+`
  - id: rolling
    model: {provider: scripted, script: {steps: [{tool_calls: [{name: roll_dice, arguments: {min: 1, max: 1}}]}, {text: "So be it."}]}}
    tools: [{name: roll_dice, builtin: random_number, approval: always}]
`)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	twice := func(expression string) { // now, and after a reload
		t.Helper()
		b.see(expression)
		b.do(chromedp.Reload())
		b.see(pageReady + ` && ` + expression)
	}

	b.newConversation("broken")
	b.say("Try")
	twice(pageIdle + ` && document.querySelectorAll('.outcome').length === 1 && document.querySelector('.message .outcome.bad').textContent === 'The answer failed. The model broke.'
		&& document.querySelector('#status').textContent === 'failed' && document.querySelector('#list .failed').textContent === 'failed'`)
	b.screenshot("51-failed.png")

	b.newConversation("slow")
	b.say("Count")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w3')`)
	b.do(click("#stop"))
	twice(pageIdle + ` && document.querySelectorAll('.outcome').length === 1 && ` + lastAnswer + `.querySelector('.outcome').textContent === 'Stopped.'
		&& document.querySelector('#status').textContent === 'stopped' && document.querySelectorAll('#list .stopped').length === 1`)

	b.newConversation("rolling")
	b.say("Roll the dice")
	b.see(pageWaiting + ` && document.title.startsWith('● Waits for you')`)
	b.do(setValue(".action .why", "not today"), click(".action .deny"))
	twice(pageIdle + ` && ` + lastAnswer + `.querySelector('.call summary')?.textContent === 'roll_dice · denied: “not today”'
		&& document.querySelector('#status').textContent === 'idle' && !document.title.includes('Waits')`)
	b.say("And now?")
	b.see(pageWaiting)
	b.do(click(".action .allow"))
	twice(pageIdle + ` && document.querySelectorAll('.message').length === 4 && ` + lastAnswer + `.querySelector('.call summary')?.textContent === 'roll_dice · allowed ✓'`)
	b.screenshot("52-decided.png")
	b.checkQuiet(p)
}
