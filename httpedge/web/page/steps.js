// What a turn did between its words: its tool calls, each where it happened. The log tells with each model call what was said beside it.

export class Steps {
  constructor() {
    this.calls = new Map();  // call id -> the call, as a message has it, and as far as the log told of it
    this.beside = new Map(); // call id -> what was said before it; '' where another call of the same step comes first
    this.runs = new Map();   // run id -> ids of its calls
  }

  /** Takes an event; returns the ids of calls about which something is known now. */
  take({ type, data, run_id: run }) {
    if (type === 'agent.tool_use') {
      const ids = this.runs.get(run) || [];
      data.tool_calls.forEach(({ tool_call_id: id, tool_name: name, args }, at) => {
        if (this.beside.has(id)) return;
        this.beside.set(id, at === 0 ? data.text : '');
        this.calls.set(id, { id, name, arguments: JSON.stringify(args), running: true });
        ids.push(id);
      });
      this.runs.set(run, ids);
      return ids;
    }
    if (type !== 'agent.tool_result') return [];
    return data.results.map(({ tool_call_id: id, tool_name: name, result, error }) => {
      const { arguments: args = '{}' } = this.calls.get(id) || {};
      this.calls.set(id, { id, name, arguments: args, result, error: error ?? result?.error });
      return id;
    });
  }

  /** The calls of a message, and those that the log tells of a run. */
  all(stored = [], run = '') {
    const known = new Set(stored.map(({ id }) => id));
    return [...stored, ...(this.runs.get(run) || []).filter((id) => !known.has(id)).map((id) => this.calls.get(id))];
  }

  /** A call as it was read, with the outcome that the log told since. */
  latest(call) {
    const told = this.calls.get(call.id);
    if (call.result !== undefined || call.error || !told || told.running) return call;
    return { ...call, running: false, result: told.result, error: told.error };
  }

  /**
   * The words and the calls of an answer in their order: [{ text }, { call }, ..., { text }]; the last is always a text. Calls that the
   * log does not reach back to stand before the words that they led to.
   */
  arrange(content, calls = []) {
    const parts = [];
    let done = 0;
    for (const call of calls) {
      const said = (this.beside.get(call.id) || '').trim();
      const at = said ? content.indexOf(said, done) : -1;
      if (at >= 0) {
        parts.push({ text: content.slice(done, at + said.length).trim() });
        done = at + said.length;
      }
      parts.push({ call: this.latest(call) });
    }
    parts.push({ text: done > 0 ? content.slice(done).replace(/^\s*\n/, '') : content });
    return parts;
  }
}

/** The arguments of a call as names and values; null where they have none. */
export function named(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value) || Object.keys(value).length === 0) return null;
  return Object.entries(value).map(([name, of]) => [name, typeof of === 'string' ? of : JSON.stringify(of, null, 1)]);
}
