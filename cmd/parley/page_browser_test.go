package main

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium on an empty profile.
type browser struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // chromedp's way: the context is the tab
	ended sync.WaitGroup
	mu    struct {
		sync.Mutex
		errors   []string
		requests []string
	}
}

func newBrowser(t *testing.T, extra ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	binary, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium in PATH: `make browser` installs it, and `make test` does so by itself")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(t.TempDir()))
	options = append(append(options, deafened(binary)...), extra...)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	tab, stopTab := chromedp.NewContext(allocator)
	b := &browser{t: t, ctx: tab}
	_, err = chromedp.Run(tab, b.listen)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for the browser's end; it may be gone already
		stopTab()
		stopAllocator()
		b.ended.Wait()
	})
	return b
}

// listen notes what the page throws and whom it asks, for as long as the tab lives.
func (b *browser) listen(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	exceptions := cdp.Events(b.ctx, target, runtime.ExceptionThrown) //nolint:contextcheck // as long as the tab
	requests := cdp.Events(b.ctx, target, network.RequestWillBeSent) //nolint:contextcheck // as long as the tab
	if _, err := cdp.Call(ctx, target, runtime.Enable, cdp.Empty{}); err != nil {
		return chromedp.Void{}, err
	}
	_, err := cdp.Call(ctx, target, network.Enable, network.EnableParams{})
	b.ended.Go(func() {
		for event, err := range exceptions {
			if err != nil {
				return
			}
			b.note(&b.mu.errors, fmt.Sprint(event.ExceptionDetails))
		}
	})
	b.ended.Go(func() {
		for event, err := range requests {
			if err != nil {
				return
			}
			b.note(&b.mu.requests, event.Request.URL)
		}
	})
	return chromedp.Void{}, err
}

func (b *browser) note(list *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, text)
}

// redrawn is what the browser says of an element that the page drew anew between finding it and acting on it: nothing
// was done with it yet.
const redrawn = "Could not find node with given id"

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		ctx, cancel := context.WithTimeout(b.ctx, 70*time.Second)
		_, err := chromedp.Run(ctx, action)
		for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), redrawn) {
			_, err = chromedp.Run(ctx, action)
		}
		cancel()
		require.NoError(b.t, err)
	}
}

// see waits until an expression of the page is true.
func (b *browser) see(expression string) {
	b.t.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		b.screenshot("failed-" + b.t.Name() + ".png")
	}
	require.NoErrorf(b.t, err, "waiting for %s", expression)
}

// screenshot keeps a picture for people in PARLEY_SCREENSHOTS, and returns it.
func (b *browser) screenshot(name string) []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Logf("screenshot: %v", err)
		return nil
	}
	if dir := os.Getenv("PARLEY_SCREENSHOTS"); dir != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), picture, 0o600))
	}
	return picture
}

func (b *browser) say(text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys("#text", text))
	b.click("#send")
}

const pageAgents = `
agents:
  - id: slow
    name: Slow counter
    model: {provider: scripted, script: {tokens: 60, token_interval: 150ms}}
`

// TestPage is the playground in a real browser: a streamed answer, the event log, a stop, and a server that is killed
// in mid-answer and started again.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageAgents)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.screenshot("1-welcome.png")

	b.newConversation("assistant")
	b.say("Hello! What is Parley?")
	b.see(`document.querySelector('.message.streaming') !== null && document.querySelector('.message.streaming').textContent.length > 20`)
	b.screenshot("2-streaming.png")
	b.see(`document.querySelector('#status').dataset.state === 'idle' && document.querySelectorAll('.message.assistant').length === 1`)
	b.see(`['user.message', 'session.status_running', 'agent.message', 'session.status_idle'].every((type) => document.querySelector('#events li[data-type="' + type + '"]'))`)
	b.see(`document.querySelectorAll('.message.user').length === 1 && document.querySelector('.message.streaming') === null`)
	b.screenshot("3-answered.png")

	b.newConversation("slow")
	b.say("Count, please")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w5')`)
	b.click("#stop")
	b.see(`document.querySelector('#status').dataset.state === 'idle' && [...document.querySelectorAll('.notice')].some((n) => n.textContent.includes('Stopped'))`)
	b.screenshot("4-stopped.png")

	b.say("Once more")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w8')`)
	p.kill()
	b.see(`document.querySelector('#link').dataset.state === 'retry'`)
	b.screenshot("5-server-gone.png")
	p.start()
	b.see(`document.querySelector('#link').dataset.state === 'live' && document.querySelector('#events li[data-type="session.recovered"]') !== null`)
	b.see(`document.querySelector('#status').dataset.state === 'idle' && [...document.querySelectorAll('.message.assistant')].pop().textContent.includes('w60')`)
	picture := b.screenshot("6-recovered.png")

	b.do(chromedp.Reload())
	b.see(`document.body.dataset.ready === 'true' && document.querySelectorAll('.message.user').length === 2`)
	b.see(`document.querySelectorAll('#list li').length === 2`)
	b.do(chromedp.SetValue("#title", "Counting"), chromedp.Evaluate[chromedp.Void](`document.querySelector('#title').dispatchEvent(new Event('change'))`))
	b.see(`document.querySelector('#list').textContent.includes('Counting')`)
	b.click("#delete")
	b.see(`document.querySelector('#confirm').open && document.querySelector('#confirm-text').textContent.includes('“Counting”')`)
	b.click("#confirm-no") // it asks, and takes no for an answer
	b.see(`!document.querySelector('#confirm').open && document.activeElement.id === 'delete' && document.querySelectorAll('#list li').length === 2`)
	b.click("#delete")
	b.see(`document.querySelector('#confirm').open`)
	b.click("#confirm-yes")
	b.see(`document.querySelectorAll('#list li').length === 1 && location.hash === '' && document.activeElement.id === 'text'`)
	b.checkQuiet(p)
	checkPicture(t, picture)
}

// checkQuiet: the page threw nothing and asked nobody but its own server.
func (b *browser) checkQuiet(p *process) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.mu.errors)
	for _, url := range b.mu.requests {
		require.Truef(b.t, strings.HasPrefix(url, "http://"+p.listen+"/") || strings.HasPrefix(url, "data:"), "the page asked %s", url)
	}
}

// checkPicture: the page is drawn, not blank.
func checkPicture(t *testing.T, picture []byte) {
	t.Helper()
	image, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	colors := map[uint32]bool{}
	bounds := image.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 3 {
		for x := bounds.Min.X; x < bounds.Max.X; x += 3 {
			r, g, b, _ := image.At(x, y).RGBA()
			colors[r>>8<<16|g>>8<<8|b>>8] = true
		}
	}
	require.Greater(t, len(colors), 50, "a drawn page has many colors")
}

// TestDocsPage: the API documentation opens in a browser without the network.
func TestDocsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.do(chromedp.Navigate(p.url("/docs")))
	b.see(`document.querySelectorAll('.opblock').length >= 10`)
	b.screenshot("7-docs.png")
	b.do(chromedp.Navigate("http://" + p.listen + "/api/client/v1/docs"))
	b.see(`document.querySelectorAll('.opblock').length >= 30`)
	b.checkQuiet(p)
}
