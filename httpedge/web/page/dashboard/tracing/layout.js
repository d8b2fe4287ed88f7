// From what was reported of a session to spans: order, nesting, times. Pure. Nothing of it is believed: times may be absent, parents
// missing or their own descendants.

/**
 * @typedef {import('../session/trace.js').Span} Span
 * @typedef {object} Reported an event, as GET /tracing/sessions/{sessionId} has it
 * @property {number} number @property {string} type @property {string} label @property {number} sequence
 * @property {string|null} timestamp @property {number} durationMs @property {string} status @property {string} error
 * @property {string|null} spanId @property {string|null} parentSpanId @property {string[]} modelNames @property {string} toolName
 * @property {number} inputTokens @property {number} outputTokens @property {{name: string, role: string, scope: string}} actor
 * @property {any} [sections] @property {any} [toolDetails]
 */

const deepest = 12;
const longest = 160;
const shownSections = 100;

/** @type {Map<string, 'model'|'tool'>} */
const kinds = new Map([['llm_call', 'model'], ['tool_call', 'tool']]);

/** @param {any} value @returns {number} a length in milliseconds */
const length = (value) => (Number.isFinite(value) && value > 0 ? value : 0);

/** @param {Reported} event */
export const failed = (event) => event.status === 'error' || Boolean(event.error);

/** @param {Reported} event @returns {string} how it is called */
export function titleOf(event) {
  const model = event.modelNames[0] || '';
  const name = event.label || event.toolName || model || event.actor.name || event.type;
  return (kinds.get(event.type) === 'model' && model && !name.includes(model) ? `${name} · ${model}` : name).slice(0, longest);
}

/**
 * When each event began: as it says, else when the one before it ended.
 * @param {Reported[]} events @param {number} startedAt of the session
 */
function timed(events, startedAt) {
  let end = startedAt;
  return [...events].sort((a, b) => a.sequence - b.sequence || a.number - b.number).map((event) => {
    const said = event.timestamp ? Date.parse(event.timestamp) : NaN;
    const from = Number.isFinite(said) ? said : end;
    end = from + length(event.durationMs);
    return { event, from, to: end };
  }).sort((a, b) => a.from - b.from || a.event.sequence - b.event.sequence || a.event.number - b.event.number);
}

/**
 * The place of each one's parent in the list, -1 where there is none. Of a circle the first one has none.
 * @param {{event: Reported}[]} all
 */
function parentsOf(all) {
  /** @type {Map<string, number>} */
  const places = new Map();
  for (const [i, { event }] of all.entries()) if (event.spanId && !places.has(event.spanId)) places.set(event.spanId, i);
  const parents = all.map(({ event }, i) => {
    const parent = event.parentSpanId ? places.get(event.parentSpanId) ?? -1 : -1;
    return parent === i ? -1 : parent;
  });
  const seen = new Array(all.length).fill(-1); // the walk that came here
  for (let walk = 0; walk < all.length; walk++) {
    let at = walk;
    while (at >= 0 && seen[at] < 0) { seen[at] = walk; at = parents[at]; }
    if (at < 0 || seen[at] !== walk) continue;
    let first = at;
    for (let next = parents[at]; next !== at; next = parents[next]) first = Math.min(first, next);
    parents[first] = -1;
  }
  return parents;
}

/**
 * @param {Reported[]} events @param {number} startedAt of the session, Unix milliseconds
 * @returns {{spans: Span[], first: number, last: number}} children behind their parents, else by their beginning; the time of all
 */
export function layout(events, startedAt) {
  const all = timed(events, startedAt);
  const parents = parentsOf(all);
  /** @type {number[][]} */
  const children = all.map(() => []);
  const waiting = [];
  for (const [i, parent] of parents.entries()) if (parent >= 0) children[parent].push(i);
  for (let i = all.length - 1; i >= 0; i--) if (parents[i] < 0) waiting.push({ i, depth: 0 });
  /** @type {Span[]} */
  const spans = [];
  while (waiting.length) {
    const { i, depth } = /** @type {{i: number, depth: number}} */ (waiting.pop());
    const { event, from, to } = all[i];
    const used = event.inputTokens > 0 || event.outputTokens > 0;
    spans.push({
      seq: event.number, kind: kinds.get(event.type) || (children[i].length ? 'turn' : 'step'), name: event.type, title: titleOf(event), from, to,
      depth: Math.min(depth, deepest), state: failed(event) ? 'bad' : 'ok', output: event,
      usage: used ? { input_tokens: event.inputTokens, output_tokens: event.outputTokens } : undefined,
    });
    for (const child of children[i].reverse()) waiting.push({ i: child, depth: depth + 1 });
  }
  const first = all.length ? all[0].from : startedAt;
  return { spans, first, last: all.reduce((most, { to }) => Math.max(most, to), first) };
}

const wentIn = ['input', 'args', 'arguments', 'request', 'parameters'];
const cameOut = ['output', 'result', 'response'];
const titles = ['label', 'title', 'name', 'role', 'kind', 'type'];
const contents = ['content', 'text', 'value', 'body', 'data'];

/** @param {any} value @returns {value is Record<string, any>} */
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** @param {Record<string, any>} value @param {string[]} names @returns {string|undefined} the first of the names that it has */
const nameIn = (value, names) => names.find((name) => Object.hasOwn(value, name) && value[name] !== null && value[name] !== '');

/**
 * What is shown of an event beside its numbers.
 * @param {Reported} event
 * @returns {{kind: 'input'|'output'|'details'|'section', title: string, value: any}[]} title: what it calls itself, of a section
 */
export function partsOf(event) {
  /** @type {ReturnType<typeof partsOf>} */
  const parts = [];
  const details = event.toolDetails;
  if (isObject(details)) {
    const taken = [nameIn(details, wentIn), nameIn(details, cameOut)];
    if (taken[0]) parts.push({ kind: 'input', title: '', value: details[taken[0]] });
    if (taken[1]) parts.push({ kind: 'output', title: '', value: details[taken[1]] });
    const rest = Object.entries(details).filter(([name]) => !taken.includes(name));
    if (rest.length) parts.push({ kind: 'details', title: '', value: Object.fromEntries(rest) });
  } else if (details !== undefined && details !== null) parts.push({ kind: 'details', title: '', value: details });
  const { sections } = event;
  if (!Array.isArray(sections)) {
    if (sections !== undefined && sections !== null) parts.push({ kind: 'section', title: '', value: sections });
    return parts;
  }
  for (const section of sections.slice(0, shownSections)) {
    const content = isObject(section) ? nameIn(section, contents) : undefined;
    const title = isObject(section) ? nameIn(section, titles) : undefined;
    parts.push({
      kind: 'section', title: title && typeof section[title] === 'string' ? section[title].slice(0, longest) : '',
      value: content ? section[content] : section,
    });
  }
  if (sections.length > shownSections) parts.push({ kind: 'section', title: '', value: sections.slice(shownSections) });
  return parts;
}

/** Sessions of a thread in the order in which they began. @template {{startedAt: string, sessionId: string}} T @param {T[]} sessions @returns {T[]} */
export const inOrder = (sessions) => [...sessions].sort((a, b) => Date.parse(a.startedAt) - Date.parse(b.startedAt) || (a.sessionId < b.sessionId ? -1 : 1));
