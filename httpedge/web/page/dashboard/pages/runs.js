// Background runs: those that run or wait, and for what; those that end while one looks; and the one that is open.

import { html, useEffect, useMemo, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { confirm } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Json } from '../components/json.js';
import { Panes } from '../components/panes.js';
import { Table } from '../components/table.js';
import { toast } from '../components/toast.js';
import { number, shortID } from '../format.js';
import { t } from '../messages.js';
import { setQuery } from '../router.js';
import { usePlace } from '../shell.js';
import { feed, useRead } from '../store.js';
import { useMay } from '../who.js';

const states = ['queued', 'running', 'requires_action', 'succeeded', 'failed', 'canceled'];
const over = (/** @type {string} */ status) => ['succeeded', 'failed', 'canceled'].includes(status);
/** What is asked again at most so often when the feed says that something changed. */
const pause = 1500;

/** @param {any} run */
function waits(run) {
  if (run.waits_for === 'place') return run.ahead ? t('runs.waits.place', { n: run.ahead }) : t('runs.waits.next');
  if (run.waits_for === 'session') return t('runs.waits.session');
  if (run.waits_for === 'person') return t('runs.waits.person');
  return run.error_type || '';
}

/** @param {any} run @param {() => void} done */
async function cancel(run, done) {
  if (await confirm({ title: t('runs.cancel'), text: t('runs.cancel.text', { id: shortID(run.id) }), yes: t('runs.cancel'), no: t('runs.cancel.no'), act: () => api.post(`/agents/runs/${encodeURIComponent(run.id)}/cancel`) })) {
    toast(t('runs.canceled'));
    done();
  }
}

/** @param {{params: any, address: any}} props */
export default function Runs({ params, address }) {
  const open = params?.id || null;
  const status = address.query.get('status') || '';
  const may = useMay('agents', 'write');
  const queue = useRead((signal) => api.get('/runs', {}, { signal }), []);
  const agents = useRead((signal) => api.get('/agents', {}, { signal }).then((list) => list.agents, () => []), []);
  const nameOf = (/** @type {string} */ key) => agents.value?.find((/** @type {any} */ one) => one.key === key)?.name || key;
  const [ended, setEnded] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    let timer = 0;
    const soon = () => { timer ||= window.setTimeout(() => { timer = 0; queue.reload(); }, pause); };
    const end = feed.on({ reset: soon, run: (row) => {
      if (!row.deleted && over(row.status)) setEnded((rows) => [row, ...rows.filter((one) => one.id !== row.id)].slice(0, 100));
      soon();
    } });
    return () => { end(); clearTimeout(timer); };
  }, []);
  const all = useMemo(() => {
    const gone = new Set(ended.map((row) => row.id));
    return [...(queue.value?.data || []).filter((/** @type {any} */ row) => !gone.has(row.id)), ...ended];
  }, [queue.value, ended]);
  const rows = all.filter((row) => !status || row.status === status);
  const columns = [
    { key: 'id', title: t('runs.run'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<code>${shortID(row.id)}</code>` },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
    ...(open ? [] : [
      { key: 'waits', title: t('runs.waits'), phone: false, cell: waits },
      { key: 'agent', title: t('sessions.agent'), phone: false, cell: (/** @type {any} */ row) => nameOf(row.agent) },
      { key: 'session', title: t('runs.session'), phone: false, cell: (/** @type {any} */ row) => html`<a href=${`/dashboard/sessions/${row.session_id}`} data-link>${shortID(row.session_id || '')}</a>` },
      { key: 'at', title: t('runs.created'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.created_at} />` },
      { key: 'do', title: '', cell: (/** @type {any} */ row) => may && !over(row.status) && html`<button class="tiny danger" onClick=${() => cancel(row, queue.reload)}>${t('runs.cancel')}</button>` },
    ]),
  ];
  const list = html`${!open && html`<h1 class="hidden">${t('nav.runs')}</h1>`}
    <div class="filters"><span class="faint grow" id="queue" data-queued=${queue.value?.queued ?? ''}>${queue.value ? t('runs.queue', { running: number(queue.value.running), queued: number(queue.value.queued) }) : ''}</span>
      <select aria-label=${t('sessions.status')} value=${status} onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
        <option value="">${t('sessions.filter.status')}</option>${states.map((one) => html`<option key=${one} value=${one}>${t(`state.${one}`)}</option>`)}</select></div>
    <${Table} label=${t('nav.runs')} columns=${columns} rows=${rows} loading=${!queue.value && queue.loading} error=${queue.error} retry=${queue.reload} selected=${open}
      href=${(/** @type {any} */ row) => `/dashboard/runs/${row.id}`} empty=${status && all.length ? html`<p class="note">${t('list.none')}</p>`
        : html`<${Empty} text=${t('runs.empty')} curl=${{ path: '/agents/responses', body: { model: 'AGENT', input: 'Hello', background: true } }} />`} />
    ${queue.value?.has_more && html`<p class="note">${t('runs.more')}</p>`}`;
  return html`<${Panes} list=${list} back="/dashboard/runs" thing=${open && html`<${Run} key=${open} id=${open} changed=${queue.reload} />`} />`;
}

/** @param {{id: string, changed: () => void}} props */
function Run({ id, changed }) {
  const read = useRead((signal) => api.get(`/agents/runs/${encodeURIComponent(id)}`, {}, { signal }), [id]);
  useEffect(() => feed.on({ run: (row) => { if (row.id === id) read.reload(); }, reset: () => read.reload() }), [id]);
  usePlace(shortID(id));
  const may = useMay('agents', 'write');
  const run = read.value;
  if (read.error && !run) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!run) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const callback = run.callback;
  return html`<article class="thing" data-ready="true" aria-label=${id}>
    <header class="session-head"><div><h1><${ID} id=${id} whole=${true} /></h1><p class="facts"><${Status} value=${run.status} /><span>${run.agent}</span></p></div>
      <div class="do"><a class="button" href=${`/dashboard/sessions/${run.session_id}`} data-link>${t('runs.session.open')}</a>
        ${may && !over(run.status) && html`<button class="button" id="cancel" onClick=${() => cancel(run, () => { read.reload(); changed(); })}>${t('runs.cancel')}</button>`}</div></header>
    <dl class="pairs">
      <div><dt>${t('runs.created')}</dt><dd><${Time} at=${run.created_at} /></dd></div>
      <div><dt>${t('runs.started')}</dt><dd><${Time} at=${run.started_at} /></dd></div>
      <div><dt>${t('runs.ended')}</dt><dd><${Time} at=${run.completed_at} /></dd></div>
      ${run.error && html`<div><dt>${t('runs.error')}</dt><dd class="bad">${run.error.type}: ${run.error.message}</dd></div>`}
      ${callback && html`<div><dt>${t('runs.callback')}</dt><dd><code>${callback.url}</code> <${Status} value=${callback.status} /> ${callback.last_error && html`<span class="bad">${callback.last_error}</span>`}</dd></div>`}
    </dl>
    ${run.result && html`<div class="delivery"><h2>${t('runs.result')}</h2><${Json} value=${run.result} label=${t('runs.result')} /></div>`}
  </article>`;
}
