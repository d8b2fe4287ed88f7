// The conversation: what was said, what waits, and where the next message is written.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib.js';
import { Time } from '../components/cells.js';
import { errorText } from '../components/failure.js';
import { Icon } from '../components/icon.js';
import { Json } from '../components/json.js';
import { money } from '../format.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { useStore } from '../store.js';
import { Budget } from './budget.js';
import { Markdown } from './markdown.js';
import { Wait } from './wait.js';
import { useMay } from '../who.js';

/** @typedef {import('./log.js').SessionLog} SessionLog */

const shownAtFirst = 60;

/**
 * The log as people read it: messages, tools between them, how turns ended.
 * @param {import('./log.js').Event[]} events
 */
export function items(events) {
  /** @type {any[]} */ let list = [];
  for (const event of events) {
    const { data } = event;
    if (event.type === 'user.message') {
      if (data.edited_from) { const at = list.findIndex((one) => one.id === data.edited_from); if (at >= 0) list = list.slice(0, at); }
      list.push({ key: event.seq, role: 'user', id: data.message_id, text: data.content, at: event.created_at, files: data.files });
    } else if (event.type === 'agent.message') {
      list.push({ key: event.seq, role: 'assistant', id: data.message_id, text: rest(list, data.content), at: event.created_at, usage: data.usage, stop: data.stop_reason });
    } else if (event.type === 'agent.tool_use') {
      list.push({ key: event.seq, role: 'tools', text: data.text, calls: (data.tool_calls || []).map((/** @type {any} */ call) => ({ ...call })), at: event.created_at });
    } else if (event.type === 'agent.tool_result') {
      for (const result of data.results || []) {
        const of = list.findLast((one) => one.calls?.some((/** @type {any} */ call) => call.tool_call_id === result.tool_call_id));
        const call = of?.calls.find((/** @type {any} */ one) => one.tool_call_id === result.tool_call_id);
        if (call) { call.result = result.result; call.done = true; }
      }
    } else if (event.type === 'session.truncated') {
      const at = list.findIndex((one) => one.id === data.message_id);
      if (at >= 0) list = list.slice(0, at + (data.keep ? 1 : 0));
    } else if (event.type === 'session.status_idle') {
      if (data.stop_reason === 'error') list.push({ key: event.seq, role: 'notice', bad: true, text: t('session.stopped.error', { why: data.error?.message || '' }), at: event.created_at });
      else if (data.stop_reason === 'cancelled') list.push({ key: event.seq, role: 'notice', text: t('session.stopped.cancelled'), at: event.created_at });
    }
  }
  return list;
}

/** An answer repeats what was said before its tools: that is shown already. @param {any[]} list @param {string} text */
function rest(list, text) {
  let at = list.length;
  while (at > 0 && list[at - 1].role === 'tools') at--;
  let left = text;
  for (const item of list.slice(at)) if (item.text && left.startsWith(item.text)) left = left.slice(item.text.length).trimStart();
  return left;
}

/** @param {{log: SessionLog, session: any, fork?: ((seq: number, id: string) => void)|null}} props */
export function Conversation({ log, session, fork = null }) {
  const version = useStore(log.version);
  const live = useStore(log.live);
  const [all, setAll] = useState(false);
  const may = useMay('agents', 'write');
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const stick = useRef(true);
  const list = useMemo(() => items(log.events), [version]);
  useLayoutEffect(() => { if (stick.current && box.current) box.current.scrollTop = box.current.scrollHeight; });
  const shown = all ? list : list.slice(-shownAtFirst);
  return html`<div class="conversation">
    <div class="said" ref=${box} tabindex="0" role="log" aria-label=${t('session.conversation')}
      onScroll=${() => { const at = box.current; if (at) stick.current = at.scrollHeight - at.scrollTop - at.clientHeight < 60; }}>
      ${!list.length && !live && html`<p class="soft">${t('session.none')}</p>`}
      ${shown.length < list.length && html`<p><button class="button" onClick=${() => { stick.current = false; setAll(true); }}>${t('session.older')} (${list.length - shown.length})</button></p>`}
      ${shown.map((item) => html`<${Item} key=${item.key} item=${item} session=${log.id} fork=${fork} />`)}
      ${live && html`<article class="message assistant streaming" aria-live="off"><${Markdown} text=${live.text} /></article>`}
      ${(session.pending_actions || []).map((/** @type {any} */ action) => html`<${Wait} key=${action.id} log=${log} action=${action} />`)}
      ${session.runtime_status === 'budget_paused' && html`<${Budget} key=${session.spent_usd} log=${log} session=${session} />`}
    </div>
    ${may && html`<${Composer} log=${log} session=${session} />`}
  </div>`;
}

/** @param {{item: any, session: string, fork: any}} props */
function Item({ item, session, fork }) {
  const event = () => go(`/dashboard/sessions/${session}?view=waterfall&event=${item.key}`);
  if (item.role === 'notice') return html`<p class="notice" data-bad=${item.bad}>${item.text}</p>`;
  if (item.role === 'tools') {
    return html`<div class="tools">${item.text && html`<div class="message assistant"><${Markdown} text=${item.text} /></div>`}
      ${item.calls.map((/** @type {any} */ call) => html`<details key=${call.tool_call_id} class="call"><summary>${call.done ? '✓' : '…'} ${t('session.tool.called', { tool: call.tool_name })}</summary>
        <${Json} value=${call.done ? { args: call.args, result: call.result } : { args: call.args }} label=${call.tool_name} /></details>`)}</div>`;
  }
  const mine = item.role === 'user';
  return html`<article class=${`message ${item.role}`} data-message=${item.id} aria-label=${t(mine ? 'session.you' : 'session.assistant')}>
    ${mine ? html`<div class="plain">${item.text}</div>` : html`<${Markdown} text=${item.text} />`}
    ${(item.files || []).map((/** @type {any} */ file) => html`<p class="faint" key=${file.id}>📎 ${file.name}</p>`)}
    <footer><${Time} at=${item.at} />${item.usage?.cost_usd !== undefined && html`<span class="number">${money(item.usage.cost_usd)}</span>`}
      <button class="tiny" onClick=${event}>${t('trace.event', { n: item.key })}</button>
      ${fork && html`<button class="tiny" onClick=${() => fork(item.key, item.id)}><${Icon} name="fork" /> ${t('session.fork.here')}</button>`}</footer>
  </article>`;
}

/** What was typed is kept by session, also when the page is left. @type {Map<string, string>} */
const drafts = new Map();

/** @param {{log: SessionLog, session: any}} props */
function Composer({ log, session }) {
  const [text, setText] = useState(drafts.get(log.id) || '');
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const write = (/** @type {string} */ to) => { drafts.set(log.id, to); setText(to); };
  const waits = session.runtime_status === 'requires_action';
  const running = session.runtime_status === 'running';
  const version = useStore(log.version);
  const sent = useRef('');
  // The log tells that the message has arrived, before its answer is there.
  useEffect(() => {
    if (!sent.current) return;
    const said = log.events.findLast((event) => event.type === 'user.message');
    if (said?.data.content === sent.current) { sent.current = ''; setBusy(false); write(''); }
  }, [version]);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const message = text.trim();
    if (!message || busy || waits || running) return;
    setBusy(true);
    setFailed('');
    sent.current = message;
    try {
      await log.say(message);
      if (sent.current) write('');
    } catch (error) {
      // A turn that fails later than its message is in the log, and told there.
      if (sent.current && !log.ended.signal.aborted) setFailed(t('session.unsent', { why: errorText(error) }));
    }
    sent.current = '';
    setBusy(false);
    log.refresh();
  };
  return html`<form class="composer" onSubmit=${send}>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${waits && html`<p class="faint">${t('session.waiting')}</p>`}
    <div><label class="hidden" for="composer">${t('session.composer')}</label>
      <textarea id="composer" rows="2" placeholder=${t('session.composer')} value=${text} onInput=${(/** @type {any} */ event) => write(event.target.value)}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event); }}></textarea>
      <button class="primary" id="send" disabled=${busy || waits || running || !text.trim()}>${t(busy ? 'session.sending' : 'session.send')}</button></div>
  </form>`;
}
