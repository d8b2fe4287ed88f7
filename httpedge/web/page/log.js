// The event log beside the conversation: every event as the stream tells it. What is not shown is not drawn.

import { element } from './dom.js';

export const keptEvents = 500;
const drawnAtOnce = 30; // rows in one frame
const clock = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false }); // made once: making one is slow

export class EventLog {
  constructor(rows, newest) {
    this.rows = rows;
    this.newest = newest;
    this.shown = false;
    rows.addEventListener('toggle', ({ target }) => this.detail(target), true); // it does not bubble
    this.clear();
  }

  clear() {
    this.rows.replaceChildren();
    this.newest.textContent = '';
    this.entries = []; // { event, at, count, row }
    this.drawn = 0;    // entries that have a row, from the oldest on
    this.deltas = null; // the entry of the answer that is being streamed
  }

  /** Opens or closes the log. */
  show(shown) {
    this.shown = shown;
    if (!shown) {
      this.rows.replaceChildren();
      this.drawn = 0;
    }
    this.soon();
  }

  add(event) {
    const entry = { event, at: event.created_at ? new Date(event.created_at) : new Date(), count: 0, row: null };
    this.entries.push(entry);
    if (this.entries.length > keptEvents && this.entries.shift().row) {
      this.rows.firstChild?.remove();
      this.drawn = Math.max(0, this.drawn - 1);
    }
    if (event.seq !== undefined) this.last = event.seq;
    this.soon();
    return entry;
  }

  /** The pieces of one answer share a row. */
  addDelta(event) {
    this.deltas ||= this.add(event);
    this.deltas.event = event;
    this.deltas.count++;
    this.soon();
  }

  endDeltas() {
    if (this.deltas) this.name(this.deltas);
    this.deltas = null;
  }

  /** Draws what came, once in a frame. */
  soon() {
    if (!this.shown) return;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.shown) return;
    const until = Math.min(this.entries.length, this.drawn + drawnAtOnce);
    this.rows.append(...this.entries.slice(this.drawn, until).map((entry) => this.row(entry)));
    this.drawn = until;
    if (this.deltas) this.name(this.deltas);
    if (this.last !== undefined && this.entries.length > 0) this.newest.textContent = 'last ' + this.last;
    if (until < this.entries.length) this.soon();
  }

  row(entry) {
    const { event, at } = entry;
    const row = element('li', event.seq === undefined ? 'live' : '');
    row.dataset.type = event.type;
    row.entry = entry;
    entry.row = row;
    const details = element('details');
    const summary = element('summary');
    summary.append(element('span', 'seq', event.seq === undefined ? '·' : String(event.seq)), element('span', 'type'),
      element('span', 'time', clock.format(at)));
    details.append(summary);
    row.append(details);
    this.name(entry);
    return row;
  }

  name({ row, event, count }) {
    if (row) row.querySelector('.type').textContent = count > 0 ? `${event.type} × ${count}` : event.type;
  }

  detail(details) {
    details.querySelector('pre')?.remove();
    if (details.open) details.append(element('pre', '', JSON.stringify(details.parentNode.entry.event.data, null, 2)));
  }
}
