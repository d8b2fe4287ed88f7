package main

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const (
	pollTime  = 30 * time.Second
	pollEvery = 50 * time.Millisecond
)

// TestPageByKeyboard: Esc stops and closes, Ctrl K searches, focus goes on after a decision; what an answer cost is told;
// and a node that is alone is asked for the cluster once.
func TestPageByKeyboard(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("demo")
	b.say("Tell me a long story")
	b.see(`document.querySelector('.message.streaming')?.textContent.length > 40`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.see(pageIdle + ` && document.querySelector('.message.assistant .outcome')?.textContent === 'Stopped.'`)

	b.say("Roll the dice")
	b.see(pageWaiting)
	b.do(chromedp.Focus(".action .deny"), chromedp.KeyEvent(kb.Enter))
	b.see(`document.querySelectorAll('.action').length === 0 && document.activeElement.id === 'text'`)
	b.see(pageIdle + ` && /^\d+ → \d+ tokens · \$0\.\d+$/.test(` + lastAnswer + `.querySelector('.cost')?.textContent)`)
	b.see(`document.querySelector('#spoken').textContent.length > 10 && document.querySelector('#messages').getAttribute('aria-live') === 'off'`)
	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelectorAll('.cost.exact').length === 2`) // the log tells it again

	b.do(chromedp.KeyEvent("n")) // not in a field: nothing happens
	b.newConversation("demo")
	b.do(chromedp.KeyEvent("x"), chromedp.KeyEvent(kb.Enter)) // New leaves the focus in the composer
	b.see(pageIdle + ` && document.querySelectorAll('#list li').length === 2`)
	b.do(setValue("#title", "Zebra"))
	b.see(`document.querySelector('#list').textContent.includes('Zebra')`)
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.see(`document.activeElement.id === 'search'`)
	b.do(chromedp.KeyEvent("zeb"))
	b.see(`document.querySelectorAll('#list li').length === 1`)
	b.do(chromedp.KeyEvent("q"))
	b.see(`document.querySelectorAll('#list li').length === 0 && document.querySelector('#list-note').textContent.includes('No title')`)
	b.do(chromedp.Evaluate[chromedp.Void](`history.back()`)) // every place has an address
	b.see(`document.querySelectorAll('.message').length === 0 && location.hash === ''`)
	b.checkList()

	b.do(chromedp.EmulateViewport(360, 740))
	b.do(click("#side-toggle"))
	b.see(`document.querySelector('.side').checkVisibility() && document.querySelector('#side-toggle').getAttribute('aria-expanded') === 'true'`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.see(`!document.querySelector('.side').checkVisibility() && document.activeElement.id === 'side-toggle' && document.documentElement.scrollWidth <= 360`)
	b.checkQuiet(p)
	require.Equal(t, 3, b.asked("/cluster.json"), "once, and once after each reload")
}

// checkList: a search finds what messages say, a row has a menu, days are headings, New has an agent of its own; and what developers look
// at, and the theme, are chosen once.
func (b *browser) checkList() {
	b.t.Helper()
	b.fill("#search", "story")
	b.see(`document.querySelector('#list-note').textContent.includes('messages of the open conversation')`)
	b.fill("#search", "")
	b.see(`document.querySelectorAll('#list li').length === 2 && document.querySelectorAll('#list .day').length === 1 && document.querySelector('#list .day').textContent === 'Today'`)
	b.tap("#list li:last-child .open")
	b.see(`document.querySelectorAll('.message').length === 4 && document.querySelector('#with').textContent === 'with Demo'`)
	b.fill("#search", "long story")
	b.tap("#list .hit")
	b.see(`document.querySelector('#list .hit').textContent.includes('Tell me a long story')`)
	b.fill("#search", "")
	b.do(setValue("#agent", "assistant"))
	b.see(`document.querySelector('#with').textContent === 'with Demo'`)

	b.do(chromedp.Focus("#list li:last-child .row-menu"), chromedp.KeyEvent(kb.Enter))
	b.see(`document.querySelector('#list li:last-child .row-menu').getAttribute('aria-expanded') === 'true'`)
	b.tap("#list li:last-child [data-deed=rename]")
	b.see(`document.querySelector('#rename').open`)
	b.fill("#rename-text", "Dice")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.see(`!document.querySelector('#rename').open && document.querySelector('#list').textContent.includes('Dice') && document.querySelector('#title').value === 'Dice' && document.querySelector('.row-deeds') === null`)

	b.see(`document.querySelector('.cost.exact').checkVisibility()`)
	b.tap("#log-toggle")
	b.see(`!document.querySelector('.cost.exact').checkVisibility() && /^(under 1 cent|\$\d+\.\d\d)$/.test(document.querySelector('.cost:not(.exact)').textContent)`)
	b.tap("#settings-button")
	b.fill("#theme", "dark")
	b.see(`getComputedStyle(document.body).colorScheme === 'dark'`)
	b.screenshot("48-dark.png")
	b.tap("#settings .close")
	b.do(chromedp.Reload())
	b.see(pageReady + ` && getComputedStyle(document.body).colorScheme === 'dark' && !document.querySelector('.log').checkVisibility() && !document.querySelector('#served').checkVisibility()`)
	b.tap("#log-toggle")
}

// asked is how often the page asked for something.
func (b *browser) asked(path string) (times int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.mu.requests {
		if strings.Contains(url, path) {
			times++
		}
	}
	return times
}

// TestPageAsksWhoYouAre: where there is authentication the page asks for the token, keeps it for the tab only, and asks
// again when it is refused; what was written stays.
func TestPageAsksWhoYouAre(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents+`
auth:
  enabled: true
  provider: static
  tokens: [{token: tok-a, user_id: alice}]
`)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(`document.querySelector('#signin').open && document.querySelector('#signin-why').hidden && document.activeElement.id === 'signin-token'`)
	b.screenshot("45-signin.png")
	b.do(chromedp.SendKeys("#signin-token", "tok-wrong"), click("#signin-yes"))
	b.see(`document.querySelector('#signin').open && !document.querySelector('#signin-why').hidden && document.querySelector('#signin-token').value === ''`)
	b.do(chromedp.SendKeys("#signin-token", "tok-a"+kb.Enter))
	b.see(pageReady + ` && !document.querySelector('#signin').open`)
	require.NotContains(t, b.text(`JSON.stringify(localStorage)`), "tok-")
	require.Equal(t, "tok-a", b.text(`sessionStorage.getItem('parley.token')`))
	b.newConversation("quick")
	b.say("hello")
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2`)

	const expire = `(sessionStorage.setItem('parley.token', 'tok-old'), document.querySelector('#composer').requestSubmit())`
	b.do(chromedp.SendKeys("#text", "still me"), chromedp.Evaluate[chromedp.Void](expire))
	b.see(`document.querySelector('#signin').open && document.querySelector('#text').value === 'still me'`)
	b.do(chromedp.SendKeys("#signin-token", "tok-a"), click("#signin-yes"))
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 4 && ` + pageSent)

	b.do(chromedp.SendKeys("#text", "not now"), chromedp.Evaluate[chromedp.Void](expire))
	b.see(`document.querySelector('#signin').open`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.see(`!document.querySelector('#signin').open && document.querySelector('#text').value === 'not now' && !document.querySelector('#toast').hidden`)
	for url := range strings.SplitSeq(b.text(`performance.getEntriesByType('resource').map((entry) => entry.name).join('\n')`), "\n") {
		require.NotContains(t, url, "tok-")
	}
	b.checkQuiet(p)
}
