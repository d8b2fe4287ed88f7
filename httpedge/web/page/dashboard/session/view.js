// The page of one session: head, views, what can be done.

import { html, useEffect, useMemo, useState } from '../lib.js';
import { api, linkURL } from '../api.js';
import { ID, Status, useSettled } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Tabs } from '../components/panes.js';
import { toast } from '../components/toast.js';
import { spanName, Waterfall } from '../components/waterfall.js';
import { money } from '../format.js';
import { useKeys } from '../keys.js';
import { t } from '../messages.js';
import { useActions } from '../palette.js';
import { go, setQuery } from '../router.js';
import { usePlace } from '../shell.js';
import { useStore } from '../store.js';
import { Conversation } from './conversation.js';
import { Detail } from './detail.js';
import { Files } from './files.js';
import { SessionLog } from './log.js';
import { LogView } from './logview.js';
import { Money } from './money.js';
import { canFork, fork } from './fork.js';
import { useMay } from '../who.js';

const views = ['conversation', 'waterfall', 'log', 'files', 'money'];

/** @param {{id: string, address: any}} props */
export function Session({ id, address }) {
  const log = useMemo(() => new SessionLog(id), [id]);
  useEffect(() => () => log.close(), [log]);
  const session = useStore(log.session);
  const error = useStore(log.error);
  const ready = useStore(log.ready);
  if (error && !session) return html`<${Failure} error=${error} retry=${() => { log.error.set(null); log.begin(); }} />`;
  if (!session) return html`<p class="note" aria-busy="true">${t('list.loading')}</p>`;
  return html`<${Open} log=${log} session=${session} ready=${ready} address=${address} key=${id} />`;
}

/** @param {{log: SessionLog, session: any, ready: boolean, address: any}} props */
function Open({ log, session, ready, address }) {
  const version = useStore(log.version);
  const link = useStore(log.link);
  const error = useStore(log.error);
  const [comparing, setComparing] = useState(false);
  const [forks, setForks] = useState(false);
  useEffect(() => { canFork().then(setForks); }, []);
  const may = useMay('agents', 'write');
  const view = views.includes(address.query.get('view')) ? address.query.get('view') : 'conversation';
  const title = session.title || t('sessions.untitled');
  const base = `/dashboard/sessions/${log.id}`;
  const busy = may && (session.runtime_status === 'running' || session.runtime_status === 'requires_action');
  usePlace(title);
  const cancel = () => busy && confirm({
    title: t('session.cancel.title'), text: t('session.cancel.text', { title }), yes: t('session.cancel.yes'), no: t('session.cancel.no'), act: () => log.cancel(),
  });
  const allow = () => {
    const action = may && (session.pending_actions || []).find((/** @type {any} */ one) => one.kind === 'tool_approval');
    if (action) log.resolve(action, { decision: 'allow' }).catch(toast);
  };
  const forkHere = forks && may ? (/** @type {number} */ _seq, /** @type {string} */ message) => fork(log.id, message).catch(toast) : null;
  useKeys({ a: allow, x: cancel, f: () => /** @type {HTMLElement|null} */ (document.querySelector('.pane-thing input[type="search"]'))?.focus(), Escape: () => go('/dashboard/sessions' + keepList(address)) });
  useActions(() => [
    ...views.map((one) => ({ label: t(`session.${one}`), kind: t('palette.action'), act: () => setQuery({ view: one === 'conversation' ? null : one }) })),
    ...(busy ? [{ label: t('session.cancel.title'), kind: t('palette.action'), act: cancel }] : []),
  ]);
  const remove = async () => {
    const done = await confirm({ title: t('session.delete.title'), text: t('session.delete.text', { title }), yes: t('session.delete'), act: () => api.remove(log.path) });
    if (done) go('/dashboard/sessions');
  };
  return html`<div class="session" data-ready=${ready} data-version=${version}>
    <header class="session-head"><div><h1>${title}</h1>
      <p class="facts"><${Status} value=${session.runtime_status} /><span>${t('session.turns', { n: log.trace.turns })}</span>
        <span class="number">${session.budget ? t('session.spentOf', { spent: money(session.spent_usd), budget: money(session.budget.max_cost_usd, 2) }) : money(session.spent_usd)}</span>
        <a href=${`/dashboard/agents/${session.agent}`} data-link>${session.agent}</a><${ID} id=${log.id} /></p></div>
      <div class="do">${busy && html`<button class="button" id="cancel" onClick=${cancel}>${t('session.cancel')}</button>`}
        ${forks && may && html`<button class="button" id="fork" onClick=${() => fork(log.id, '').catch(toast)}>${t('session.fork')}</button>`}
        <button class="button no-phone" id="compare" onClick=${() => setComparing(true)}>${t('session.compare')}</button>
        ${log.trace.turns > 0 && html`<a class="button no-phone" id="trace" href=${`/dashboard/tracing/${encodeURIComponent(log.id)}`} data-link>${t('tracing.trace')}</a>`}
        <a class="button no-phone" href=${linkURL(`${log.path}/events`, { limit: 1000 })} download=${`${log.id}.json`}>${t('session.export')}</a>
        ${may && html`<button class="button" id="delete" onClick=${remove}>${t('session.delete')}</button>`}</div></header>
    ${link === 'lost' && html`<p class="lost" role="status">${t('session.lost')}</p>`}
    ${error && html`<${Failure} error=${error} retry=${() => { log.error.set(null); log.begin(); }} />`}
    <${Tabs} label=${t('session.views')} open=${view} href=${(/** @type {string} */ key) => tabAddress(base, key, address)} tabs=${views.map((key) => ({ key, title: t(`session.${key}`) }))} />
    ${view === 'conversation' && html`<${Conversation} log=${log} session=${session} fork=${forkHere} />`}
    ${view === 'waterfall' && html`<${Falls} log=${log} session=${session} address=${address} base=${base} />`}
    ${view === 'log' && html`<${LogView} log=${log} address=${address} />`}
    ${view === 'files' && html`<${Files} log=${log} />`}
    ${view === 'money' && html`<${Money} log=${log} session=${session} />`}
    ${comparing && html`<${Dialog} title=${t('compare.title')} onClose=${() => setComparing(false)}>
      <${Form} autofocus submit=${t('compare.do')} schema=${{ properties: { other: { title: t('session.compare.with') } }, required: ['other'] }}
        onSubmit=${(/** @type {any} */ { other }) => go(`/dashboard/compare?a=${log.id}&b=${encodeURIComponent(other.trim())}`)} /><//>`}
  </div>`;
}

/** The list beside the session keeps its filters. @param {any} address */
function keepList(address) {
  const query = new URLSearchParams(address.query);
  for (const own of ['view', 'event', 'run', 'q', 'type']) query.delete(own);
  return query.size ? `?${query}` : '';
}

/** @param {string} base @param {string} view @param {any} address */
function tabAddress(base, view, address) {
  const query = new URLSearchParams(keepList(address));
  if (view !== 'conversation') query.set('view', view);
  return base + (query.size ? `?${query}` : '');
}

/** @param {{log: SessionLog, session: any, address: any, base: string}} props */
function Falls({ log, session, address, base }) {
  const version = useStore(log.version);
  const [follow, setFollow] = useState(!address.query.get('event') && !address.query.get('run'));
  const [fold, setFold] = useState(true);
  const [text, setText] = useSettled(address.query.get('q') || '', (q) => setQuery({ q }, { replace: true }));
  const { trace } = log;
  const run = address.query.get('run'); // an address may name a run instead: its first bar
  const selected = Number(address.query.get('event')) || (run && log.events.find((event) => event.run_id === run && event.type === 'session.status_running')?.seq) || null;
  const wanted = (address.query.get('q') || '').toLowerCase();
  const found = useMemo(() => (wanted ? new Set(trace.spans.filter((span) => spanName(span).toLowerCase().includes(wanted)
    || JSON.stringify([span.input, span.output]).toLowerCase().includes(wanted)).map((span) => span.seq)) : null), [wanted, version]);
  const live = session.runtime_status === 'running' || session.runtime_status === 'requires_action';
  const href = (/** @type {any} */ span) => { const query = new URLSearchParams(address.query); query.delete('run'); query.set('event', String(span.seq)); return `${base}?${query}`; };
  // An address may name any event: its bar is the one that it began, ended, or happened in.
  const chosen = selected === null ? null : trace.spans.findLast((span) => span.seq === selected) || trace.spans.find((span) => span.end === selected)
    || trace.spans.findLast((span) => span.seq <= selected) || null;
  const jump = (/** @type {Event} */ event) => {
    event.preventDefault();
    const next = trace.spans.find((span) => found?.has(span.seq) && span.seq > (selected || 0)) || trace.spans.find((span) => found?.has(span.seq));
    if (next) { setFollow(false); go(href(next)); }
  };
  if (!trace.spans.length) return html`<p class="note">${t('trace.none')}</p>`;
  return html`<div class="falls" data-chosen=${Boolean(chosen)}>
    <div class="falls-main"><form class="filters" onSubmit=${jump}><input type="search" aria-label=${t('trace.search')} placeholder=${t('trace.search')} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      ${found && html`<span class="faint" role="status">${t('trace.found', { n: found.size })}</span>`}
      <label class="tick"><input type="checkbox" id="fold" checked=${fold} onChange=${(/** @type {any} */ event) => setFold(event.target.checked)} />${t('trace.fold')}</label>
      <button type="button" class="tiny" id="follow" aria-pressed=${follow} onClick=${() => setFollow(!follow)}>${t('trace.follow')}</button></form>
      <${Waterfall} spans=${trace.spans} money=${trace.money} from=${trace.first} to=${trace.last} live=${live} selected=${chosen} fold=${fold} follow=${follow} onFollow=${setFollow}
        href=${href} open=${(/** @type {any} */ span, /** @type {any} */ how) => go(href(span), how)} found=${found} version=${version} /></div>
    <div class="falls-detail"><${Detail} log=${log} session=${session} span=${chosen} back=${tabAddress(base, 'waterfall', address)} /></div>
  </div>`;
}
