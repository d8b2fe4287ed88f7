package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
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
	b.do(wheel(-3))
	b.see(`!document.querySelector('#messages').classList.contains('follows')`)
	top := b.tell(`document.querySelector('.message.streaming .body')?.textContent.includes('line 25')`, pageTop)
	b.see(pageIdle + ` && document.querySelectorAll('.message.assistant .tools').length === 2 && !document.querySelector('#to-end').hidden`)
	require.Equal(t, top, b.tell("true", pageTop))
	b.screenshot("50-to-the-end.png")
	b.do(click("#to-end"))
	b.see(pageBelow + ` <= 1 && document.querySelector('#to-end').hidden && document.activeElement.id === 'messages'`)

	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelectorAll('.message').length === 4 && ` + pageBelow + ` <= 1 && ` + pageTop + ` > 2000`)
	b.checkQuiet(p)
}
