// Agents: the list with its filter in the address, and the agent that is open beside it.

import { html, useState } from '../lib.js';
import { Agent } from '../agent/view.js';
import { besideField, draftOf, fields } from '../agent/fields.js';
import { api } from '../api.js';
import { Status, Time } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Form } from '../components/form.js';
import { Panes } from '../components/panes.js';
import { Table, usePages } from '../components/table.js';
import { t } from '../messages.js';
import { go, setQuery } from '../router.js';
import { useRead } from '../store.js';
import { useMay } from '../who.js';

const states = ['active', 'inactive', 'draft'];
const limit = 100;

/** @param {{params: any, address: any}} props */
export default function Agents({ params, address }) {
  const open = params?.key || null;
  const status = address.query.get('status') || '';
  const [making, setMaking] = useState(false);
  const may = useMay('agents', 'write');
  const models = useRead((signal) => api.get('/models', { category: 'llm' }, { signal }).then((list) => list.models), []);
  const pages = usePages(async (cursor, signal) => {
    const offset = Number(cursor || 0);
    const list = await api.get('/agents', { limit, offset, status }, { signal });
    return { rows: list.agents, next: list.agents.length === limit ? String(offset + limit) : null };
  }, [status]);
  const kept = status ? `?status=${status}` : '';
  const columns = [
    { key: 'name', title: t('agents.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.name },
    { key: 'status', title: t('agents.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} word=${t(`agents.status.${row.status}`)} />` },
    ...(open ? [] : [
      { key: 'model', title: t('agents.model'), phone: false, cell: (/** @type {any} */ row) => row.config.modelKey || html`<span class="faint">${t('agents.connected')}</span>` },
      { key: 'at', title: t('agents.created'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.createdAt} />` },
    ]),
    { key: 'version', title: t('agents.version'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => row.publishedVersion ?? html`<span class="faint">–</span>` },
  ];
  const make = may && html`<button class="primary" id="make-first" onClick=${() => setMaking(true)}>${t('agents.new')}</button>`;
  const list = html`${!open && html`<h1 class="hidden">${t('nav.agents')}</h1>`}<div class="filters" role="search">
      <select aria-label=${t('agents.status')} id="filter-status" value=${status} onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
        <option value="">${t('agents.filter.status')}</option>${states.map((one) => html`<option key=${one} value=${one}>${t(`agents.status.${one}`)}</option>`)}</select>
      <span class="gap"></span>${may && html`<button class="tiny" id="new-agent" onClick=${() => setMaking(true)}>+ ${t('agents.new')}</button>`}</div>
    <${Table} label=${t('nav.agents')} columns=${columns} rows=${pages.rows} more=${Boolean(pages.next)} onMore=${pages.more} loading=${pages.loading} error=${pages.error} retry=${pages.reload}
      selected=${open} href=${(/** @type {any} */ row) => `/dashboard/agents/${encodeURIComponent(row.key)}${kept}`}
      empty=${status ? html`<p class="note">${t('list.none')}</p>` : html`<${Empty} text=${t('agents.empty')} action=${make}
        curl=${{ method: 'POST', path: '/agents', body: { name: 'Helper', config: { modelKey: models.value?.[0]?.key || 'MODEL', systemPrompt: 'You help people briefly.' } } }} />`} />`;
  return html`<${Panes} list=${list} back=${`/dashboard/agents${kept}`} thing=${open && html`<${Agent} key=${open} id=${open} address=${address} models=${models.value || []} changed=${pages.reload} />`} />
    ${making && html`<${Make} models=${models.value || []} close=${() => setMaking(false)} made=${pages.reload} />`}`;
}

/** @param {{models: any[], close: () => void, made: () => void}} props */
function Make({ models, close, made }) {
  const [connected, setConnected] = useState(false);
  const make = async (/** @type {any} */ value) => {
    const { agent } = await api.post('/agents', draftOf({ config: { kind: connected ? 'external' : 'native' } }, value)).catch((error) => { throw besideField(error); });
    close();
    made();
    go(`/dashboard/agents/${encodeURIComponent(agent.key)}`);
  };
  const all = fields(connected, models);
  const names = connected ? ['name', 'protocol', 'url', 'model', 'apiKey'] : ['name', 'modelKey', 'systemPrompt'];
  return html`<${Dialog} title=${t('agents.new')} onClose=${close}>
    <div class="row choice" role="radiogroup" aria-label=${t('agents.kind')}>${[false, true].map((kind) => html`<label key=${kind}><input type="radio" name="kind" checked=${connected === kind} onChange=${() => setConnected(kind)} />
      ${t(kind ? 'agents.kind.connected' : 'agents.kind.native')}</label>`)}</div>
    ${!connected && !models.length ? html`<p>${t('agents.new.models')} <a href="/dashboard/models" data-link>${t('nav.models')}</a></p>`
      : html`<${Form} key=${connected} autofocus submit=${t('agents.new.do')} value=${connected ? { protocol: 'a2a' } : { modelKey: models[0]?.key }}
      schema=${{ properties: Object.fromEntries(names.map((name) => [name, all.properties[name]])), required: all.required }} onSubmit=${make} />`}<//>`;
}
