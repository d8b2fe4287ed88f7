// One session: its record, its event log, the text of the answer under way. One store, fed by the session's event stream.

import { api, streamURL } from '../api.js';
import { Store, Stream } from '../store.js';
import { Trace } from './trace.js';

/** What the log of a session may hold (proto/conversationpb), and the pieces of an answer, which are not in it. */
const types = [
  'user.message', 'session.status_running', 'agent.message', 'session.status_idle', 'session.recovered', 'session.cancel_requested', 'session.updated',
  'agent.tool_use', 'agent.tool_result', 'budget.reserved', 'session.usage', 'budget.reached', 'action.requested', 'session.status_waiting',
  'action.resolved', 'action.expired', 'action.cancelled', 'session.truncated', 'message.feedback', 'file.added', 'file.removed',
  'tool.remembered', 'tool.forgotten', 'agent.partial', 'message.queued', 'message.unqueued', 'session.forked', 'agent.message.snapshot', 'agent.message.delta',
];

/** Events after which the record of the session is read anew: they say that something changed, not all of what. */
const telling = /^(session\.(status_|updated|truncated|usage)|action\.|budget\.reached|message\.)/;

const page = 1000;

/**
 * @typedef {{seq: number, type: string, data: any, run_id?: string, created_at: string}} Event
 * @typedef {{run: string, text: string, bytes: number}} Live the answer under way
 */

export class SessionLog {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.path = `/agents/sessions/${encodeURIComponent(id)}`;
    this.session = new Store(/** @type {any} */ (null));
    this.error = new Store(/** @type {any} */ (null));
    this.link = new Store(/** @type {import('../store.js').Link} */ ('connecting'));
    this.live = new Store(/** @type {Live|null} */ (null));
    /** Grows by one with each change of the log: the list itself is not copied. */
    this.version = new Store(0);
    /** @type {Event[]} */
    this.events = [];
    this.trace = new Trace();
    this.ready = new Store(false);
    this.last = 0;
    this.ended = new AbortController();
    /** @type {Stream|null} */
    this.stream = null;
    /** @type {any} */
    this.refreshing = 0;
    this.begin();
  }

  async begin() {
    const { signal } = this.ended;
    try {
      const session = await api.get(this.path, {}, { signal });
      if (signal.aborted) return;
      this.session.set(session);
      // Numbers of events grow by one, so that pages can be asked for at once.
      const pages = await Promise.all(Array.from({ length: Math.max(1, Math.ceil(session.last_event_seq / page)) }, (_, i) => (
        api.get(`${this.path}/events`, { after: i * page, limit: page }, { signal })
      )));
      if (signal.aborted) return;
      for (const one of pages) for (const event of one.data) this.add(event);
      this.ready.set(true);
      this.version.set((n) => n + 1);
      this.follow();
    } catch (error) {
      if (!signal.aborted) this.error.set(error);
    }
  }

  follow() {
    this.stream = new Stream(() => streamURL(`${this.path}/events/stream`, { after: this.last }), types, (type, data) => this.take(type, data), this.link);
  }

  /** @param {Event} event @returns {boolean} whether it is new */
  add(event) {
    if (event.seq <= this.last) return false;
    this.last = event.seq;
    this.events.push(event);
    this.trace.add(event);
    return true;
  }

  /** @param {string} type @param {any} data */
  take(type, data) {
    if (data.seq === undefined) { this.piece(type, data); return; }
    if (!this.add(data)) return;
    if (type === 'agent.message' || type === 'session.status_idle' || type === 'session.status_waiting') this.live.set(null);
    if (telling.test(type)) this.refresh();
    this.draw();
  }

  /** Many events of one moment are one drawing. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    setTimeout(() => { this.drawing = false; this.version.set((n) => n + 1); }, 30);
  }

  /** @param {string} type @param {any} frame text of the active run; offset counts bytes */
  piece(type, frame) {
    const { text = '', offset = 0 } = frame.data || {};
    const size = new TextEncoder().encode(text).length;
    const now = this.live.value;
    if (type === 'agent.message.snapshot') this.live.set({ run: frame.run_id, text, bytes: size });
    else if (!now || now.run !== frame.run_id) { if (offset === 0) this.live.set({ run: frame.run_id, text, bytes: size }); }
    else if (offset === now.bytes) this.live.set({ run: now.run, text: now.text + text, bytes: now.bytes + size });
    else if (offset > now.bytes) this.stream?.open(); // a piece is missing: its snapshot comes with the stream
  }

  /** Reads the record anew, soon. */
  refresh() {
    clearTimeout(this.refreshing);
    this.refreshing = setTimeout(() => {
      api.get(this.path, {}, { signal: this.ended.signal }).then((session) => this.session.set(session), () => {});
    }, 60);
  }

  close() {
    this.ended.abort();
    clearTimeout(this.refreshing);
    this.stream?.close();
  }

  /** @param {any} input text, or items @param {Record<string, any>} [more] */
  say(input, more = {}) {
    return api.post('/agents/responses', { model: this.session.value.agent, session_id: this.id, input, ...more }, { signal: this.ended.signal });
  }

  /** @param {any} action @param {Record<string, any>} resolution */
  async resolve(action, resolution) {
    const answer = await api.post(`${this.path}/actions/${encodeURIComponent(action.id)}`, { resolution: { type: action.kind, ...resolution } });
    this.refresh();
    return answer;
  }

  async cancel() {
    const answer = await api.post(`${this.path}/cancel`);
    this.session.set(answer.session);
    return answer;
  }

  /** Sets the budget; a session that was paused by it goes on. @param {{max_cost_usd: number, on_reach?: string}|null} budget */
  async budget(budget) {
    try {
      await api.patch(this.path, { budget });
    } catch (/** @type {any} */ error) {
      if (error.code !== 'agent_background_disabled') throw error;
      await api.patch(this.path, { budget, resume: false }); // it cannot go on by itself: the next message can
    }
    this.refresh();
  }
}
