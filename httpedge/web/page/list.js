// The list of a person's conversations, and the search in it.

import { button, element } from './dom.js';
import { call, settings } from './stream.js';
import { dayOf, ending, when } from './words.js';

const pageSize = 30;
const searchPage = 100; // as much as the server gives at once
const searched = 1000;  // conversations that a search looks through

const statusWords = { idle: 'idle', running: 'answering', waiting: 'waits for you', off: 'new' };

/** What a conversation does, or how it ended, in a word: { status, outcome, text }. */
export function standing({ status = 'off', stopReason } = {}) {
  const outcome = status === 'idle' ? ending(stopReason)?.state || '' : '';
  return { status, outcome, text: outcome || statusWords[status] || status };
}

export class List {
  constructor({ box, more, search, note }, { guarded, open, current }) {
    Object.assign(this, { box, more, search, note });
    this.guarded = guarded;
    this.open = open;
    this.current = current; // () => id of the open conversation
    this.rows = [];
    more.addEventListener('click', guarded(() => this.read(this.rows.length, pageSize)));
    search.addEventListener('input', guarded(async () => {
      this.draw();
      if (this.sought()) await this.readAll();
    }));
  }

  sought() { return this.search.value.trim().toLocaleLowerCase(); }

  /** Reads the newest conversations anew, as many as are shown. */
  load() { return this.read(0, Math.min(searchPage, Math.max(pageSize, this.rows.length))); }

  async read(offset, limit) {
    const identity = settings.token ? '' : '&userId=' + encodeURIComponent(settings.user);
    const page = await call('GET', `/conversations?limit=${limit}&offset=${offset}&orderBy=updatedAt${identity}`);
    const fresh = new Set(page.conversations.map((row) => row.id));
    const after = this.rows.slice(offset + limit).filter((row) => !fresh.has(row.id));
    this.rows = [...this.rows.slice(0, offset).filter((row) => !fresh.has(row.id)), ...page.conversations, ...after];
    if (after.length === 0) this.rest = page.hasMore;
    this.draw();
  }

  /** Reads what a search has to look through. */
  async readAll() {
    if (this.reading) return;
    this.reading = true;
    try {
      while (this.rest && this.sought() && this.rows.length < searched) await this.read(this.rows.length, searchPage);
    } finally {
      this.reading = false;
    }
  }

  forget(id) {
    this.rows = this.rows.filter((row) => row.id !== id);
    this.draw();
  }

  /** What the stream says of a conversation's status, before the list is read again. */
  status(id, status, stopReason) {
    const row = this.rows.find((other) => other.id === id);
    if (!row || (row.runtime?.status === status && row.runtime.stopReason === stopReason)) return;
    row.runtime = { ...row.runtime, status, stopReason };
    this.draw();
  }

  draw() {
    const wanted = this.sought();
    const shown = wanted ? this.rows.filter((row) => `${title(row)} ${row.agentName || row.agentId}`.toLocaleLowerCase().includes(wanted)) : this.rows;
    const focused = this.box.contains(document.activeElement) ? document.activeElement.dataset.id : '';
    this.box.replaceChildren(...shown.map((row) => this.row(row)));
    if (focused) this.box.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
    this.more.hidden = !this.rest || Boolean(wanted);
    const note = shown.length > 0 ? '' : wanted ? 'No title has this.' : 'Nothing yet. What you write starts the first one.';
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  row(row) {
    const choose = button('', '', this.guarded(() => this.open(row.id)));
    choose.dataset.id = row.id;
    if (this.current() === row.id) choose.setAttribute('aria-current', 'true');
    const name = element('span', 'name', (row.pinned ? '★ ' : '') + title(row));
    name.dir = 'auto';
    choose.append(name);
    const meta = element('span', 'meta');
    const changed = element('span', '', ago(row.updatedAt));
    changed.title = when(new Date(row.updatedAt));
    meta.append(element('span', '', row.agentName || row.agentId), changed);
    const { status, outcome, text } = standing(row.runtime);
    if (outcome || status === 'running' || status === 'waiting') meta.append(element('span', outcome.replace(' ', '-') || status, text));
    choose.append(meta);
    const item = element('li');
    item.append(choose);
    return item;
  }
}

export const title = (conversation) => conversation?.title || 'Untitled conversation';

function ago(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso)) / 1000);
  if (seconds < 60) return 'now';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  return dayOf(new Date(iso));
}
