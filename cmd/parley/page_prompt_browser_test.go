package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const (
	pageUnknown = `document.querySelector('#unsent').dataset.state === 'unknown' && !document.querySelector('#unsent').hidden && document.querySelector('#send').disabled`
	pageAbsent  = `document.querySelector('#unsent').dataset.state === 'absent' && !document.querySelector('#send').disabled`
	pageSent    = `document.querySelector('#unsent').hidden && document.querySelector('#text').value === ''`
	pageReady   = `document.body.dataset.ready === 'true'`
)

// TestPageKeepsAPrompt: on a phone, what was written outlives a reload, a closed tab, and a server that is killed and
// comes back, before the first message of a conversation and after; and it arrives once.
func TestPageKeepsAPrompt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents)
	p.start()
	b.do(chromedp.EmulateViewport(390, 780, chromedp.EmulateMobile, chromedp.EmulateTouch), chromedp.Navigate("http://"+p.listen+"/"))
	b.see(pageReady)
	b.do(setValue("#agent", "quick"), chromedp.SendKeys("#text", "Remember me"))
	b.do(chromedp.Reload())
	b.see(pageReady + ` && document.querySelector('#text').value === 'Remember me'`)
	b.do(chromedp.Evaluate[chromedp.Void](`sessionStorage.clear()`), chromedp.Reload()) // as in a tab that is opened later
	b.see(pageReady + ` && document.querySelector('#text').value === 'Remember me'`)
	require.Empty(t, p.conversationsOf(b), "nothing was sent: nothing is stored")

	p.kill()
	b.do(setValue("#agent", "quick"), click("#send"))
	b.see(pageUnknown + ` && document.querySelector('#text').value === 'Remember me'`)
	b.screenshot("40-server-away.png")
	p.start()
	b.see(pageAbsent + ` && document.querySelector('#text').value === 'Remember me'`)
	b.screenshot("41-did-not-arrive.png")
	b.do(click("#send"))
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2 && ` + pageSent)
	require.Equal(t, []string{"Remember me"}, p.saidBy(b))

	b.do(chromedp.SendKeys("#text", "And again"))
	p.kill()
	b.see(`document.querySelector('#link').dataset.state === 'retry'`)
	b.do(click("#send"))
	b.see(pageUnknown + ` && document.querySelector('#text').value === 'And again'`)
	p.start()
	b.see(`document.querySelector('#link').dataset.state === 'live' && ` + pageAbsent)
	b.do(chromedp.Reload())
	b.see(pageReady + ` && ` + pageAbsent + ` && document.querySelector('#text').value === 'And again'`)
	b.do(click("#send"))
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 4 && ` + pageSent)
	said := []string{"Remember me", "And again"}
	require.Equal(t, said, p.saidBy(b))

	for _, text := range []string{"one", "two", "three"} { // it may have arrived or not: the page finds out which
		b.say(text)
		p.kill()
		p.start()
		held := b.tell(`document.querySelector('#link').dataset.state === 'live' && ((`+pageAbsent+`) || (`+pageSent+` && `+pageIdle+`))`, `document.querySelector('#text').value`)
		if held == text {
			b.do(click("#send"))
		}
		said = append(said, text)
		b.see(pageIdle + ` && document.querySelectorAll('.message.user').length === ` + strconv.Itoa(len(said)) + ` && ` + pageSent)
		require.Equal(t, said, p.saidBy(b))
	}
	b.checkQuiet(p)
}

// TestPagePromptWhoseAnswerIsLost: the server took what the page sent, and the page did not hear of it. It looks, and
// sends nothing twice.
func TestPagePromptWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents)
	p.start()
	link := newLink(t, p)
	b.do(chromedp.Navigate(link.url + "/"))
	b.see(pageReady)

	link.lose(func(r *http.Request) bool {
		return r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/conversations")
	})
	b.do(setValue("#agent", "quick"))
	b.say("First")
	b.see(pageAbsent + ` && document.querySelector('#text').value === 'First' && location.hash.startsWith('#conv_')`)
	link.lose(nil)
	require.Len(t, p.conversationsOf(b), 1)
	b.do(click("#send"))
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2 && ` + pageSent)

	// The stream is the first to tell.
	link.lose(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/messages") })
	b.say("Second")
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 4 && ` + pageSent)
	// There is no stream: the messages tell.
	link.lose(func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/messages") || strings.HasSuffix(r.URL.Path, "/events/stream")
	})
	link.server.CloseClientConnections()
	b.see(`document.querySelector('#link').dataset.state === 'retry'`)
	b.say("Third")
	b.see(pageSent)
	link.lose(nil)
	b.see(pageIdle + ` && document.querySelector('#link').dataset.state === 'live' && document.querySelectorAll('.message').length === 6`)

	// An edit is known by what it replaced; the text that stood in the composer comes back.
	b.do(chromedp.SendKeys("#text", "half a thought"))
	link.lose(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/edit") })
	b.press(lastSaid + `.querySelector('.edit')`)
	b.do(setValue("#text", "Third, better"), click("#send"))
	b.see(pageIdle + ` && document.querySelector('#editing').hidden && document.querySelector('#text').value === 'half a thought' && document.querySelector('#unsent').hidden`)
	link.lose(nil)
	require.Equal(t, []string{"First", "Second", "Third, better"}, p.saidBy(b))
	require.Len(t, p.conversationsOf(b), 1)
}

// TestPageStoresNothingEmpty: New stores nothing, and neither does a first message that is refused.
func TestPageStoresNothingEmpty(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, testAgents+"conversation: {max_message: 1KiB}\n")
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("quick")
	b.newConversation("slow")
	require.Empty(t, p.conversationsOf(b))
	long := strings.Repeat("too long ", 200)
	b.do(setValue("#text", long), chromedp.Evaluate[chromedp.Void](`document.querySelector('#text').dispatchEvent(new Event('input'))`))
	b.see(`document.querySelector('#text').clientHeight > 100 && document.querySelector('#text').clientHeight < 400`) // it grows
	b.screenshot("42-composer-grown.png")
	b.do(click("#send"))
	b.see(`!document.querySelector('#toast').hidden && document.querySelector('#text').value === ` + quoted(long))
	b.see(`location.hash === '' && document.querySelectorAll('#list li').length === 0`)
	require.Eventually(t, func() bool { return len(p.conversationsOf(b)) == 0 }, pollTime, pollEvery)
	b.do(setValue("#agent", "quick"), setValue("#text", "short"), click("#send"))
	b.see(pageIdle + ` && document.querySelectorAll('.message').length === 2 && ` + pageSent)
	require.Len(t, p.conversationsOf(b), 1)
	b.checkQuiet(p)
}

// faultyLink is between the page and its server: it can lose answers to requests that the server carried out.
type faultyLink struct {
	server *httptest.Server
	url    string
	lost   atomic.Pointer[func(*http.Request) bool]
}

func newLink(t *testing.T, p *process) *faultyLink {
	t.Helper()
	target, err := url.Parse("http://" + p.listen)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	link := &faultyLink{}
	link.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lost := link.lost.Load()
		switch {
		case lost == nil || !(*lost)(r):
			proxy.ServeHTTP(w, r)
			return
		case r.Method == http.MethodPost:
			proxy.ServeHTTP(httptest.NewRecorder(), r.Clone(context.WithoutCancel(r.Context()))) // it is carried out, though its client is gone
		}
		panic(http.ErrAbortHandler)
	}))
	// On a connection that it used before the browser would repeat a request by itself.
	link.server.Config.SetKeepAlivesEnabled(false)
	link.server.Start()
	link.url = link.server.URL
	t.Cleanup(func() {
		link.server.CloseClientConnections()
		link.server.Close()
	})
	return link
}

// lose names the requests whose answers are lost from now on; nil = none.
func (l *faultyLink) lose(which func(*http.Request) bool) {
	if which == nil {
		l.lost.Store(nil)
		return
	}
	l.lost.Store(&which)
}

// conversationsOf is the stored conversations of the person at a browser.
func (p *process) conversationsOf(b *browser) []string {
	p.t.Helper()
	user := b.text(`localStorage.getItem('parley.user')`)
	status, body := p.try("GET", p.url("/conversations?limit=100&userId="+user), nil)
	require.Equal(p.t, http.StatusOK, status, string(body))
	var page struct{ Conversations []struct{ ID string } }
	require.NoError(p.t, json.Unmarshal(body, &page))
	ids := []string{}
	for _, c := range page.Conversations {
		ids = append(ids, c.ID)
	}
	return ids
}

// saidBy is what the person at a browser said in the open conversation, as the server has it.
func (p *process) saidBy(b *browser) []string {
	p.t.Helper()
	status, body := p.try("GET", p.url("/conversations/"+b.text(`location.hash.slice(1)`)+"/messages?limit=100"), nil)
	require.Equal(p.t, http.StatusOK, status, string(body))
	var page struct {
		Messages []struct{ Role, Content string }
	}
	require.NoError(p.t, json.Unmarshal(body, &page))
	said := []string{}
	for _, m := range page.Messages {
		if m.Role == "user" {
			said = append(said, m.Content)
		}
	}
	return said
}

// TestPageJoinsInMidAnswer: a stream that is there only when the answer has begun tells the answer so far first, and then what was asked. On the page
// the question stands first all the same.
func TestPageJoinsInMidAnswer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	p := newProcess(t, pageAgents+longAgent)
	p.start()
	b.do(chromedp.Navigate("http://" + p.listen + "/"))
	b.see(pageReady)
	b.newConversation("long")
	b.do(chromedp.Evaluate[chromedp.Void](`void (() => {
		const ask = window.fetch, joined = new Promise((join) => { window.join = join; });
		window.fetch = async (url, ...rest) => {
			if (url.includes('/events/stream')) await joined;
			return ask(url, ...rest);
		};
	})()`))
	b.say("Count, please")
	id := strings.TrimPrefix(b.tell(`location.hash.includes('conv_')`, `location.hash`), "#")
	require.Eventually(t, func() bool {
		return p.ask(t, "GET", "/conversations/"+id+"?userId="+b.text(`localStorage['parley.user']`), nil).fits(200, anyObject).text("conversation", "runtime", "status") == "running"
	}, waitLong, waitStep)
	b.do(chromedp.Evaluate[chromedp.Void](`void window.join()`))
	b.see(`document.querySelector('.message.streaming')?.textContent.includes('w2')`)
	b.see(`document.querySelector('#events li').dataset.type === 'agent.message.snapshot'`)
	b.see(`[...document.querySelectorAll('.message')].map((one) => one.classList[1]).join() === 'user,assistant'`)
	b.do(click("#stop"))
	b.see(pageIdle + ` && document.querySelector('.message.assistant:last-child .outcome')?.textContent === 'Stopped.'`)
	b.checkQuiet(p)
}
