// The event log beside the conversation: every event as the stream tells it.

import { element } from './dom.js';

export const keptEvents = 500;

export class EventLog {
  constructor(list, newest) {
    this.list = list;
    this.newest = newest;
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.newest.textContent = '';
    this.deltas = null; // { row, count } of the answer that is being streamed
  }

  add(event) {
    const item = element('li', event.seq === undefined ? 'live' : '');
    item.dataset.type = event.type;
    const details = element('details');
    const summary = element('summary');
    const at = event.created_at ? new Date(event.created_at) : new Date();
    summary.append(element('span', 'seq', event.seq === undefined ? '·' : String(event.seq)), element('span', 'type', event.type),
      element('span', 'time', at.toLocaleTimeString([], { hour12: false })));
    details.append(summary, element('pre', '', JSON.stringify(event.data, null, 2)));
    item.append(details);
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 60;
    this.list.append(item);
    while (this.list.childElementCount > keptEvents) this.list.firstChild.remove();
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
    if (event.seq !== undefined) this.newest.textContent = 'last ' + event.seq;
    return item;
  }

  /** The pieces of one answer share a row. */
  addDelta(event) {
    this.deltas ||= { row: this.add({ ...event, data: {} }), count: 0 };
    this.deltas.count++;
    this.deltas.row.querySelector('.type').textContent = `agent.message.delta × ${this.deltas.count}`;
    this.deltas.row.querySelector('pre').textContent = JSON.stringify(event.data, null, 2);
  }

  endDeltas() { this.deltas = null; }
}
