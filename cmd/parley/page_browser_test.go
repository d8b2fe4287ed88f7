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
	"github.com/chromedp/cdproto/page"
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
		failures []string
	}
}

// module is the address of a module as the page has loaded it: at another one it would be loaded again, with a state of its own.
func module(name string) string {
	return `document.querySelector('script[type=module]').src.replace(/(\/v\/[^/]+).*/, '$1/` + name + `')`
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
	// The tests look at what developers look at, unless they turn it off.
	_, err = chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `try { localStorage['parley.log'] ??= 'open'; } catch { /* a page without storage */ }`,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = chromedp.Cancel(tab) // waits for the browser's end; it may be gone already
		stopTab()
		stopAllocator()
		b.ended.Wait()
	})
	return b
}

// listen notes what the page throws, whom it asks and what of it fails, for as long as the tab lives.
func (b *browser) listen(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	exceptions := cdp.Events(b.ctx, target, runtime.ExceptionThrown) //nolint:contextcheck // as long as the tab
	requests := cdp.Events(b.ctx, target, network.RequestWillBeSent) //nolint:contextcheck // as long as the tab
	failures := cdp.Events(b.ctx, target, network.LoadingFailed)     //nolint:contextcheck // as long as the tab
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
	b.ended.Go(func() {
		for event, err := range failures {
			if err != nil {
				return
			}
			b.note(&b.mu.failures, fmt.Sprint(event.Type, " ", event.ErrorText))
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
		ctx, cancel := context.WithTimeout(b.ctx, stepTime)
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
	b.tell(expression, "true")
}

// tell waits until an expression of the page is true, and returns what another one says at the same moment: the page may draw anew
// what it shows at any time.
func (b *browser) tell(when, what string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	said, err := chromedp.Run(ctx, await(`(`+when+`) && [String(`+what+`)]`))
	if err != nil {
		b.screenshot("failed-" + strings.ReplaceAll(b.t.Name(), "/", "-") + ".png")
		b.mu.Lock()
		b.t.Logf("requests that failed: %q", b.mu.failures)
		b.mu.Unlock()
		b.t.Logf("the page says: %q", b.shown())
	}
	require.NoErrorf(b.t, err, "waiting for %s", when)
	require.Len(b.t, said, 1)
	return said[0]
}

// shown is the end of what the page shows, and the state of its parts.
func (b *browser) shown() []string {
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	said, err := chromedp.Run(ctx, await(`[document.body.innerText.slice(-1500),
		...[...document.querySelectorAll('[id][data-state]')].map((part) => part.id + ' ' + part.dataset.state),
		...[...document.querySelectorAll('#events li')].slice(-12).map((row) => row.dataset.type)]`))
	if err != nil {
		return []string{err.Error()}
	}
	return said
}

// Bounds of a step of a test: awaiting in the page, and all of it.
const (
	seeTime  = time.Minute
	stepTime = 70 * time.Second
)

// renewed is what the browser says of a document that another one has taken the place of, when it is asked in its name: chromedp has not
// heard of the new one yet. Nothing was evaluated.
const renewed = "Cannot find context with specified id"

// await evaluates an expression of the page until it has a value that is not false. What it looks into may not be there yet.
func await(expression string) chromedp.Action[[]string] {
	poll := chromedp.Poll[[]string](`(() => { try { return `+expression+`; } catch (error) { if (error.name === 'SyntaxError') throw error; return false; } })()`,
		chromedp.WithPollingTimeout(seeTime), chromedp.WithPollingInterval(50*time.Millisecond))
	return func(ctx context.Context, target *chromedp.Target) ([]string, error) {
		said, err := poll(ctx, target)
		for err != nil && ctx.Err() == nil && strings.Contains(err.Error(), renewed) {
			said, err = poll(ctx, target)
		}
		return said, err
	}
}

// once does something with the first element that a selector names, when it is there and the step says that it was done. It is one
// evaluation: between finding an element and acting on it in another one, the page may draw it anew or move it.
func once(selector, step string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := await(fmt.Sprintf(`((found) => found !== null && %s && ['done'])(document.querySelector(%q))`, step, selector))(ctx, target)
		if err != nil {
			err = fmt.Errorf("%s: %w", selector, err)
		}
		return chromedp.Void{}, err
	}
}

// click clicks what can be clicked and is covered by nothing, and leaves the focus there, as a mouse does.
func click(selector string) chromedp.Action[chromedp.Void] {
	return once(selector, `(() => {
		if (found.matches(':disabled') || !found.checkVisibility()) return false;
		found.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
		const box = found.getBoundingClientRect(), top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
		if (!found.contains(top) && top?.closest('label')?.control !== found) return false;
		found.focus();
		found.click();
		return true;
	})()`)
}

// setValue gives a field a value as a person would.
func setValue(selector, value string) chromedp.Action[chromedp.Void] {
	return once(selector, fmt.Sprintf(`(() => {
		if (found instanceof HTMLSelectElement && ![...found.options].some((one) => one.value === %[1]q)) return false;
		found.focus();
		found.value = %[1]q;
		found.dispatchEvent(new Event('input', { bubbles: true }));
		found.dispatchEvent(new Event('change', { bubbles: true }));
		return true;
	})()`, value))
}

// tap and fill are a click and a value as steps of their own.
func (b *browser) tap(selector string) {
	b.t.Helper()
	b.do(click(selector))
}

func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.do(setValue(selector, text))
}

// screenshot takes a picture for people, where they ask for them by PARLEY_SCREENSHOTS.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	if os.Getenv("PARLEY_SCREENSHOTS") != "" {
		b.picture(name)
	}
}

// picture returns a picture, and keeps it in PARLEY_SCREENSHOTS.
func (b *browser) picture(name string) []byte {
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
	b.do(chromedp.SendKeys("#text", text), click("#send"))
}

const pageAgents = `
agents:
  - id: slow
    name: Slow counter
    model: {provider: scripted, script: {tokens: 60, token_interval: 150ms}}
`

// longAgent is one more agent. Its turn lasts 18 seconds: a page on a busy machine shows the eighth word seconds after it was said, and the turn is
// to be under way still when the node is killed then.
const longAgent = `  - id: long
    name: Long counter
    model: {provider: scripted, script: {tokens: 60, token_interval: 300ms}}
`

// TestPage is the playground in a real browser: a streamed answer, the event log, a stop, and a server that is killed
// in mid-answer and started again.
func TestPage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageAgents+longAgent)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	const loaded = `performance.getEntriesByType('resource').filter(({ name, transferSize }) => name.includes('/v/') && transferSize > 0)`
	require.LessOrEqual(t, b.number(`performance.getEntriesByType('navigation')[0].encodedBodySize + `+loaded+`.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`), 90_000.0)
	b.screenshot("1-welcome.png")

	b.newConversation("assistant")
	b.say("Hello! What is Parley?")
	b.see(`document.querySelector('.message.streaming') !== null && document.querySelector('.message.streaming').textContent.length > 20`)
	b.screenshot("2-streaming.png")
	b.see(`document.querySelector('#status').dataset.state === 'idle' && document.querySelectorAll('.message.assistant').length === 1`)
	b.see(`['user.message', 'session.status_running', 'agent.message', 'session.status_idle'].every((type) => document.querySelector('#events li[data-type="' + type + '"]'))`)
	b.see(`document.querySelectorAll('.message.user').length === 1 && document.querySelector('.message.streaming') === null`)
	b.screenshot("3-answered.png")

	b.newConversation("long")
	b.say("Count, please")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w5')`)
	b.do(click("#stop"))
	b.see(`document.querySelector('#status').dataset.state === 'idle' && document.querySelector('.message.assistant:last-child .outcome')?.textContent === 'Stopped.'`)
	b.screenshot("4-stopped.png")

	b.say("Once more")
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w8')`)
	p.kill()
	b.see(`document.querySelector('#link').dataset.state === 'retry'`)
	b.screenshot("5-server-gone.png")
	p.start()
	b.see(`document.querySelector('#link').dataset.state === 'live' && document.querySelector('#events li[data-type="session.recovered"]') !== null`)
	b.see(`document.querySelector('#status').dataset.state === 'idle' && [...document.querySelectorAll('.message.assistant')].pop().textContent.includes('w60')`)
	picture := b.picture("6-recovered.png")

	b.do(chromedp.Reload())
	b.see(`document.body.dataset.ready === 'true' && document.querySelectorAll('.message.user').length === 2`)
	require.Zero(t, b.number(loaded+`.length`), "a reload asks for the page alone")
	b.see(`document.querySelectorAll('#list li').length === 2`)
	b.do(setValue("#title", "Counting"))
	b.see(`document.querySelector('#list').textContent.includes('Counting')`)
	b.do(click("#delete"))
	b.see(`document.querySelector('#confirm').open && document.querySelector('#confirm-text').textContent.includes('“Counting”')`)
	b.do(click("#confirm-no")) // it asks, and takes no for an answer
	b.see(`!document.querySelector('#confirm').open && document.activeElement.id === 'delete' && document.querySelectorAll('#list li').length === 2`)
	b.do(click("#delete"))
	b.see(`document.querySelector('#confirm').open`)
	b.do(click("#confirm-yes"))
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
		own := strings.HasPrefix(strings.TrimPrefix(url, "blob:"), "http://"+p.listen+"/") // of a blob it made itself
		require.Truef(b.t, own || strings.HasPrefix(url, "data:"), "the page asked %s", url)
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
	t.Parallel()
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

// TestStepsOfABrowser: a step takes an element as it is at that moment, on a page that draws it anew, elsewhere, all the time; what is
// covered is not clicked until it is free.
func TestStepsOfABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	b.do(chromedp.Navigate("about:blank"), chromedp.Evaluate[chromedp.Void](`void (window.clicks = 0, window.draw = () => {
		const button = document.createElement('button'), field = document.createElement('input');
		button.id = 'go'; button.textContent = 'Go'; button.style = 'position: fixed; left: ' + Math.random() * 900 + 'px; top: 300px';
		button.onclick = () => { window.clicks++; };
		field.id = 'field'; field.onchange = () => { window.wrote = field.value; };
		document.body.replaceChildren(button, field);
	}, window.drawing = setInterval(draw, 1))`))
	const times = 30
	for range times {
		b.do(click("#go"))
	}
	b.do(setValue("#field", `"a"`))
	require.Equal(t, fmt.Sprint(times, ` "a"`), b.tell(`document.querySelector('#go') !== null`, `window.clicks + ' ' + window.wrote`))

	b.do(chromedp.Evaluate[chromedp.Void](`void (clearInterval(drawing), draw(), window.clicks = 0, window.covered = 0, window.cover = document.createElement('div'),
		cover.style = 'position: fixed; inset: 0', document.elementFromPoint = ((look) => (...at) => { if (++window.covered === 3) cover.remove(); return look(...at); })(document.elementFromPoint.bind(document)),
		document.body.append(cover))`))
	b.do(click("#go"))
	require.Equal(t, "1 3", b.tell(`true`, `window.clicks + ' ' + window.covered`))
}
