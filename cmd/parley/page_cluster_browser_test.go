package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// createLong creates a conversation as an application would, and goes to its address.
const createLong = `void fetch('/api/agents/conversations', {
	method: 'POST', headers: { 'Content-Type': 'application/json' },
	body: JSON.stringify({ agentId: 'long', userId: localStorage.getItem('parley.user') }),
}).then((response) => response.json()).then(({ conversation }) => { location.hash = conversation.id; })`

// TestPageOfACluster: the playground shows who owns the conversation, what happens when the owner is killed, and where
// to go when its own node is gone.
func TestPageOfACluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	b := newBrowser(t)
	file := filepath.Join(t.TempDir(), "page.yaml")
	require.NoError(t, os.WriteFile(file, []byte(pageAgents+longAgent), 0o600))
	c := newCluster(t, 3, false, "--config", file)
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	here := c.Nodes()[0]
	b.do(chromedp.Navigate(here.URL() + "/"))
	b.see(pageReady)
	b.see(`document.querySelectorAll('#nodes li').length === 3`)

	owner := here.Name
	for tries := 0; owner == here.Name; tries++ { // each is in a shard by chance
		require.Less(t, tries, 20, "every conversation is owned by the page's node")
		before := b.text(`document.location.hash`)
		b.do(chromedp.Evaluate[chromedp.Void](createLong))
		b.see(`document.location.hash !== ` + quoted(before) + ` && document.querySelector('#link').dataset.state === 'live' && document.querySelectorAll('.message').length === 0`)
		b.say("Count, please")
		// Not before: until the answer comes, the page may still show who owned the conversation before.
		owner = b.tell(`document.querySelector('.message.streaming')?.textContent.includes('w8') && document.querySelector('#nodes li[data-owner]') !== null`,
			`document.querySelector('#nodes li[data-owner]').dataset.node`)
	}
	require.NoError(t, c.Node(owner).Kill()) // at once: see longAgent
	b.see(`document.querySelector('#events li[data-type="session.recovered"]') !== null`)
	b.see(`document.querySelector('#nodes li[data-owner]')?.dataset.node !== ` + quoted(owner))
	b.see(`document.querySelector('#banner').textContent.includes('owns this conversation now')`)
	b.screenshot("9-new-owner.png")
	b.see(`document.querySelector('#nodes li[data-node=` + quoted(owner) + `]').dataset.state === 'down'`)
	b.see(`document.querySelector('#status').dataset.state === 'idle' && [...document.querySelectorAll('.message.assistant')].pop().textContent.includes('w60')`)
	b.see(`document.querySelector('#link').dataset.state === 'live'`)

	require.NoError(t, c.Node(owner).Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	b.see(`[...document.querySelectorAll('#nodes li')].every((node) => node.dataset.state === 'up')`)
	require.NoError(t, here.Kill())
	another := b.tell(`!document.querySelector('#banner').hidden && document.querySelector('#banner').dataset.state === 'bad' && document.querySelectorAll('#banner a').length === 2`,
		`document.querySelector('#banner a').href`)
	b.screenshot("10-own-node-gone.png")
	b.do(chromedp.Navigate(another))
	b.see(`document.body.dataset.ready === 'true' && document.querySelectorAll('.message').length === 2 && !location.href.startsWith(` + quoted(here.URL()) + `)`)
	b.screenshot("11-on-another-node.png")

	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.mu.errors)
	for _, url := range b.mu.requests {
		known := strings.HasPrefix(url, "data:")
		for _, n := range c.Nodes() {
			known = known || strings.HasPrefix(url, n.URL()+"/")
		}
		require.Truef(t, known, "the page asked %s", url)
	}
}

// text is what an expression of the page says.
func (b *browser) text(expression string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stepTime)
	defer cancel()
	said, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	require.NoError(b.t, err)
	return said
}

// quoted is a text as the page's language writes it.
func quoted(text string) string { return `"` + text + `"` }
