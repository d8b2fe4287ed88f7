package main

import (
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestReadmePicture takes the picture of the page for README.md: make picture.
func TestReadmePicture(t *testing.T) {
	t.Parallel()
	to := os.Getenv("PARLEY_PICTURE")
	if to == "" {
		t.Skip("make picture takes the picture of README.md anew")
	}
	b := newBrowser(t, chromedp.WindowSize(1200, 940))
	p := newProcess(t, "")
	p.start()
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `localStorage['parley.log'] = 'closed'`,
	})
	require.NoError(t, err)
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("assistant")
	b.say("Hello! What is Parley?")
	b.see(pageIdle + ` && document.querySelectorAll('.message.assistant').length === 1`)
	b.newConversation("demo")
	b.say("Ask me a question")
	b.see(pageWaiting)
	b.do(click(".action input[value=Coffee]"), click(".action .answer"))
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.body ~ .body') !== null`)
	b.say("Roll the dice")
	b.see(pageWaiting + ` && document.querySelector('.action').textContent.includes('May I roll the dice?')`)
	taken, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: "webp", Quality: new(int64(85))})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, taken.Data, 0o600))
}
