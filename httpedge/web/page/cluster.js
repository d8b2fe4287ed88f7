// The nodes, and which of them owns the open conversation, as the node that serves the page knows them. The stream goes
// on through a change of owners by itself; this only shows it. A node that is alone is asked once, and again when the link
// to it was lost: it may have been started as one of several.

import { fetchCluster, settings } from './stream.js';

const often = 1000;  // milliseconds between two looks, with a conversation open
const seldom = 5000; // without one, or in a tab that nobody sees
const shown = 8000;  // how long a new owner is announced

const words = { up: 'up', down: 'not heard of', draining: 'gives up what it holds', leaving: 'stops' };

export class Nodes {
  constructor(strip, banner) {
    this.strip = strip;
    this.banner = banner;
    this.conversation = '';
    this.view = null;
    this.owner = '';   // last one known of the conversation
    this.news = null;  // { text, until }
    this.linked = true;
    this.timer = 0;
    this.look();
  }

  /** Shows the owner of another conversation; '' = of none. */
  watch(conversationId) {
    this.conversation = conversationId;
    this.owner = '';
    this.news = null;
    this.linked = true;
    if (this.view) this.view = { ...this.view, owner: '' };
    this.draw();
    if (!this.alone()) this.look();
  }

  alone() { return (this.view?.nodes.length || 0) < 2; }

  /** The state of the event stream: a lost one means that this page's own node may be gone. */
  link(live) {
    const back = live && !this.linked;
    this.linked = live;
    this.draw();
    if (back || (live && !this.alone())) this.look();
  }

  async look() {
    clearTimeout(this.timer);
    const asked = this.conversation;
    try {
      const view = await fetchCluster(asked);
      if (view && asked === this.conversation) this.take(view);
      if (!view) return; // a node without this route: nothing to show, ever
    } catch {
      // The link says it better.
    }
    clearTimeout(this.timer);
    if (this.alone()) return;
    this.timer = setTimeout(() => this.look(), this.conversation && !document.hidden ? often : seldom);
  }

  take(view) {
    if (view.owner && this.owner && view.owner !== this.owner) {
      this.news = { text: `${view.owner} owns this conversation now; ${this.owner} did before.`, until: Date.now() + shown };
    }
    if (view.owner) this.owner = view.owner;
    this.view = view;
    this.draw();
  }

  draw() {
    const nodes = this.view?.nodes || [];
    this.strip.hidden = nodes.length < 2;
    this.strip.replaceChildren(...nodes.map((node) => this.node(node)));
    const [state, text, links] = this.say(nodes);
    this.banner.hidden = !text;
    if (this.banner.dataset.text === text) return; // spoken once by a screen reader
    this.banner.dataset.text = text;
    this.banner.dataset.state = state;
    this.banner.replaceChildren(text, ...links.flatMap((node) => [' ', this.door(node, node.name)]));
  }

  /** What the banner says: how it is meant, the text, and the nodes to go to. */
  say(nodes) {
    const others = nodes.filter((node) => node.name !== this.view.node && node.state === 'up' && node.url);
    if (!this.linked) {
      const here = this.view?.node || 'the server';
      return ['bad', `No connection to ${here}. What runs goes on without this page.` + (others.length ? ' The same conversation on' : ''), others];
    }
    const owner = nodes.find((node) => node.name === this.owner);
    if (this.conversation && this.owner && (!this.view.owner || owner?.state === 'down')) {
      return ['warn', `${this.owner} owned this conversation and is gone: another node takes over.`, []];
    }
    if (this.news && Date.now() < this.news.until) return ['good', this.news.text, []];
    return ['', '', []];
  }

  node(node) {
    const item = document.createElement('li');
    item.dataset.node = node.name;
    const here = node.name === this.view.node;
    item.dataset.state = here && !this.linked ? 'down' : node.state;
    const owns = this.conversation && this.view.owner === node.name;
    if (owns) item.dataset.owner = 'true';
    item.title = `${node.name}: ${words[node.state] || node.state}, owns ${node.leads} shards, holds ${node.replicas}`;
    item.append(here || !node.url || node.state === 'down' ? node.name : this.door(node, node.name));
    const marks = [owns && 'owner', here && 'this page'].filter(Boolean);
    if (marks.length) {
      const mark = document.createElement('small');
      mark.textContent = marks.join(', ');
      item.append(mark);
    }
    return item;
  }

  /** A link to the same conversation, as the same user, on another node. */
  door(node, text) {
    const link = document.createElement('a');
    link.href = `${node.url}/#${this.conversation}` + (settings.token ? '' : `&user=${encodeURIComponent(settings.user)}`);
    link.textContent = text;
    return link;
  }
}
