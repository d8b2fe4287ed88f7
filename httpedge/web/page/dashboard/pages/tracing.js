// Tracing: threads of what agents did, ours and those that programs report, and the one that is open beside them.

import { html } from '../lib.js';
import { api } from '../api.js';
import { Status, Time } from '../components/cells.js';
import { Empty } from '../components/empty.js';
import { Panes } from '../components/panes.js';
import { Table, usePages } from '../components/table.js';
import { number } from '../format.js';
import { t } from '../messages.js';
import { useRead } from '../store.js';
import { Thread } from '../tracing/thread.js';

const size = 50;
/** How far the server's list can be skipped. */
const furthest = 10_000;
const days = 30;
/** Statuses of sessions that go on once a person has done something. */
const waits = ['requires_action', 'budget_paused'];

/** @param {{params: any, address: any}} props */
export default function Tracing({ params, address }) {
  const open = params?.id || null;
  const pages = usePages(async (cursor, signal) => {
    const skip = Number(cursor || 0);
    const { threads, total } = await api.get('/tracing/threads', { limit: size, skip }, { signal });
    const next = skip + size;
    return { rows: threads.map((/** @type {any} */ row) => ({ ...row, id: row.threadId })), next: next < total && next <= furthest ? String(next) : null };
  }, []);
  const from = new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
  // Who may not see the project's numbers sees its threads.
  const overview = useRead((signal) => api.get('/analytics/overview', { from, to: new Date().toISOString().slice(0, 10) }, { signal }).then(({ stats, recent_sessions }) => ({ ...stats.tracing, waiting: recent_sessions.filter((/** @type {any} */ row) => waits.includes(row.status)).length }), () => null), [from]);
  const stats = overview.value;
  const columns = [
    { key: 'thread', title: t('tracing.thread'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<span title=${row.threadId}>${row.threadId}</span>` },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.latestStatus} />` },
    ...(open ? [] : [
      { key: 'agents', title: t('tracing.agents'), phone: false, cell: (/** @type {any} */ row) => row.agents.join(', ') || '–' },
      { key: 'sessions', title: t('tracing.sessions'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.sessionsCount) },
      { key: 'events', title: t('tracing.events'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.totalEvents) },
      { key: 'tokens', title: t('tracing.tokens'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.totalInputTokens + row.totalOutputTokens) },
    ]),
    { key: 'at', title: t('tracing.started'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.startedAt} />` },
  ];
  const curl = { method: 'POST', path: '/tracing/sessions', body: { sessionId: 'run-1', threadId: 'ticket-7', agent: { name: 'Support' }, events: [{ type: 'llm_call', label: 'chat', inputTokens: 812, durationMs: 1840 }] } };
  const list = html`${!open && html`<h1 class="hidden">${t('nav.tracing')}</h1>
      ${stats && html`<ul class="numbers"><${Count} value=${stats.totalSessions} name=${t('tracing.stats.sessions')} /><${Count} value=${stats.totalTokens} name=${t('tracing.stats.tokens')} />
        <${Count} value=${stats.activeSessions} name=${t('tracing.stats.active')} /><${Count} value=${stats.waiting} name=${t('tracing.stats.waiting')} /></ul>`}`}
    <${Table} label=${t('nav.tracing')} columns=${columns} rows=${pages.rows} more=${Boolean(pages.next)} onMore=${pages.more} loading=${pages.loading} error=${pages.error} retry=${pages.reload}
      selected=${open} href=${(/** @type {any} */ row) => `/dashboard/tracing/${encodeURIComponent(row.threadId)}`} empty=${html`<${Empty} text=${t('tracing.empty')} curl=${curl} />`} />`;
  return html`<${Panes} list=${list} back="/dashboard/tracing" thing=${open && html`<${Thread} key=${open} id=${open} address=${address} />`} />`;
}

/** @param {{value: number, name: string}} props */
function Count({ value, name }) {
  return html`<li><div><strong class="number">${number(value)}</strong><span>${name}</span></div></li>`;
}
