// Stores: state outside of components, which draw anew when it changes. One store for each event stream.

import { useEffect, useState } from './lib.js';
import { streamURL } from './api.js';

/** @template T */
export class Store {
  /** @param {T} value */
  constructor(value) {
    this.value = value;
    /** @type {Set<(value: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {T | ((before: T) => T)} next */
  set(next) {
    const value = typeof next === 'function' ? /** @type {any} */ (next)(this.value) : next;
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener(value);
  }

  /** @param {(value: T) => void} listener @returns {() => void} ends it */
  on(listener) {
    this.listeners.add(listener);
    return () => { this.listeners.delete(listener); };
  }
}

/** @template T @param {Store<T>} store @returns {T} */
export function useStore(store) {
  const [, draw] = useState({});
  const drawn = store.value;
  useEffect(() => { // after the frame, in which the store may have changed
    const end = store.on(() => draw({}));
    if (!Object.is(drawn, store.value)) draw({});
    return end;
  }, [store]);
  return drawn;
}

/** How a stream is: 'connecting', 'live', 'lost'. @typedef {'connecting'|'live'|'lost'} Link */

/** How long a hidden tab keeps its streams, in milliseconds. */
const hiddenFor = 5000;

/**
 * An event stream that comes again by itself, also when the server ended it with an error. What it tells goes to take; open says that it
 * is there (again).
 */
export class Stream {
  /**
   * @param {() => string} url asked anew for each connection
   * @param {string[]} types of events
   * @param {(type: string, data: any, id: string) => void} take
   * @param {Store<Link>} link
   */
  constructor(url, types, take, link) {
    this.url = url; this.types = types; this.take = take; this.link = link;
    this.wait = 0;
    /** @type {EventSource|null} */
    this.source = null;
    /** @type {any} */
    this.timer = 0;
    this.again = () => { if (!document.hidden && (!this.source || this.link.value === 'lost')) { this.wait = 0; this.open(); } };
    // Over HTTP/1.1 a browser has six connections for all of its tabs, and a page that is left may be kept for "back" with its streams:
    // who does not look, does not listen.
    this.leave = () => { clearTimeout(this.timer); this.source?.close(); this.source = null; };
    this.seen = () => {
      clearTimeout(this.hiding);
      if (document.hidden) this.hiding = setTimeout(this.leave, hiddenFor); else this.again();
    };
    /** @type {any} */
    this.hiding = 0;
    addEventListener('online', this.again);
    addEventListener('pageshow', this.again);
    addEventListener('pagehide', this.leave);
    document.addEventListener('visibilitychange', this.seen);
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    this.source?.close();
    const source = new EventSource(this.url());
    this.source = source;
    source.onopen = () => { this.wait = 0; this.link.set('live'); };
    source.onerror = () => {
      if (this.source !== source) return;
      source.close(); // its own retry would ask for the address of the first time
      this.link.set('lost');
      this.wait = Math.min(Math.max(this.wait * 2, 500), 15000);
      this.timer = setTimeout(() => this.open(), this.wait * (0.75 + Math.random() / 2));
    };
    for (const type of this.types) {
      source.addEventListener(type, (event) => {
        if (this.source !== source) return;
        let data = null;
        try { data = JSON.parse(event.data); } catch { return; }
        this.take(type, data, event.lastEventId);
      });
    }
  }

  close() {
    this.leave();
    clearTimeout(this.hiding);
    removeEventListener('online', this.again);
    removeEventListener('pageshow', this.again);
    removeEventListener('pagehide', this.leave);
    document.removeEventListener('visibilitychange', this.seen);
  }
}

/** The project's feed: rows of sessions and runs that changed. Open while somebody listens. */
class Feed {
  constructor() {
    this.link = new Store(/** @type {Link} */ ('connecting'));
    /** @type {Set<{session?: (row: any) => void, run?: (row: any) => void, reset?: () => void}>} */
    this.listeners = new Set();
    /** @type {Stream|null} */
    this.stream = null;
  }

  /**
   * @param {{session?: (row: any) => void, run?: (row: any) => void, reset?: () => void}} listener reset: rows may have been missed, read
   * the list again
   * @returns {() => void} ends it
   */
  on(listener) {
    this.listeners.add(listener);
    this.stream ||= new Stream(() => streamURL('/live'), ['ready', 'session', 'run', 'reset'], (type, data) => this.take(type, data), this.link);
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size) return;
      // A page that follows another one keeps the stream.
      setTimeout(() => { if (!this.listeners.size) this.end(); }, 1000);
    };
  }

  /** @param {string} type @param {any} data */
  take(type, data) {
    for (const listener of [...this.listeners]) {
      if (type === 'session') listener.session?.(data);
      else if (type === 'run') listener.run?.(data);
      else listener.reset?.();
    }
  }

  /** Ends the stream, for example when the project changes; those who listen get another one. */
  end() {
    this.stream?.close();
    this.stream = null;
    this.link.set('connecting');
    if (this.listeners.size) {
      this.stream = new Stream(() => streamURL('/live'), ['ready', 'session', 'run', 'reset'], (type, data) => this.take(type, data), this.link);
    }
  }
}

export const feed = new Feed();

/**
 * Reads something for a component, and again when deps change.
 * @template T @param {(signal: AbortSignal) => Promise<T>} read @param {any[]} deps
 * @returns {{value: T|null, error: any, loading: boolean, reload: () => void, set: (value: T|null) => void}}
 */
export function useRead(read, deps) {
  const [state, set] = useState(/** @type {{value: any, error: any, loading: boolean}} */ ({ value: null, error: null, loading: true }));
  const [round, setRound] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    set((before) => ({ ...before, loading: true }));
    read(ended.signal).then(
      (value) => { if (!ended.signal.aborted) set({ value, error: null, loading: false }); },
      (error) => { if (!ended.signal.aborted) set((before) => ({ ...before, error, loading: false })); },
    );
    return () => ended.abort();
  }, [...deps, round]);
  return { ...state, reload: () => setRound((n) => n + 1), set: (value) => set({ value, error: null, loading: false }) };
}
