// From the event log to spans: turns, with model calls, tools, waiting and marks in them. Pure; one event at a time, so that a live log
// costs no more than its new events.

/**
 * @typedef {object} Span
 * @property {number} seq of the event that began it: its name in the address
 * @property {'turn'|'model'|'tool'|'wait'|'mark'|'message'|'step'} kind turn: what others are in; step: anything else that was reported
 * @property {string} name @property {string} [title] how it is called, instead of words for its kind
 * @property {number} from milliseconds @property {number|null} to null = goes on
 * @property {number} depth
 * @property {string} [state] ok, bad, waits
 * @property {any} [input] @property {any} [output]
 * @property {any} [usage] @property {any} [action] @property {number} [end] seq of its last event
 * @property {boolean} [waited] a tool for which a person was asked: what is between is waiting, not work
 * @property {number} [attempt] @property {number|null} [spent] dollars of the session after it
 */

export class Trace {
  constructor() {
    /** @type {Span[]} in the order of their beginning */
    this.spans = [];
    /** @type {Span|null} */ this.turn = null;
    /** @type {Span|null} */ this.model = null;
    /** @type {Span|null} the model call that ended last: its usage is told after it */ this.called = null;
    /** @type {Map<string, Span>} by tool call */ this.tools = new Map();
    /** @type {Map<string, Span>} by action */ this.waits = new Map();
    this.turns = 0;
    /** @type {any} */ this.prompt = null;
    /** @type {{at: number, seq: number, spent: number}[]} */ this.money = [];
    /** @type {number|null} */ this.spent = null;
    this.first = 0;
    this.last = 0;
  }

  /** @param {Partial<Span> & {seq: number, kind: Span['kind'], name: string, from: number}} span @returns {Span} */
  push(span) {
    const made = /** @type {Span} */ ({ to: null, depth: this.turn ? 1 : 0, ...span });
    this.spans.push(made);
    return made;
  }

  /** @param {Span|null} span @param {number} at @param {Partial<Span>} [more] */
  end(span, at, more = {}) {
    if (span && span.to === null) Object.assign(span, { to: Math.max(at, span.from) }, more);
  }

  /** @param {import('./log.js').Event} event */
  add(event) {
    const at = Date.parse(event.created_at);
    this.first ||= at;
    this.last = Math.max(this.last, at);
    if (event.data?.spent_usd !== undefined) {
      this.spent = event.data.spent_usd;
      this.money.push({ at, seq: event.seq, spent: event.data.spent_usd });
    }
    const handle = /** @type {any} */ (this)[event.type];
    if (handle) handle.call(this, event, at);
    else if (marks.has(event.type)) this.mark(event, at, event.type);
  }

  /** @param {import('./log.js').Event} event @param {number} at @param {string} name @param {string} [state] */
  mark(event, at, name, state) {
    return this.push({ seq: event.seq, kind: 'mark', name, from: at, to: at, state, output: event.data });
  }

  'user.message'(/** @type {any} */ event, /** @type {number} */ at) {
    this.prompt = event.data;
    this.push({ seq: event.seq, kind: 'message', name: event.data.content, from: at, to: at, depth: 0, output: event.data });
  }

  'session.status_running'(/** @type {any} */ event, /** @type {number} */ at) {
    const { mode, attempt = 1 } = event.data;
    if (!this.turn || !['resolve', 'continue'].includes(mode || '') || this.turn.to !== null) {
      this.end(this.turn, at);
      this.turns++;
      this.turn = null;
      this.turn = this.push({ seq: event.seq, kind: 'turn', name: String(this.turns), from: at, attempt, input: this.prompt });
    }
    // After a decision the tool runs first; the model is called with its result.
    if (!this.tools.size) this.begin(event, at);
  }

  /** A model call begins where something was handed to the model. @param {any} event @param {number} at @param {any} [input] */
  begin(event, at, input) {
    this.end(this.model, at);
    this.model = this.push({ seq: event.seq, kind: 'model', name: '', from: at, input: input ?? this.prompt, attempt: event.data?.attempt });
  }

  'agent.tool_use'(/** @type {any} */ event, /** @type {number} */ at) {
    this.end(this.model, at, { output: { text: event.data.text, tool_calls: event.data.tool_calls }, usage: event.data.usage, end: event.seq, state: 'ok' });
    this.called = this.model;
    this.model = null;
    for (const call of event.data.tool_calls || []) {
      this.tools.set(call.tool_call_id, this.push({ seq: event.seq, kind: 'tool', name: call.tool_name, from: at, depth: 2, input: call.args }));
    }
  }

  'agent.tool_result'(/** @type {any} */ event, /** @type {number} */ at) {
    for (const result of event.data.results || []) {
      const bad = result.result && typeof result.result === 'object' && 'error' in result.result;
      this.end(this.tools.get(result.tool_call_id) || null, at, { output: result.result, end: event.seq, state: bad ? 'bad' : 'ok' });
      this.tools.delete(result.tool_call_id);
    }
    if (!this.tools.size && this.turn?.to === null) this.begin(event, at, { tool_results: event.data.results });
  }

  'action.requested'(/** @type {any} */ event, /** @type {number} */ at) {
    const action = event.data;
    const tool = this.tools.get(action.tool_call_id);
    if (tool) tool.waited = true;
    this.waits.set(action.action_id, this.push({
      seq: event.seq, kind: 'wait', name: action.tool_name || action.kind, from: at, depth: 3, state: 'waits', action, input: action.args,
    }));
  }

  'action.resolved'(/** @type {any} */ event, /** @type {number} */ at) { this.closed(event, at, event.data.resolution?.decision === 'deny' ? 'bad' : 'ok'); }
  'action.expired'(/** @type {any} */ event, /** @type {number} */ at) { this.closed(event, at, 'bad'); }
  'action.cancelled'(/** @type {any} */ event, /** @type {number} */ at) { this.closed(event, at, 'bad'); }

  /** @param {any} event @param {number} at @param {string} state */
  closed(event, at, state) {
    const wait = this.waits.get(event.data.action_id) || null;
    this.end(wait, at, { output: event.data, end: event.seq, state });
    this.waits.delete(event.data.action_id);
  }

  'agent.message'(/** @type {any} */ event, /** @type {number} */ at) {
    this.called = this.model; // the usage of the event is that of the whole turn
    this.end(this.model, at, { output: event.data.content, end: event.seq, state: event.data.stop_reason === 'error' ? 'bad' : 'ok' });
    this.model = null;
  }

  'session.usage'(/** @type {any} */ event) { if (this.called && event.data.usage) this.called.usage = event.data.usage; }

  'session.status_waiting'(/** @type {any} */ event, /** @type {number} */ at) {
    this.end(this.model, at, { state: 'ok', end: event.seq });
    this.model = null;
  }

  'session.status_idle'(/** @type {any} */ event, /** @type {number} */ at) {
    const reason = event.data.stop_reason;
    const state = reason === 'error' ? 'bad' : 'ok';
    this.end(this.model, at, { state, end: event.seq, output: event.data.error ? { error: event.data.error } : undefined });
    this.model = null;
    for (const tool of this.tools.values()) this.end(tool, at, { state: 'bad', end: event.seq });
    this.tools.clear();
    for (const wait of this.waits.values()) this.end(wait, at, { state: 'bad', end: event.seq });
    this.waits.clear();
    // A turn that its budget paused goes on later: until then it ends here.
    this.end(this.turn, at, { state, end: event.seq, output: event.data, usage: event.data.usage, spent: this.spent });
  }

  'session.recovered'(/** @type {any} */ event, /** @type {number} */ at) {
    const { model } = this;
    this.end(model, at, { state: 'bad', end: event.seq });
    this.mark(event, at, event.type, 'bad');
    if (model) this.begin(event, at, model.input);
  }

  'budget.reached'(/** @type {any} */ event, /** @type {number} */ at) { this.mark(event, at, event.type, 'waits'); }
}

/** Events that are a mark in the waterfall; the others are in the log only. */
const marks = new Set(['session.cancel_requested', 'session.truncated', 'message.queued', 'message.unqueued', 'session.forked', 'agent.partial', 'file.added', 'file.removed']);
