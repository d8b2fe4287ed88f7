// One thread: its sessions in order, or the one that is open. Runs of this server's own sessions are read there.

import { html, useEffect } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { Failure } from '../components/failure.js';
import { Table } from '../components/table.js';
import { duration, number } from '../format.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { inOrder } from './layout.js';
import { agentOf, Conversation, Reported } from './session.js';

/** How often a thread of which something runs is looked at again, in milliseconds. */
const pause = 5000;

/** @param {{id: string, address: any}} props */
export function Thread({ id, address }) {
  const read = useRead((signal) => api.get(`/tracing/threads/${encodeURIComponent(id)}`, {}, { signal }), [id]);
  const thread = read.value;
  const runs = Boolean(thread?.statuses.includes('in_progress'));
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => { if (!document.hidden) read.reload(); }, pause);
    return () => clearInterval(timer);
  }, [runs, id]);
  const only = thread?.sessions.length === 1 && !thread.sessions[0].own ? thread.sessions[0].sessionId : null;
  const open = address.query.get('session') || only;
  usePlace(open ? '' : id.slice(0, 40));
  if (!thread) return read.error ? html`<${Failure} error=${read.error} retry=${read.reload} />` : html`<p class="note" role="status">${t('list.loading')}</p>`;
  const base = `/dashboard/tracing/${encodeURIComponent(id)}`;
  const conversation = thread.sessions.some((/** @type {any} */ one) => one.own);
  if (open) return html`<${Reported} key=${open} id=${open} thread=${base} alone=${Boolean(only)} conversation=${conversation} address=${address} />`;
  const columns = [
    { key: 'agent', title: t('tracing.agent'), kind: /** @type {const} */ ('wide'), cell: agentOf },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
    { key: 'model', title: t('tracing.model'), phone: false, cell: (/** @type {any} */ row) => row.modelsUsed.join(', ') || '–' },
    { key: 'tools', title: t('tracing.tools'), phone: false, cell: (/** @type {any} */ row) => row.toolsUsed.join(', ') || '–' },
    { key: 'events', title: t('tracing.events'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.totalEvents) },
    { key: 'tokens', title: t('tracing.tokens'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.summary.totalInputTokens + row.summary.totalOutputTokens) },
    { key: 'took', title: t('tracing.took'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => duration(row.durationMs) },
    { key: 'at', title: t('tracing.started'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.startedAt} />` },
  ];
  const rows = inOrder(thread.sessions).map((/** @type {any} */ row) => ({ ...row, id: `${row.own ? 'own' : 'reported'} ${row.sessionId}` }));
  const href = (/** @type {any} */ row) => (row.own ? `/dashboard/sessions/${encodeURIComponent(id)}?view=waterfall&run=${encodeURIComponent(row.sessionId)}`
    : `${base}?session=${encodeURIComponent(row.sessionId)}`);
  return html`<article class="thing" data-ready="true" aria-label=${id}>
    <header class="session-head"><div><h1>${id}</h1>
      <p class="facts"><${Status} value=${thread.status} /><span>${t('tracing.count', { n: thread.sessionsCount })}</span><span class="number">${duration(thread.totalDurationMs)}</span>
        <span class="number">${t('trace.tokens', { in: number(thread.totalInputTokens), out: number(thread.totalOutputTokens) })}</span><${ID} id=${id} /></p></div>
      <div class="do">${conversation && html`<${Conversation} thread=${id} />`}</div></header>
    ${read.error && html`<${Failure} error=${read.error} retry=${read.reload} />`}
    <${Table} label=${t('tracing.sessions')} columns=${columns} rows=${rows} href=${href} />
    ${thread.sessionsCount > rows.length && html`<p class="note">${t('tracing.newest', { n: number(rows.length) })}</p>`}
  </article>`;
}
