// A session that was reported, with its events: read page by page, as far as somebody looks.

import { api } from '../api.js';
import { Store } from '../store.js';

const page = 1000;
/** How many pages are read at once; of each the server gives at most 1 MiB. */
const pages = 8;

export class Record {
  /** @param {string} id */
  constructor(id) {
    this.path = `/tracing/sessions/${encodeURIComponent(id)}`;
    this.session = new Store(/** @type {any} */ (null));
    this.error = new Store(/** @type {any} */ (null));
    this.reading = new Store(false);
    /** Grows by one when there are more events. */
    this.version = new Store(0);
    /** @type {import('./layout.js').Reported[]} in the order in which they came */
    this.events = [];
    /** Whether the server has more. */
    this.more = false;
    this.ended = new AbortController();
    this.read();
  }

  /** Reads what is behind the events that are there. */
  async read() {
    if (this.reading.value) return;
    this.reading.set(true);
    this.error.set(null);
    const { signal } = this.ended;
    try {
      for (let n = 0; n < pages; n++) {
        const { events, hasMore, ...session } = await api.get(this.path, { after: this.events.length, limit: page }, { signal });
        if (signal.aborted) return;
        for (const event of events) this.events.push(event);
        this.more = hasMore;
        this.session.set(session);
        if (events.length) this.version.set((before) => before + 1);
        if (!hasMore) break;
      }
    } catch (error) {
      if (!signal.aborted) this.error.set(error);
    } finally {
      if (!signal.aborted) this.reading.set(false);
    }
  }

  close() { this.ended.abort(); }
}
