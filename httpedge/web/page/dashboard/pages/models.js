// Models and the providers that serve them: two lists, and what is open beside them.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Form } from '../components/form.js';
import { Panes, Tabs } from '../components/panes.js';
import { Table, usePages } from '../components/table.js';
import { besideField } from '../agent/fields.js';
import { t } from '../messages.js';
import { modelFields, modelOf, newProvider, providerOf } from '../model/fields.js';
import { useGuardrails } from '../model/guardrails.js';
import { Model } from '../model/model.js';
import { Provider } from '../model/provider.js';
import { go } from '../router.js';
import { useMay } from '../who.js';

/** @param {{params: any, address: any}} props */
export default function Models({ params, address }) {
  const open = params?.key || params?.provider || null;
  const view = params?.provider || address.query.get('view') === 'providers' ? 'providers' : 'models';
  const [making, setMaking] = useState('');
  const may = useMay('models', 'write');
  // One answer has all of both: there are as many as a project may record.
  const pages = usePages(async (_cursor, signal) => {
    const [models, providers] = await Promise.all([api.get('/models', {}, { signal }), api.get('/models/providers', {}, { signal })]);
    return { rows: [...models.models.map((/** @type {any} */ one) => ({ ...one, kind: 'models' })), ...providers.providers.map((/** @type {any} */ one) => ({ ...one, kind: 'providers' }))], next: null };
  }, []);
  const rows = pages.rows.filter((row) => row.kind === view);
  const providers = pages.rows.filter((row) => row.kind === 'providers');
  const nameOf = (/** @type {string} */ key) => providers.find((one) => one.key === key)?.label || key;
  const href = (/** @type {string} */ kind) => `/dashboard/models${kind === 'providers' ? '?view=providers' : ''}`;
  const kind = view === 'models' ? 'model' : 'provider';
  const columns = view === 'models' ? [
    { key: 'name', title: t('models.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.name },
    ...(open ? [] : [{ key: 'category', title: t('models.category'), cell: (/** @type {any} */ row) => t(`models.category.${row.category}`) },
      { key: 'id', title: t('models.modelId'), phone: false, cell: (/** @type {any} */ row) => html`<code>${row.modelId}</code>` }]),
    { key: 'provider', title: t('models.provider'), cell: (/** @type {any} */ row) => nameOf(row.providerKey) },
  ] : [
    { key: 'label', title: t('models.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.label || row.key },
    { key: 'status', title: t('models.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
    ...(open ? [] : [{ key: 'driver', title: t('models.driver'), phone: false, cell: (/** @type {any} */ row) => row.driver },
      { key: 'credentials', title: t('models.credentials'), cell: (/** @type {any} */ row) => (Object.keys(row.credentials).join(', ') || html`<span class="faint">–</span>`) }]),
  ];
  const at = (/** @type {any} */ row) => `/dashboard/models/${view === 'providers' ? 'providers/' : ''}${encodeURIComponent(row.key)}`;
  const row = open && rows.find((one) => one.key === open || one._id === open);
  const make = may && html`<button class="primary" id="make-first" onClick=${() => setMaking(kind)}>${t(`models.new.${kind}`)}</button>`;
  const curl = view === 'models' ? { method: 'POST', path: '/models', body: { name: 'Fast', providerKey: providers[0]?.key || 'PROVIDER', category: 'llm', modelId: 'MODEL', settings: {}, pricing: {} } }
    : { method: 'POST', path: '/models/providers', body: { key: 'mine', label: 'Mine', driver: 'openai', credentials: { apiKey: 'KEY' } } };
  const list = html`<h1 class="hidden">${t('nav.models')}</h1><div class="list-head"><${Tabs} label=${t('models.views')} open=${view} href=${href} tabs=${['models', 'providers'].map((key) => ({ key, title: t(`models.view.${key}`) }))} />
      ${may && html`<button class="tiny" id="new-${kind}" onClick=${() => setMaking(kind)}>+ ${t(`models.new.${kind}`)}</button>`}</div>
    <${Table} key=${view} label=${t(`models.view.${view}`)} columns=${columns} rows=${rows} loading=${pages.loading} error=${pages.error} retry=${pages.reload} href=${at} selected=${row ? row._id : null}
      empty=${html`<${Empty} text=${t(`models.empty.${view}`)} action=${may && view === 'models' && !providers.length ? html`<a class="primary button" href=${href('providers')} data-link>${t('models.empty.first')}</a>` : make} curl=${curl} />`} />`;
  const gone = () => { pages.reload(); go(href(view)); };
  let thing = null;
  if (row) thing = view === 'models' ? html`<${Model} key=${row._id + row.updatedAt} model=${row} providers=${providers} changed=${pages.reload} gone=${gone} />` : html`<${Provider} key=${row._id + row.updatedAt} provider=${row} changed=${pages.reload} gone=${gone} />`;
  else if (open) thing = html`<p class="note" aria-busy=${pages.loading}>${t(pages.loading ? 'list.loading' : 'models.missing')}</p>`;
  return html`<${Panes} list=${list} back=${href(view)} thing=${thing} />
    ${making && html`<${Make} kind=${making} providers=${providers} close=${() => setMaking('')} made=${pages.reload} />`}`;
}

/** @param {{kind: string, providers: any[], close: () => void, made: () => void}} props */
function Make({ kind, providers, close, made }) {
  const make = async (/** @type {any} */ value) => {
    try {
      if (kind === 'model') {
        const { model } = await api.post('/models', modelOf(null, value));
        go(`/dashboard/models/${encodeURIComponent(model.key)}`);
      } else {
        const { provider } = await api.post('/models/providers', { driver: value.driver, ...providerOf(null, value) });
        go(`/dashboard/models/providers/${encodeURIComponent(provider.key)}`);
      }
    } catch (error) { throw besideField(error); }
    close();
    made();
  };
  const guardrails = useGuardrails();
  const schema = kind === 'model' ? modelFields(providers, guardrails) : newProvider();
  return html`<${Dialog} title=${t(`models.new.${kind}`)} onClose=${close}>${kind === 'model' && !providers.length ? html`<p>${t('models.empty.provider')}</p>`
    : html`<${Form} autofocus keep=${`new ${kind}`} submit=${t('models.new.do')} schema=${schema} value=${kind === 'model' ? { providerKey: providers[0]?.key, category: 'llm', supportsToolCalls: true } : { driver: 'openai' }} onSubmit=${make} />`}<//>`;
}
