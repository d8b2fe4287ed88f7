// What runs, waits, fails and costs now; for owners the cluster.

import { html, useEffect } from '../lib.js';
import { api } from '../api.js';
import { Money, Status, Time } from '../components/cells.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Table } from '../components/table.js';
import { money, number } from '../format.js';
import { t } from '../messages.js';
import { feed, useRead } from '../store.js';

/** What is asked again at most so often when the feed says that something changed. */
const pause = 2000;

export default function Overview() {
  const { value, error, reload } = useRead((signal) => api.get('/overview', {}, { signal }), []);
  const recent = useRead((signal) => api.get('/agents/sessions', { limit: 8 }, { signal }).then((list) => list.data), []);
  useEffect(() => {
    let timer = 0;
    const soon = () => { timer ||= window.setTimeout(() => { timer = 0; reload(); recent.reload(); }, pause); };
    const end = feed.on({ session: soon, run: soon, reset: soon });
    return () => { end(); clearTimeout(timer); };
  }, []);
  if (error && !value) return html`<${Failure} error=${error} retry=${reload} />`;
  const count = (/** @type {string} */ status) => { const one = value?.sessions?.[status]; return one ? `${number(one.count)}${one.more ? '+' : ''}` : '0'; };
  const usage = value?.usage;
  const least = usage?.partial ? '≥ ' : '';
  const rows = recent.value || [];
  const empty = recent.value && !rows.length;
  const columns = [
    { key: 'title', title: t('sessions.title'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.title || t('sessions.untitled') },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.runtime_status} />` },
    { key: 'spent', title: t('sessions.spent'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Money} usd=${row.spent_usd} />` },
    { key: 'at', title: t('sessions.updated'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.updated_at} />` },
  ];
  const href = (/** @type {any} */ row) => `/dashboard/sessions/${row.id}`;
  return html`<div class="page overview" aria-busy=${!value}><h1>${t('nav.overview')}</h1>
    <ul class="numbers">
      <${Number} value=${count('running')} name=${t('overview.running')} href="/dashboard/sessions?status=running" />
      <${Number} value=${count('requires_action')} name=${t('overview.waits')} href="/dashboard/sessions?status=requires_action" tone=${count('requires_action') !== '0' ? 'warn' : ''} />
      <${Number} value=${count('budget_paused')} name=${t('overview.budget')} href="/dashboard/sessions?status=budget_paused" tone=${count('budget_paused') !== '0' ? 'warn' : ''} />
      ${value?.runs && html`<${Number} value=${number(value.runs.queued)} name=${t('overview.queued')} />`}
      ${usage && html`<${Number} value=${number(usage.failed_24h)} name=${t('overview.failed')} tone=${usage.failed_24h ? 'bad' : ''} />
        <${Number} value=${least + money(usage.today_usd, 2)} name=${t('overview.today')} />
        <${Number} value=${least + money(usage.seven_days_usd, 2)} name=${t('overview.week')} note=${usage.unpriced_calls ? t('overview.unpriced', { n: usage.unpriced_calls }) : ''} />`}
    </ul>
    ${empty ? html`<${Empty} text=${t('overview.start')} action=${html`<a class="primary button" href="/dashboard/sessions" data-link>${t('nav.sessions')}</a>`}
      curl=${{ path: '/agents/responses', body: { model: 'AGENT', input: 'Hello' } }} />` : html`
    <section class="part"><h2>${t('overview.waiting')}</h2>
      ${value?.waiting?.length ? html`<div class="boxed"><${Table} label=${t('overview.waiting')} rows=${value.waiting} columns=${columns} href=${href} /></div>` : html`<p class="soft">${t('overview.waiting.none')}</p>`}</section>
    <section class="part"><h2>${t('overview.recent')}</h2><div class="boxed"><${Table} label=${t('overview.recent')} rows=${rows} columns=${columns} href=${href} loading=${!recent.value} /></div></section>`}
    ${value?.cluster && html`<${Cluster} cluster=${value.cluster} />`}
  </div>`;
}

/** @param {{value: string, name: string, href?: string, tone?: string, note?: string}} props */
function Number({ value, name, href, tone = '', note = '' }) {
  const inner = html`<strong class="number" data-tone=${tone}>${value}</strong><span>${name}</span>${note && html`<small class="faint">${note}</small>`}`;
  return html`<li>${href ? html`<a href=${href} data-link>${inner}</a>` : html`<div>${inner}</div>`}</li>`;
}

/** @param {{cluster: any}} props */
function Cluster({ cluster }) {
  const names = cluster.nodes.map((/** @type {any} */ node) => node.name);
  return html`<section class="part"><h2>${t('overview.cluster')}</h2>
    <div class="boxed"><${Table} label=${t('overview.cluster')} rows=${cluster.nodes.map((/** @type {any} */ node) => ({ ...node, id: node.name }))} columns=${[
      { key: 'name', title: t('overview.node'), kind: 'wide', cell: (/** @type {any} */ node) => node.name },
      { key: 'state', title: t('sessions.status'), cell: (/** @type {any} */ node) => html`<${Status} value=${node.state} />` },
      { key: 'leads', title: t('overview.leads'), kind: 'number', cell: (/** @type {any} */ node) => node.leads },
      { key: 'holds', title: t('overview.replicas'), kind: 'number', cell: (/** @type {any} */ node) => node.replicas },
    ]} /></div>
    <ul class="shards" aria-label=${t('overview.shards')}>${cluster.shards.map((/** @type {any} */ shard) => html`<li key=${shard.shard} data-series=${names.indexOf(shard.owner) < 0 ? 5 : names.indexOf(shard.owner) % 5}
      title=${t('overview.shard', { n: shard.shard, owner: shard.owner || t('overview.nobody') })}><span class="hidden">${t('overview.shard', { n: shard.shard, owner: shard.owner || t('overview.nobody') })}</span></li>`)}</ul></section>`;
}
