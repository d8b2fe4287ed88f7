package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// markdownAnswer has all that an answer may have, and what it must not be able to do.
const markdownAnswer = "# Refunds\n\nTwo ways, **both** _quick_ and ~~slow~~:\n\n1. by `card`\n2. by transfer\n   - within the week\n   - or later\n\n- [x] paid\n- [ ] sent\n\n" +
	"```go\nfunc refund(order int) error {\n\treturn pay(order, -140) // <script>window.bad = 1</script>\n}\n```\n\n" +
	"### Fees\n\n| Way | Days | Fee |\n|:----|:---:|----:|\n| card | 2 | $0.30 |\n| transfer | 5 | $0.00 |\n\n" +
	"The fee is \\(f_1 = \\frac{a}{b}\\), see below[^fee]; some cost $5, some $10.\n\n$$\nx^2 +\n\ny\n$$\n\n\\[ \\href{javascript:window.bad=1}{z} \\]\n\n[^fee]: Without *tax*.\n\n" +
	"> Ask first.\n\nSee https://example.com/fees, [the terms](https://example.com/terms \"Terms\") or [write](mailto:a@example.com).\n\n" +
	"[run](javascript:window.bad=1) [data](data:text/html,x) [near](/etc/passwd) ![chart](https://example.com/x.png) ![no](javascript:window.bad=1)\n\n" +
	"<img src=x onerror=\"window.bad=1\"> <b>raw</b>\n\n<script>window.bad = 1</script>\n"

// pageMarkdown is an agent that answers in Markdown.
func pageMarkdown(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(markdownAnswer)
	require.NoError(t, err)
	return testAgents + fmt.Sprintf(`
  - id: writer
    name: Writer
    model: {provider: scripted, script: {token_interval: 10ms, steps: [{text: %s}]}, price: {input: 1, output: 10}}
    experience: {feedback: {enabled: true}}
`, text)
}

// TestPageMarkdown: answers are read as Markdown, nothing of them runs or is loaded, and links lead only where it is safe.
func TestPageMarkdown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageMarkdown(t))
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("writer")
	b.do(chromedp.Evaluate[chromedp.Void](`void new MutationObserver(() => {
		window.grew ||= document.querySelector('.message.streaming .body ol') !== null;
	}).observe(document.body, {subtree: true, childList: true, attributes: true})`))
	b.do(setValue("#text", "<b>How</b> do *refunds* work?\n```js\nif (a) { b(); }\n```\n*thanks*"), click("#send"))
	b.see(`window.grew`) // while it grows, too
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2`)
	b.see(lastSaid + `.querySelector('.body').textContent.startsWith('<b>How</b> do *refunds* work?') && ` + lastSaid + `.querySelector('.code code').textContent === 'if (a) { b(); }' && ` + lastSaid + `.querySelector('.body').lastChild.data === '*thanks*'`)
	body := lastAnswer + `.querySelector('.body')`
	b.see(`['h3', 'strong', 'em', 's', 'ol > li > ul > li', 'li.task > input:checked:disabled', 'li.task > input:not(:checked)', '.code pre code', '.table table th.align-right', 'blockquote p'].every((part) => ` + body + `.querySelector(part) !== null)`)
	b.see(body + `.querySelector('.code code').textContent.includes('<script>') && ` + body + `.querySelector('.code-head span').textContent === 'go'`)
	b.see(`window.bad === undefined && ` + body + `.querySelector('img, script, b') === null`)
	b.see(body + `.querySelector('.code .code-kwd').textContent === 'func' && ` + lastSaid + `.querySelector('.code .code-kwd') !== null`)
	b.see(body + `.querySelector('p .math mfrac') !== null && ` + body + `.querySelector('div.math msup') !== null && ` + body + `.querySelectorAll('math').length === 2 && ` + body + `.textContent.includes('some cost $5, some $10')`)
	b.see(body + `.querySelectorAll('div.math')[1].textContent.includes('\\href{javascript')`) // as it was written
	b.press(body + `.querySelector('.note-mark')`)
	onNote := `document.activeElement.matches('.footnote') && document.activeElement.querySelector('em').textContent === 'tax'`
	b.see(onNote)
	b.press(lastAnswer + `.querySelector('[data-rating=up]')`) // by script, which moves no focus; the message is drawn anew around its text
	b.see(lastAnswer + `.querySelector('[data-rating=up]').ariaPressed === 'true' && ` + onNote)
	links := strings.Split(b.tell(pageIdle, `[...`+body+`.querySelectorAll('a')].map((a) => [a.href, a.target, a.rel].join(' ')).join('\n')`), "\n")
	require.Equal(t, []string{
		"https://example.com/fees _blank noopener noreferrer", "https://example.com/terms _blank noopener noreferrer",
		"mailto:a@example.com _blank noopener noreferrer", "https://example.com/x.png _blank noopener noreferrer",
	}, links)
	b.see(body + `.textContent.includes('<img src=x onerror="window.bad=1"> <b>raw</b>') && ` + body + `.textContent.includes('near (/etc/passwd)')`)
	b.do(chromedp.Evaluate[chromedp.Void](`void (navigator.clipboard.writeText = async (text) => { window.copied = text; }, new MutationObserver(() => {
		window.saidSo ||= document.querySelector('.message.assistant .code button')?.textContent === 'Copied'; // which it says for a moment only
	}).observe(document.body, {subtree: true, childList: true, characterData: true}))`))
	b.press(body + `.querySelector('.code button')`)
	b.see(`window.copied?.startsWith('func refund') && window.saidSo`)
	// No text can become HTML on this page, whatever is added to it.
	b.see(`(() => { try { document.createElement('p').innerHTML = '<i>x</i>'; return false; } catch (error) { return error instanceof TypeError; } })()`)
	b.screenshot("46-markdown.png")
	b.checkQuiet(p)
}

// worstMarkdown offers, in the page, a function that reads, draws and lays out a text, at once and as it grows, and prose of the same length
// in the same moment. A text is slow whose cost is many times that of prose, each time: one that does too much always is, and on a busy
// machine any may be once.
const worstMarkdown = `import('/markdown.js').then(({ Growing, markdown }) => {
	const fill = (text, size = 100_000) => text.repeat(Math.ceil(size / text.length)).slice(0, size);
	const prose = fill('The *fee* is paid back within **ten** days, see [the terms](https://example.com/terms).\n\n');
	const texts = {
		open: fill('['), nested: fill('[', 50_000) + fill(']', 50_000), pictures: fill('![['), links: fill('[a]('), ticks: fill('` + "` ``" + ` '),
		stars: fill('*a **b _c '), strong: fill('**a ', 50_000) + fill('a** ', 50_000), under: fill('a_'), tildes: fill('~a ~~b'), quotes: fill('> '),
		lists: Array.from({ length: 440 }, (_, i) => ' '.repeat(i) + '- a').join('\n'), table: '|a|b|\n|-|-|\n' + fill('|x|y|\n'),
		wide: fill('|a', 10_000) + '\n' + fill('|-', 10_000) + '\n' + fill('|\n', 80_000), tags: fill('<a '), comments: fill('<!--'),
		references: fill('[a]: b\n'), addresses: fill('http://a'), fence: '` + "```" + `\n' + fill('x\n'), lines: fill('a\n\n'), headings: fill('# a\n'),
		formulas: fill('$$a$$ '), opened: fill('\\['), blocks: fill('\\[ a\n'), notes: fill('[^1]: a\n'), marks: '[^1]: a\n\n' + fill('[^1]'),
	};
	const place = document.querySelector('#messages').appendChild(document.createElement('div'));
	const measure = (text) => {
		let begun = performance.now();
		place.replaceChildren(markdown(text));
		place.offsetHeight;
		const whole = performance.now() - begun;
		let worst = 0;
		const growing = new Growing(place, () => {});
		for (let size = 1000; size <= text.length; size += 5000) {
			growing.text = text.slice(0, size);
			begun = performance.now();
			growing.update();
			worst = Math.max(worst, performance.now() - begun);
		}
		place.replaceChildren();
		return [whole, worst];
	};
	window.texts = Object.keys(texts);
	window.measure = (name) => {
		for (let tries = 5; ; tries--) {
			const [yardstick] = measure(prose), [whole, worst] = measure(texts[name]);
			if (whole < 20 * yardstick && worst < 5 * yardstick) return 'well';
			if (tries === 1) return Math.round(whole) + ' ms, growing ' + Math.round(worst) + ' ms, prose ' + Math.round(yardstick) + ' ms';
		}
	};
})`

// TestPageMarkdownAtItsWorst: no text can stop the page, and a growing one is drawn as the whole one is.
func TestPageMarkdownAtItsWorst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	answer, err := json.Marshal(markdownAnswer)
	require.NoError(t, err)
	b.do(chromedp.Evaluate[chromedp.Void](`void import('/markdown.js').then(({ Growing, markdown }) => {
		const text = ` + string(answer) + `;
		const whole = document.createElement('div'), grown = document.createElement('div');
		whole.append(markdown(text));
		const growing = new Growing(grown, () => {});
		for (let size = 1; size <= text.length; size++) { growing.text = text.slice(0, size); growing.update(); }
		growing.finish(text);
		window.alike = String(whole.isEqualNode(grown));
	})`))
	require.Equal(t, "true", b.tell(`window.alike !== undefined`, `window.alike`))
	b.do(chromedp.Evaluate[chromedp.Void](`void ` + worstMarkdown))
	for _, name := range strings.Split(b.tell(`window.texts`, `window.texts`), ",") {
		require.Equal(t, "well", b.tell("true", `window.measure("`+name+`")`), name)
	}
	b.checkQuiet(p)
}

const pageTools = "testdata/page/node_modules"

// TestPageVendored: the code of others that the page loads is what its package has.
func TestPageVendored(t *testing.T) {
	packed, err := os.ReadFile(filepath.Join(pageTools, "markdown-it", "dist", "browser", "markdown-it.esm.min.mjs"))
	if err != nil {
		t.Skip("the packages are not installed: make page-tools")
	}
	vendored, err := os.ReadFile("../../httpedge/web/page/vendor/markdown-it.mjs")
	require.NoError(t, err)
	tokenizer, err := os.ReadFile(filepath.Join(pageTools, "@speed-highlight", "core", "dist", "tokenize.js"))
	require.NoError(t, err)
	copied, err := os.ReadFile("../../httpedge/web/page/vendor/highlight/tokenize.js")
	require.NoError(t, err)
	require.Equal(t, string(tokenizer), string(copied))
	formulas, err := os.ReadFile(filepath.Join(pageTools, "temml", "dist", "temml.min.js"))
	require.NoError(t, err)
	module, err := os.ReadFile("../../httpedge/web/page/vendor/temml.mjs")
	require.NoError(t, err)
	require.Equal(t, string(formulas)+"\nexport default temml;\n", string(module))
	packed = regexp.MustCompile(`(?m)^//# sourceMappingURL.*\n?`).ReplaceAll(packed, nil)
	require.Equal(t, strings.TrimSpace(string(packed)), strings.TrimSpace(string(vendored)))
}

// TestPageAccessible: the accessibility checker finds nothing, in both themes, on a desktop and on a phone, wherever a
// person gets to.
func TestPageAccessible(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	checker, err := os.ReadFile(filepath.Join(pageTools, "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("the checker is not installed: make page-tools")
	}
	b := newBrowser(t)
	p := newProcess(t, pageMarkdown(t))
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.do(chromedp.Evaluate[chromedp.Void](string(checker) + `; undefined`))
	b.newConversation("writer")
	b.accessible("50-new")
	b.say("How do refunds work?")
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2 && document.querySelector('.cost') !== null`)
	b.accessible("51-answer")
	b.do(click("#delete"))
	b.see(`document.querySelector('#confirm').open`)
	b.accessible("52-delete")
	b.do(click("#confirm-no"), click("#budget"))
	b.see(`document.querySelector('#options').open`)
	b.accessible("53-budget")
	b.do(click("#options .close:not(.danger)"), click("#settings-button"))
	b.accessible("54-settings")
	b.do(click("#settings .close"))
	p.kill()
	b.see(`document.querySelector('#link').dataset.state === 'retry'`)
	b.say("Are you there?")
	b.see(pageUnknown)
	b.accessible("55-server-away")
	b.checkQuiet(p)
}

// accessible has the checker look at the page as it is, and people at its pictures.
func (b *browser) accessible(name string) {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, width := range []int64{1280, 390} {
			b.do(chromedp.EmulateViewport(width, 800))
			b.see(fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, width))
			if width < 700 && b.text(`String(document.querySelector('dialog[open]') === null)`) == "true" {
				b.checkAxe(name, scheme, width)
				b.do(click("#side-toggle"))
				b.checkAxe(name+"-list", scheme, width)
				b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#shade').click()`))
				continue
			}
			b.checkAxe(name, scheme, width)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 800))
	b.see(`innerWidth === 1280`)
}

func (b *browser) checkAxe(name, scheme string, width int64) {
	b.t.Helper()
	b.screenshot(fmt.Sprintf("%s-%s-%d.png", name, scheme, width))
	// What moves is looked at when it has come to rest, or was taken away.
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.found = undefined, Promise.all(document.getAnimations().filter((a) => a.effect.getTiming().iterations !== Infinity).map((a) => a.finished.catch(() => {}))).then(() => axe.run())
		.then((result) => { window.found = result.violations.map((v) => v.id + ' (' + v.impact + '): ' + v.nodes.map((n) => n.html.slice(0, 200) + ' ' + n.any.map((a) => a.message).join()).join(' | ')).join('\n'); }, (error) => { window.found = String(error); }))`))
	require.Emptyf(b.t, b.tell(`window.found !== undefined`, `window.found`), "%s, %s, %d px", name, scheme, width)
}
