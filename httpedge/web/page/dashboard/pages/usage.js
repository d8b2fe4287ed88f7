// Usage and cost of a span of days: a chart over time, and who and what it was.

import { html } from '../lib.js';
import { api } from '../api.js';
import { Money } from '../components/cells.js';
import { Chart } from '../components/chart.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Tabs } from '../components/panes.js';
import { Table } from '../components/table.js';
import { money, number } from '../format.js';
import { known, t } from '../messages.js';
import { setQuery } from '../router.js';
import { useRead } from '../store.js';

const groups = ['model', 'user', 'token', 'agent', 'service'];
const day = 86_400_000;
const date = (/** @type {number} */ at) => new Date(at).toISOString().slice(0, 10);

/** All days of a span, so that those without any use are seen as such. @param {string} from @param {string} to @param {string} interval */
function periods(from, to, interval) {
  const all = [];
  const step = interval === 'hour' ? 3_600_000 : day;
  for (let at = Date.parse(`${from}T00:00:00Z`), end = Math.min(Date.parse(`${to}T00:00:00Z`) + day, Date.now() + step); at < end && all.length < 1000; at += step) all.push(at);
  return all;
}

/** @param {any} row @param {string} group */
function nameOf(row, group) {
  switch (group) {
    case 'model': return row.model_name || row.model_key || t('usage.none.model');
    case 'user': return row.name || row.label || row.user_id || t('usage.none.user');
    case 'token': return row.label || row.api_token_id || t('usage.none.token');
    case 'agent': return row.name || row.agent_key || t('usage.none.agent');
    default: return known(`usage.service.${row.service}`) ? t(`usage.service.${row.service}`) : row.service;
  }
}

/** @param {{address: any}} props */
export default function Usage({ address }) {
  const { query } = address;
  const to = query.get('to') || date(Date.now());
  const from = query.get('from') || date(Date.parse(to) - 29 * day);
  const group = groups.includes(query.get('by') || '') ? query.get('by') || '' : 'model';
  const interval = Date.parse(to) - Date.parse(from) < 2 * day ? 'hour' : 'day';
  const overTime = useRead((signal) => api.get('/analytics/usage', { group_by: 'model', interval, from, to }, { signal }), [from, to, interval]);
  const parts = useRead((signal) => api.get('/analytics/usage', { group_by: group, from, to }, { signal }).then((value) => ({ group, rows: value.by_model || value.breakdown })), [from, to, group]);
  const overview = useRead((signal) => api.get('/analytics/overview', { from, to }, { signal }), [from, to]);
  const totals = overTime.value?.totals;
  const by = new Map((overTime.value?.timeseries || []).map((/** @type {any} */ row) => [Date.parse(row.period), row]));
  const points = overTime.value ? periods(from, to, interval).map((at) => ({ at, row: by.get(at), name: interval === 'hour' ? new Date(at).toISOString().slice(5, 16).replace('T', ' ') : date(at).slice(5) })) : [];
  const rows = parts.value?.group === group ? (parts.value?.rows || []).map((/** @type {any} */ row, /** @type {number} */ i) => ({ ...row, id: `${group}${i}`, title: nameOf(row, group), count: row.calls ?? row.requests })) : [];
  const span = (/** @type {number} */ days) => setQuery({ from: date(Date.now() - (days - 1) * day), to: date(Date.now()) });
  const error = overTime.error || parts.error;
  const top = rows.slice(0, 10);
  const columns = [
    { key: 'title', title: t(`usage.by.${group}`), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.routed_calls ? html`${row.title} <small class="faint">${t('usage.routed', { n: row.routed_calls, cost: money(row.routed_cost || 0) })}</small>` : row.title },
    { key: 'count', title: t('usage.calls'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.count) },
    { key: 'in', title: t('usage.input'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.input_tokens) },
    { key: 'out', title: t('usage.output'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.output_tokens) },
    { key: 'cost', title: t('usage.cost'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Money} usd=${row.unpriced && !row.cost ? null : row.cost} />` },
  ];
  return html`<div class="page usage" aria-busy=${overTime.loading || parts.loading || parts.value?.group !== group}>
    <div class="page-head"><h1>${t('nav.usage')}</h1>
      ${[1, 7, 30, 90].map((days) => html`<button class="tiny" key=${days} onClick=${() => span(days)}>${t('usage.days', { n: days })}</button>`)}
      <label class="hidden" for="usage-from">${t('usage.from')}</label><input class="small" id="usage-from" type="date" value=${from} max=${to} onChange=${(/** @type {any} */ event) => event.target.value && setQuery({ from: event.target.value, to })} />
      <span aria-hidden="true">–</span><label class="hidden" for="usage-to">${t('usage.to')}</label><input class="small" id="usage-to" type="date" value=${to} min=${from} onChange=${(/** @type {any} */ event) => event.target.value && setQuery({ from, to: event.target.value })} /></div>
    ${error && html`<${Failure} error=${error} retry=${() => { overTime.reload(); parts.reload(); }} />`}
    ${totals && html`<ul class="numbers">
      <${Number} value=${money(totals.cost)} name=${t('usage.cost')} note=${totals.unpriced ? t('usage.unpriced', { n: totals.unpriced }) : ''} id="total-cost" />
      <${Number} value=${number(totals.calls)} name=${t('usage.calls')} note=${totals.cache_hits ? t('usage.hits', { n: totals.cache_hits }) : ''} />
      <${Number} value=${number(totals.input_tokens)} name=${t('usage.input')} />
      <${Number} value=${number(totals.output_tokens)} name=${t('usage.output')} />
      ${overview.value && html`<${Number} value=${number(overview.value.stats.tracing.totalSessions)} name=${t('usage.sessions')} />`}</ul>`}
    ${totals && !totals.calls && html`<${Empty} text=${t('usage.empty')} curl=${{ path: '/analytics/usage?group_by=model' }} />`}
    ${totals?.calls > 0 && html`<div class="boxes">
      <div class="rows-box padded"><${Chart} label=${t('usage.chart.cost')} points=${points.map(({ name, row }) => ({ name, values: [row?.cost || 0] }))} series=${[t('usage.cost')]} format=${(/** @type {number} */ value) => money(value, value && value < 0.1 ? 4 : 2)} /></div>
      <div class="rows-box padded"><${Chart} label=${t('usage.chart.tokens')} points=${points.map(({ name, row }) => ({ name, values: [row?.total_tokens || 0] }))} series=${[t('usage.tokens')]} format=${(/** @type {number} */ value) => number(Math.round(value))} /></div></div>
    <section class="part"><${Tabs} label=${t('usage.by')} open=${group} href=${(/** @type {string} */ key) => `?${new URLSearchParams({ from, to, by: key })}`} tabs=${groups.map((key) => ({ key, title: t(`usage.by.${key}`) }))} />
      ${top.length > 1 && html`<div class="rows-box padded"><${Chart} label=${t('usage.chart.by')} points=${top.map((/** @type {any} */ row) => ({ name: row.title.slice(0, 14), values: [row.cost || 0] }))} series=${[t('usage.cost')]} format=${(/** @type {number} */ value) => money(value, value && value < 0.1 ? 4 : 2)} /></div>`}
      <div class="rows-box"><${Table} label=${t(`usage.by.${group}`)} columns=${columns} rows=${rows} loading=${parts.loading && !rows.length} empty=${html`<p class="note">${t('list.none')}</p>`} /></div></section>`}
  </div>`;
}

/** @param {{value: string, name: string, note?: string, id?: string}} props */
function Number({ value, name, note = '', id }) {
  return html`<li><div><strong class="number" id=${id}>${value}</strong><span>${name}</span>${note && html`<small class="faint">${note}</small>`}</div></li>`;
}
