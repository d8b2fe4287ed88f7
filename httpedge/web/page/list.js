// The list of a person's conversations.

import { button, element } from './dom.js';
import { call, settings } from './stream.js';

const pageSize = 30;

export const statusWords = { idle: 'idle', running: 'answering', waiting: 'waits for you', off: 'no conversation' };

export class List {
  constructor(box, more, { guarded, open, current }) {
    this.box = box;
    this.more = more;
    this.guarded = guarded;
    this.open = open;
    this.current = current; // () => id of the open conversation
    this.rows = [];
    more.addEventListener('click', guarded(() => this.load(this.rows.length)));
  }

  /** Reads the newest conversations, or those after the first ones. */
  async load(offset = 0) {
    const identity = settings.token ? '' : '&userId=' + encodeURIComponent(settings.user);
    const page = await call('GET', `/conversations?limit=${pageSize}&offset=${offset}&orderBy=updatedAt${identity}`);
    this.rows = this.rows.slice(0, offset).concat(page.conversations);
    this.more.hidden = !page.hasMore;
    this.draw();
  }

  /** What the stream says of a conversation's status, before the list is read again. */
  status(id, status) {
    const row = this.rows.find((other) => other.id === id);
    if (!row || row.runtime?.status === status) return;
    row.runtime = { ...row.runtime, status };
    this.draw();
  }

  draw() { this.box.replaceChildren(...this.rows.map((row) => this.row(row))); }

  row(row) {
    const choose = button('', '', this.guarded(() => this.open(row.id)));
    choose.dataset.id = row.id;
    if (this.current() === row.id) choose.setAttribute('aria-current', 'true');
    choose.append(element('span', 'name', (row.pinned ? '★ ' : '') + (row.title || 'Untitled conversation')));
    const meta = element('span', 'meta');
    meta.append(element('span', '', row.agentName || row.agentId), element('span', '', ago(row.updatedAt)));
    const status = row.runtime?.status;
    if (status === 'running' || status === 'waiting') meta.append(element('span', status, statusWords[status]));
    choose.append(meta);
    const item = element('li');
    item.append(choose);
    return item;
  }
}

function ago(iso) {
  const seconds = Math.max(0, (Date.now() - new Date(iso)) / 1000);
  if (seconds < 60) return 'now';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  return new Date(iso).toLocaleDateString();
}
