// The list of a person's conversations, and the search in it.

import { button, element } from './dom.js';
import { call, settings } from './stream.js';
import { dayOf, ending, when } from './words.js';

const pageSize = 30;
const searchPage = 100; // as much as the server gives at once
const mostHits = 20;    // messages of the open conversation that a search shows
const searched = 1000;  // conversations that a search looks through

const statusWords = { idle: 'idle', running: 'answering', waiting: 'waits for you', off: 'new' };

/** What a conversation does, or how it ended, in a word: { status, outcome, text }. */
export function standing({ status = 'off', stopReason } = {}) {
  const outcome = status === 'idle' ? ending(stopReason)?.state || '' : '';
  return { status, outcome, text: outcome || statusWords[status] || status };
}

export class List {
  constructor({ box, more, search, note }, { guarded, open, current, rename, remove, drawn, messages }) {
    Object.assign(this, { box, more, search, note });
    this.guarded = guarded;
    this.open = open;
    this.current = current; // () => id of the open conversation
    this.rename = rename;
    this.remove = remove;
    this.drawn = drawn;       // hears that the list is drawn anew
    this.messages = messages; // { find(words), show(id) } of the open conversation
    this.menu = '';           // id of the conversation whose menu is open
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
    this.hits = wanted ? this.messages.find(wanted) : [];
    const fits = (row) => `${title(row)} ${row.agentName || row.agentId}`.toLocaleLowerCase().includes(wanted) || (row.id === this.current() && this.hits.length > 0);
    const shown = wanted ? this.rows.filter(fits) : this.rows;
    const { id: focused, deed } = this.box.contains(document.activeElement) ? document.activeElement.dataset : {};
    let day = '';
    this.box.replaceChildren(...shown.map((row) => {
      const group = row.pinned ? 'Pinned' : dayOf(new Date(row.updatedAt));
      const first = group !== day;
      day = group;
      return this.row(row, first ? group : '');
    }));
    if (focused) this.box.querySelector(`[data-id="${CSS.escape(focused)}"]${deed ? `[data-deed="${deed}"]` : ''}`)?.focus();
    this.more.hidden = !this.rest || Boolean(wanted);
    const note = !wanted ? (shown.length > 0 ? '' : 'Nothing yet. What you write starts the first one.')
      : (shown.length > 0 ? '' : 'No title has this. ') + 'Titles are searched, and the messages of the open conversation.';
    this.drawn();
    if (this.note.textContent !== note) this.note.textContent = note;
  }

  menuButton(row) {
    const open = this.menu === row.id;
    const made = deed(row, 'menu', '⋯', 'row-menu', () => {
      this.menu = open ? '' : row.id;
      this.draw();
    });
    made.setAttribute('aria-label', 'more about ' + title(row));
    made.setAttribute('aria-expanded', String(open));
    return made;
  }

  deeds(row) {
    const box = element('div', 'row-deeds');
    const close = (action) => this.guarded(async () => {
      await action(row);
      this.menu = '';
      this.draw();
    });
    box.append(deed(row, 'rename', 'Rename', 'quiet', close(this.rename)), deed(row, 'delete', 'Delete', 'quiet danger', close(this.remove)));
    return box;
  }

  hit({ id, text }) {
    const made = button(text, 'hit', () => this.messages.show(id));
    made.dir = 'auto';
    return made;
  }

  /** The conversations in the list that wait for a person. */
  waiting() { return this.rows.filter((row) => row.runtime?.status === 'waiting').length; }

  row(row, group) {
    const choose = button('', 'open', this.guarded(() => this.open(row.id)));
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
    if (group) item.append(element('h2', 'day', group[0].toLocaleUpperCase() + group.slice(1)));
    const line = element('div', 'line');
    line.append(choose, this.menuButton(row));
    item.append(line);
    if (this.menu === row.id) item.append(this.deeds(row));
    if (row.id === this.current()) item.append(...this.hits.slice(0, mostHits).map((hit) => this.hit(hit)));
    return item;
  }
}

/** A word of the menu of a row. */
function deed(row, name, text, className, action) {
  const made = button(text, className, action);
  made.dataset.id = row.id;
  made.dataset.deed = name;
  return made;
}

export const title = (conversation) => conversation?.title || 'Untitled conversation';

function ago(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso)) / 1000);
  if (seconds < 60) return 'now';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  return dayOf(new Date(iso));
}
