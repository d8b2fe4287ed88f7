// Sessions: the list with its filters in the address, and the session that is open beside it.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Money, Status, Time, useSettled } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Form } from '../components/form.js';
import { Panes } from '../components/panes.js';
import { Table, useLive, usePages } from '../components/table.js';
import { t } from '../messages.js';
import { go, setQuery } from '../router.js';
import { Session } from '../session/view.js';
import { feed, useRead } from '../store.js';
import { useMay } from '../who.js';

const states = ['idle', 'running', 'requires_action', 'budget_paused'];
const filters = ['text', 'agent', 'status', 'user'];

/** @param {URLSearchParams} query */
function listQuery(query) {
  const kept = new URLSearchParams();
  for (const name of filters) { const value = query.get(name); if (value) kept.set(name, value); }
  return kept.size ? `?${kept}` : '';
}

/** @param {{params: any, address: any}} props */
export default function Sessions({ params, address }) {
  const { query } = address;
  const open = params?.id || null;
  const chosen = Object.fromEntries(filters.map((name) => [name, query.get(name) || '']));
  const agents = useRead((signal) => api.get('/agents', {}, { signal }).then((list) => list.agents), []);
  const [making, setMaking] = useState(false);
  const may = useMay('agents', 'write');
  const pages = usePages(async (cursor, signal) => {
    const list = await api.get('/agents/sessions', { limit: 50, after: cursor, agent: chosen.agent, status: chosen.status, user: chosen.user, q: chosen.text }, { signal });
    return { rows: list.data, next: list.has_more ? list.next_cursor : null };
  }, filters.map((name) => chosen[name]));
  const filtered = filters.some((name) => chosen[name]);
  const fits = (/** @type {any} */ row) => (!chosen.agent || row.agent === chosen.agent) && (!chosen.status || row.runtime_status === chosen.status)
    && (!chosen.user || row.user === chosen.user) && (!chosen.text || (row.title || '').toLowerCase().includes(chosen.text.toLowerCase()));
  const live = useLive(pages, fits, 'session', (listener) => feed.on(listener));
  const [text, setText] = useSettled(chosen.text, (to) => setQuery({ text: to }, { replace: true }));
  const nameOf = (/** @type {string} */ key) => agents.value?.find((/** @type {any} */ one) => one.key === key)?.name || key;
  const columns = [
    { key: 'title', title: t('sessions.title'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.title || html`<span class="faint">${t('sessions.untitled')}</span>` },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.runtime_status === 'idle' && row.stop_reason === 'error' ? 'error' : row.runtime_status} />` },
    ...(open ? [] : [{ key: 'agent', title: t('sessions.agent'), phone: false, cell: (/** @type {any} */ row) => nameOf(row.agent) }]),
    { key: 'spent', title: t('sessions.spent'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Money} usd=${row.spent_usd} />` },
    ...(open ? [] : [{ key: 'at', title: t('sessions.updated'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.updated_at} />` }]),
  ];
  const make = may && html`<button class="primary" id="new-session" onClick=${() => setMaking(true)}>${t('sessions.new')}</button>`;
  const list = html`${!open && html`<h1 class="hidden">${t('nav.sessions')}</h1>`}<div class="filters" role="search">
      <input type="search" id="filter-text" aria-label=${t('sessions.filter.text')} placeholder=${t('sessions.filter.text')} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <select aria-label=${t('sessions.status')} id="filter-status" value=${chosen.status} onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
        <option value="">${t('sessions.filter.status')}</option>${states.map((one) => html`<option key=${one} value=${one}>${t(`state.${one}`)}</option>`)}</select>
      <select aria-label=${t('sessions.agent')} id="filter-agent" value=${chosen.agent} onChange=${(/** @type {any} */ event) => setQuery({ agent: event.target.value })}>
        <option value="">${t('sessions.filter.agent')}</option>${(agents.value || []).map((/** @type {any} */ one) => html`<option key=${one.key} value=${one.key}>${one.name}</option>`)}</select>
      ${filtered && html`<button class="tiny" onClick=${() => go(address.path)}>${t('do.clear')}</button>`}
      ${may && html`<button class="tiny" id="add-session" onClick=${() => setMaking(true)}>+ ${t('sessions.new')}</button>`}</div>
    <${Table} label=${t('nav.sessions')} columns=${columns} rows=${pages.rows} more=${Boolean(pages.next)} onMore=${pages.more} loading=${pages.loading} error=${pages.error} retry=${pages.reload}
      selected=${open} href=${(/** @type {any} */ row) => `/dashboard/sessions/${row.id}${listQuery(query)}`} changed=${live.changed} fresh=${live.fresh} onFresh=${live.show}
      empty=${filtered ? html`<p class="note">${t('list.none')}</p>` : html`<${Empty} text=${t('sessions.empty')} action=${make} curl=${{ path: '/agents/responses', body: { model: agents.value?.[0]?.key || 'AGENT', input: 'Hello' } }} />`} />`;
  return html`<${Panes} list=${list} back=${`/dashboard/sessions${listQuery(query)}`} thing=${open && html`<${Session} key=${open} id=${open} address=${address} />`} />
    ${making && html`<${Make} agents=${agents.value || []} close=${() => setMaking(false)} />`}`;
}

/** @param {{agents: any[], close: () => void}} props */
function Make({ agents, close }) {
  const usable = agents.filter((one) => one.status !== 'inactive');
  const make = async (/** @type {any} */ { agent, budget }) => {
    const made = await api.post('/agents/sessions', { agent, ...(budget && { budget: { max_cost_usd: budget } }) });
    close();
    go(`/dashboard/sessions/${made.id}`);
  };
  return html`<${Dialog} title=${t('sessions.new')} onClose=${close}>
    ${usable.length ? html`<${Form} autofocus submit=${t('sessions.new')} value=${{ agent: usable[0].key }} schema=${{ properties: {
      agent: { title: t('sessions.new.agent'), enum: usable.map((one) => one.key), names: usable.map((one) => one.name) },
      budget: { title: t('sessions.new.budget'), type: 'number', minimum: 0.000001 },
    }, required: ['agent'] }} onSubmit=${make} />` : html`<p>${t('sessions.new.none')}</p>`}<//>`;
}
