package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const (
	pageIdle    = `document.querySelector('#status').dataset.state === 'idle' && document.querySelector('.message.streaming') === null`
	pageWaiting = `document.querySelector('#status').dataset.state === 'waiting' && document.querySelectorAll('.action').length === 1`
	lastAnswer  = `[...document.querySelectorAll('.message.assistant')].pop()`
	lastSaid    = `[...document.querySelectorAll('.message.user')].pop()`
)

// TestPageOfPeople is the built-in agent `demo` on the page, as a person tries it: an approval that is denied, changed
// and remembered, a question, a tool of the browser, a file, regenerating, editing, rating, an export.
func TestPageOfPeople(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	downloads := b.keepDownloads()
	p := newProcess(t, "")
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("demo")
	b.screenshot("20-demo.png")

	b.say("Roll the dice")
	b.see(pageWaiting + ` && document.querySelector('.action').textContent.includes('May I roll the dice?')`)
	b.screenshot("21-approval.png")
	b.see(`document.querySelector('#send').disabled && document.querySelector('#list').textContent.includes('waits for you')`)
	b.do(chromedp.Reload())
	b.see(pageWaiting) // it waits, whoever looks
	b.do(click(".action .deny"))
	b.see(pageIdle + ` && document.querySelectorAll('.action').length === 0 && ` + lastAnswer + `.querySelector('.call') !== null`)
	b.see(`document.querySelectorAll('.message').length === 2 && /deni|refus/i.test(` + lastAnswer + `.textContent)`)
	b.screenshot("22-denied.png")

	b.say("Roll the dice")
	b.see(pageWaiting)
	b.do(setValue(".action textarea", "{oops"), click(".action .allow"))
	b.see(`!document.querySelector('.action textarea').checkValidity() && document.querySelectorAll('.action').length === 1`)
	b.do(setValue(".action textarea", `{"min":"six"}`), click(".action .allow"))
	b.see(`document.querySelector('#toast').dataset.code === 'invalid_approved_args' && !document.querySelector('.action .allow').disabled`)
	b.do(setValue(".action textarea", `{"min":6,"max":6}`), click(".action input[type=checkbox]"), click(".action .allow"))
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.body ~ .body').textContent.includes('6') && document.querySelectorAll('.message.assistant').length === 2`)
	b.screenshot("23-allowed.png")
	b.say("Roll the dice")
	b.see(pageIdle + ` && document.querySelectorAll('.message.assistant').length === 3 && ` + lastAnswer + `.querySelector('.call')?.textContent.includes('✓')`)
	b.do(click("#budget"))
	b.see(`document.querySelector('#remembered li[data-tool=roll_dice]') !== null`)
	b.screenshot("24-remembered.png")
	b.do(click("#remembered button"))
	b.see(`document.querySelector('#remembered').childElementCount === 0 && !document.querySelector('#remembered-none').hidden`)
	b.do(click("#options [value=cancel]"))

	b.say("Ask me a question")
	b.see(pageWaiting + ` && document.querySelectorAll('.action input[type=radio]').length === 2`)
	b.do(click(".action .answer"))
	b.see(`!document.querySelector('.action .free').checkValidity()`) // it needs an answer
	b.do(click(".action input[value=Coffee]"))
	b.screenshot("25-question.png")
	b.do(click(".action .answer"))
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.body ~ .body').textContent.includes('Coffee')`)

	b.say("Use a tool of my browser")
	b.see(pageWaiting + ` && document.querySelector('.action').dataset.kind === 'client_tool'`)
	b.screenshot("26-client-tool.png")
	b.do(click(".action .output"))
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.body ~ .body').textContent.includes('language')`)

	note := filepath.Join(t.TempDir(), "note.txt")
	require.NoError(t, os.WriteFile(note, []byte("the cat is in the garden\n"), 0o600))
	b.do(chromedp.SetUploadFiles("#file", []string{note}))
	other := filepath.Join(t.TempDir(), "other.txt")
	require.NoError(t, os.WriteFile(other, []byte("a dog\n"), 0o600))
	b.do(chromedp.SetUploadFiles("#file", []string{other}))
	b.see(`document.querySelectorAll('#files .chip[data-file]').length === 2`)
	b.screenshot("27-attached.png")
	b.press(`document.querySelector('#files [aria-label="remove other.txt"]')`)
	// A picture that is pasted is attached, and shown.
	b.do(chromedp.Evaluate[chromedp.Void](`void (async () => {
		const canvas = new OffscreenCanvas(8, 8), clipboardData = new DataTransfer();
		canvas.getContext('2d').fillRect(0, 0, 4, 4);
		clipboardData.items.add(new File([await canvas.convertToBlob()], 'shot.png', { type: 'image/png' }));
		document.querySelector('#text').dispatchEvent(new ClipboardEvent('paste', { clipboardData, cancelable: true, bubbles: true }));
	})()`))
	b.see(`document.querySelector('#files .chip img')?.naturalWidth === 8 && document.querySelectorAll('#files .chip[data-file]').length === 2`)
	b.press(`document.querySelector('#files [aria-label="remove shot.png"]')`)
	b.see(`document.querySelectorAll('#files .chip[data-file]').length === 1`)
	b.do(chromedp.Reload()) // what was attached is kept as what was written is
	b.see(`document.body.dataset.ready === 'true' && document.querySelector('#files .chip[data-file]')?.textContent.includes('note.txt')`)
	b.say("Please read this")
	b.see(pageIdle + ` && document.querySelector('#files').childElementCount === 0 && ` + lastAnswer + `.textContent.includes('the cat is in the garden')`)
	b.see(lastSaid + `.querySelectorAll('.chip').length === 1`)
	b.do(click(".message.user .chip[data-file]"))
	require.Equal(t, "the cat is in the garden\n", downloaded(t, downloads, "note.txt"))

	b.press(lastAnswer + `.querySelector('.regenerate')`)
	b.see(pageIdle + ` && ` + lastAnswer + `.querySelector('.versions')?.textContent.includes('version 2 of 2')`)
	b.screenshot("28-regenerated.png")
	b.press(lastSaid + `.querySelector('.edit')`)
	b.see(`!document.querySelector('#editing').hidden && document.querySelector('#text').value === 'Please read this'`)
	b.do(setValue("#text", "Please read that"), click("#send"))
	b.see(pageIdle + ` && ` + lastSaid + `.querySelector('.note')?.textContent.includes('edited') && document.querySelector('#editing').hidden`)
	b.see(lastSaid + `.querySelector('.body').textContent === 'Please read that' && ` + lastSaid + `.querySelector('.versions')?.textContent.includes('2 of 2')`)
	b.press(lastSaid + `.querySelector('[aria-label="earlier version"]')`)
	b.see(lastSaid + `.querySelector('.old .body').textContent === 'Please read this' && !` + lastSaid + `.querySelector('.body').checkVisibility()`)
	b.do(chromedp.Evaluate[chromedp.Void](`(() => { const node = ` + lastSaid + `; node.drawn = ''; node.redraw(); })()`)) // as an event of the log does
	b.see(lastSaid + `.querySelector('.old .body').textContent === 'Please read this'`)
	b.press(lastSaid + `.querySelector('[aria-label="later version"]')`)
	b.see(lastSaid + `.querySelector('.old') === null && ` + lastSaid + `.querySelector('.body').checkVisibility()`)
	b.see(`document.querySelectorAll('.message').length === 12`)

	b.press(lastAnswer + `.querySelector('[data-rating=down]')`)
	b.see(lastAnswer + `.querySelector('.rate-form') !== null && ` + lastAnswer + `.querySelector('[data-rating=down]').getAttribute('aria-pressed') === 'true'`)
	b.do(click(".rate-form input[value=incomplete]"), setValue(".rate-form .free", "no cat"))
	b.screenshot("29-rating.png")
	b.do(click(".rate-form .primary"))
	b.see(`document.querySelector('.rate-form') === null && ` + lastAnswer + `.textContent.includes('incomplete · no cat')`)

	b.do(setValue("#title", "Cats and dice"))
	b.see(`document.querySelector('#list').textContent.includes('Cats and dice')`)
	b.do(chromedp.Evaluate[chromedp.Void](`void (document.querySelector('#export').value = 'md', document.querySelector('#export').dispatchEvent(new Event('change')))`))
	text := downloaded(t, downloads, "Cats and dice.md")
	require.Contains(t, text, "Cats and dice")
	require.Contains(t, text, "Please read that")
	require.Empty(t, b.text(pageUnnamed), "controls without a name")
	b.looks("30-people", p)
}

// TestPageOfMoney: a budget that cuts an answer, is raised, and lets it go on; and one that was used up to the end.
func TestPageOfMoney(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, "")
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("assistant") // whose answers cost nothing
	b.see(`document.querySelector('#budget').textContent === 'Tools'`)
	b.newConversation("demo")
	b.setBudget("#budget", "0.0005")
	b.see(`document.querySelector('#budget').textContent.includes('of $0.000500')`)
	b.say("Tell me a long story")
	b.see(pageIdle + ` && document.querySelector('#cut').dataset.state === 'cut' && !document.querySelector('#raise').hidden`)
	before := b.tell(lastAnswer+`.querySelector('.outcome')?.textContent.startsWith('Cut short: the budget')`, lastAnswer+`.querySelector('.body').textContent`)
	b.screenshot("31-cut.png")
	b.do(chromedp.SendKeys("#text", "More"), click("#send")) // refused, and not lost
	b.see(`document.querySelector('#toast').dataset.code === 'budget_reached' && document.querySelector('#text').value === 'More'`)
	b.do(click("#raise"))
	b.see(`document.querySelector('#options').open && document.querySelector('#max-cost').value === '0.001'`) // twice as much is offered
	b.screenshot("32-raise.png")
	b.do(setValue("#max-cost", "0.1"), chromedp.Focus("#max-cost"), chromedp.KeyEvent(kb.Enter)) // which saves
	b.see(`document.querySelector('#cut').dataset.state === 'raised' && document.querySelector('#raise').hidden`)
	b.do(click("#continue"))
	b.see(`document.querySelector('#cut').hidden && ` + lastAnswer + `.classList.contains('streaming')`)
	b.screenshot("33-continued.png")
	said := b.tell(pageIdle+` && document.querySelectorAll('.message').length === 2 && `+lastAnswer+`.textContent.includes('That was all')`,
		lastAnswer+`.querySelector('.body').textContent`)
	require.Contains(t, said, before)
	b.see(`document.querySelector('#cut').hidden && document.querySelector('#budget').textContent.includes('of $0.1000')`)

	b.do(click("#budget"))
	b.see(`document.querySelector('#options').open`)
	b.do(click("#remove-budget"))
	b.see(`document.querySelector('#budget').textContent.includes('spent')`)
	b.checkQuiet(p)
}

const pageLapse = `
agents:
  - id: asking
    model: {provider: scripted, script: {steps: [{text: "Several things.", tool_calls: [
      {name: roll_dice, arguments: {min: 1, max: 1}},
      {name: ask_user, arguments: {questions: [
        {question: "Which fruit?", header: Fruit, multiSelect: true, options: [{label: Apple}, {label: Pear}, {label: Plum}]},
        {question: "Why?"}]}},
      {name: look, arguments: {q: 1}}]},
      {text: "More.", tool_calls: [{name: glance, arguments: {}}]}, {text: "All done."}]}}
    capabilities: {ask_user: true}
    tools:
      - {name: roll_dice, builtin: random_number, approval: always}
      - {name: look, client: true, schema: {type: object}}
      - {name: glance, client: true, schema: {type: object}, action_timeout: 1s} # nobody answers it
`

// TestPageOfManyActions: several actions of one pause, one of them answered in another window; what nobody answers lapses.
func TestPageOfManyActions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageLapse)
	p.start()
	b.do(chromedp.EmulateViewport(390, 780), chromedp.Navigate("http://"+p.listen+"/"))
	b.see(pageReady)
	b.do(click("#side-toggle"))
	b.newConversation("asking")
	b.see(`!document.querySelector('.side').checkVisibility()`) // out of the way
	b.say("Go")
	action := b.tell(`document.querySelectorAll('.action').length === 3`, `document.querySelector('.action[data-kind=tool_approval]').dataset.id`)
	b.screenshot("34-many-narrow.png")
	require.Empty(t, b.text(pageUnnamed), "controls without a name")
	// On its side, too, a phone shows what is to be decided with, without scrolling.
	b.do(chromedp.EmulateViewport(740, 360))
	b.see(`innerHeight === 360 && ((allow, box) => document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === allow && box.bottom <= 360)(...((allow) => [allow, allow.getBoundingClientRect()])(document.querySelector('.action .allow')))`)
	b.screenshot("36-many-sideways.png")
	b.do(chromedp.EmulateViewport(390, 780))
	// Another window is another client of the same conversation.
	id := b.text(`location.hash.slice(1)`)
	status, _ := p.try("POST", p.url("/conversations/"+id+"/actions/"+action),
		map[string]any{"resolution": map[string]any{"type": "tool_approval", "decision": "allow"}})
	require.Equal(t, http.StatusOK, status)
	b.see(`document.querySelectorAll('.action').length === 2 && document.querySelector('#status').dataset.state === 'waiting'`)
	b.press(`document.querySelector('.action input[value=Apple]')`)
	b.press(`document.querySelector('.action input[value=Plum]')`)
	b.press(`document.querySelector('.action .answer')`)
	b.see(`document.querySelector('.action :invalid')?.closest('fieldset').textContent === 'Why?'`)
	b.do(setValue(".action fieldset:nth-of-type(2) .free", "They fall"))
	b.press(`document.querySelector('.action .answer')`)
	b.see(`document.querySelector('.action[data-kind=user_question]') === null`)
	b.press(`document.querySelector('.action .output')`)
	b.see(pageIdle + ` && document.querySelectorAll('.action').length === 0 && ` + lastAnswer + `.textContent.includes('All done.')`)
	b.see(lastAnswer + `.textContent.includes('glance · nobody answered in time')`)
	// Each call stands where it happened, also for whoever looks later.
	inOrder := `[...` + lastAnswer + `.querySelectorAll('.body, .call > summary')].map((part) => part.textContent.split(' ')[0]).join() === 'Several,roll_dice,ask_user,look,More.,glance,All'`
	b.see(lastAnswer + `.querySelectorAll('.call').length === 4 && ` + inOrder)
	b.see(lastAnswer + `.querySelector('.call .args').textContent === 'max1min1' && ` + lastAnswer + `.querySelector('.call .json pre').textContent.includes('"max"')`)
	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelector('.message.assistant') !== null && ` + inOrder)
	b.screenshot("35-lapsed-narrow.png")
	b.checkQuiet(p)
}

func (b *browser) newConversation(agent string) {
	b.t.Helper()
	b.do(setValue("#agent", agent), click("#new")) // what is chosen stays
	b.see(`document.querySelectorAll('.message').length === 0 && location.hash === '' && document.querySelector('.welcome') !== null`)
}

func (b *browser) setBudget(door, usd string) {
	b.t.Helper()
	b.do(click(door))
	b.see(`document.querySelector('#options').open`)
	b.do(setValue("#max-cost", usd), click("#save-budget"))
}

// press clicks what an expression of the page names, as soon as it is there.
func (b *browser) press(expression string) {
	b.t.Helper()
	b.see(`((found) => found !== null && !found.disabled && (found.click(), true))(` + expression + `)`)
}

// keepDownloads returns the folder in which what the page saves arrives.
func (b *browser) keepDownloads() string {
	b.t.Helper()
	dir := b.t.TempDir()
	_, err := chromedp.Call(b.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
		Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir,
	})
	require.NoError(b.t, err)
	return dir
}

func downloaded(t *testing.T, dir, name string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(filepath.Join(dir, name))
		return err == nil && len(text) > 0
	}, 30*time.Second, 20*time.Millisecond, "download of %s", name)
	return string(text)
}

// pageUnnamed lists the controls in sight that a screen reader could not name.
const pageUnnamed = `[...document.querySelectorAll('button, input, select, textarea, a')].filter((node) => node.checkVisibility()
	&& !(node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length || node.title))
	.map((node) => node.outerHTML).join('\n')`

// looks shows the page to people in light and dark, wide and narrow, and checks what a program can see of it.
func (b *browser) looks(name string, p *process) {
	b.t.Helper()
	for _, scheme := range []string{"dark", "light"} {
		b.scheme(scheme)
		b.do(chromedp.EmulateViewport(1440, 900))
		checkPicture(b.t, b.picture(name+"-"+scheme+".png"))
		b.do(chromedp.EmulateViewport(390, 780))
		b.see(`document.documentElement.scrollWidth <= 390 && innerWidth === 390`)
		checkPicture(b.t, b.picture(name+"-"+scheme+"-narrow.png"))
	}
	b.do(click("#side-toggle"))
	b.see(`document.querySelector('#list button').checkVisibility()`)
	b.screenshot(name + "-narrow-list.png")
	b.checkQuiet(p)
}

// scheme makes the browser prefer a color scheme, light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}
