// What became of the turns of a conversation and of what they asked, computed from its log, event by event. It belongs to a message:
// to the answer that it cut short, or to the message that has none.

import { decided, ending } from './words.js';

export class Outcomes {
  constructor(me) {
    this.me = me;
    this.newest = '';          // id of the message that the log told last
    this.of = new Map();       // run id -> id of the message that its end belongs to
    this.ends = new Map();     // message id -> what ended its turn
    this.decisions = new Map(); // tool call id -> what was decided
  }

  /** Takes an event; returns what is told differently now: { message } or { call }, by its id. */
  take({ type, data, run_id: run }) {
    const id = data?.message_id;
    switch (type) {
      case 'user.message':
        this.newest = id;
        return {};
      case 'session.status_running': // goes on, too: then what cut it short before is over
        this.of.set(run, this.of.get(run) || this.newest);
        return this.end(this.of.get(run), null);
      case 'agent.message':
      case 'session.status_waiting':
        this.newest = id;
        this.of.set(run, id);
        return this.end(id, null);
      case 'session.status_idle':
        return this.end(this.of.get(run) || this.newest, ending(data.stop_reason, data.error?.message));
      case 'action.resolved':
      case 'action.expired':
      case 'action.cancelled':
        if (!data.tool_call_id) return {};
        this.decisions.set(data.tool_call_id, decided({ type, data }, this.me));
        return { call: data.tool_call_id };
      default:
        return {};
    }
  }

  end(message, how) {
    if (!message || (!how && !this.ends.has(message))) return {};
    if (how) this.ends.set(message, how);
    else this.ends.delete(message);
    return { message };
  }
}
