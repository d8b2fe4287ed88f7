// Budgets and limits: what bounds the calls of the project, what was spent of it, and the one that is open beside them.

import { html, useState } from '../lib.js';
import { api, call } from '../api.js';
import { Budget, BudgetForm, inForce, Limit, whose } from '../budgets/budget.js';
import { Status } from '../components/cells.js';
import { Dialog, unchanged } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Panes, Tabs } from '../components/panes.js';
import { Table } from '../components/table.js';
import { money } from '../format.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { useRead } from '../store.js';
import { rules, useMay } from '../who.js';

/** What differs between the two views: where they are kept, and how their fields are spelt there. */
const kinds = {
  budgets: {
    list: (/** @type {AbortSignal|undefined} */ signal) => api.get('/budgets', {}, { signal }).then((answer) => answer.data.map((/** @type {any} */ b) => ({
      ...b, scopeId: b.scope_id, projectId: b.project_id, daily: b.daily_limit_usd, monthly: b.monthly_limit_usd, updatedAt: b.updated_at,
    }))),
    create: (/** @type {any} */ value) => api.post('/budgets', budgetBody(value)).then((made) => made.id),
    update: (/** @type {string} */ id, /** @type {any} */ value) => api.patch(`/budgets/${encodeURIComponent(id)}`, budgetBody(value)),
    remove: (/** @type {string} */ id) => api.remove(`/budgets/${encodeURIComponent(id)}`),
  },
  limits: {
    list: (/** @type {AbortSignal|undefined} */ signal) => call('GET', '/api/quota/policies', undefined, { signal }).then((answer) => answer.policies.map((/** @type {any} */ p) => ({ ...p, id: p._id, label: p.label || p._id }))),
    create: (/** @type {any} */ value) => call('POST', '/api/quota/policies', policyBody(value)).then((answer) => answer.policy._id),
    update: (/** @type {string} */ id, /** @type {any} */ value) => call('PATCH', `/api/quota/policies/${encodeURIComponent(id)}`, policyBody(value)),
    remove: (/** @type {string} */ id) => call('DELETE', `/api/quota/policies/${encodeURIComponent(id)}`),
  },
};

/** @param {any} form */
const budgetBody = ({ scopeId, daily, monthly, every, ...rest }) => ({ ...rest, scope_id: scopeId, daily_limit_usd: daily, monthly_limit_usd: monthly, ...(every && { project_id: null }) });

/** @param {any} form */
const policyBody = ({ every, ...rest }) => ({ ...rest, ...(every && { projectId: null }) });

/** @param {{params: any, address: any}} props */
export default function Budgets({ params, address }) {
  const view = params?.limit || address.query.get('view') === 'limits' ? 'limits' : 'budgets';
  const open = params?.id || params?.limit || null;
  const kind = kinds[view];
  const [making, setMaking] = useState(false);
  const may = useMay('models', 'write') && rules();
  const read = useRead((signal) => kind.list(signal).then((rows) => ({ view, rows })), [view]);
  const status = useRead((signal) => api.get('/budgets/status', { scope: 'tenant' }, { signal }), []);
  const rows = read.value?.view === view ? read.value.rows : null;
  const changed = async () => { status.reload(); read.set({ view, rows: await kind.list(undefined) }); };
  const href = (/** @type {string} */ key) => `/dashboard/budgets${key === 'limits' ? '?view=limits' : ''}`;
  const place = (/** @type {string} */ id) => `/dashboard/${view}/${encodeURIComponent(id)}`;
  const title = t(view === 'budgets' ? 'budgets.new' : 'limits.new');
  const columns = [
    { key: 'label', title: t('budgets.label'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.label },
    ...(view === 'budgets' && !open ? [
      { key: 'day', title: t('budgets.day'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Limit} usd=${row.daily} />` },
      { key: 'month', title: t('budgets.month'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Limit} usd=${row.monthly} />` },
    ] : []),
    ...(open ? [] : [{ key: 'whose', title: t('budgets.scope'), phone: false, cell: whose }, { key: 'domain', title: t('budgets.domain'), phone: false, cell: (/** @type {any} */ row) => t(`budgets.domain.${row.domain}`) }]),
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${inForce(row)} />` },
  ];
  const first = may && html`<button class="primary" id="make-first" onClick=${() => setMaking(true)}>${title}</button>`;
  const empty = view === 'budgets' ? html`<${Empty} text=${t('budgets.empty')} action=${first} curl=${{ method: 'POST', path: '/budgets', body: { label: 'A day', daily_limit_usd: 10 } }} />` : html`<${Empty} text=${t('limits.empty')} action=${first} />`;
  const left = html`<h1 class="hidden">${t('nav.budgets')}</h1><div class="list-head">
      <${Tabs} label=${t('budgets.views')} open=${view} href=${href} tabs=${[{ key: 'budgets', title: t('nav.budgets') }, { key: 'limits', title: t('limits.title') }]} />
      ${may && html`<button class="tiny" id="new-budget" onClick=${() => setMaking(true)}>+ ${title}</button>`}</div>
    ${!open && view === 'budgets' && status.value && html`<${Spent} status=${status.value} />`}
    <${Table} label=${t(view === 'budgets' ? 'nav.budgets' : 'limits.title')} columns=${columns} rows=${rows || []} loading=${!rows && read.loading} error=${read.error} retry=${read.reload} selected=${open}
      href=${(/** @type {any} */ row) => place(row.id)} empty=${empty} />`;
  const one = open && rows?.find((/** @type {any} */ row) => row.id === open);
  const save = async (/** @type {any} */ value) => {
    const latest = () => kind.list(undefined).then((all) => all.find((/** @type {any} */ row) => row.id === open)?.updatedAt);
    if (!await unchanged(one.updatedAt, latest)) return false;
    await kind.update(open, value);
    await changed();
    return true;
  };
  let thing = null;
  if (one) {
    thing = html`<${Budget} key=${open} kind=${view} one=${one} may=${may} save=${save} remove=${() => kind.remove(open)} gone=${() => changed().then(() => go(href(view)))} />`;
  } else if (open) {
    thing = (rows && !read.loading) || read.error ? html`<${Failure} error=${read.error || new Error(t('list.none'))} retry=${read.reload} />` : html`<p class="note" role="status">${t('list.loading')}</p>`;
  }
  return html`<${Panes} list=${left} back=${href(view)} thing=${thing} />
    ${making && html`<${Dialog} title=${title} onClose=${() => setMaking(false)}><${BudgetForm} kind=${view} submit=${title} onSubmit=${async (/** @type {any} */ value) => {
      const id = await kind.create(value);
      await changed();
      setMaking(false);
      go(place(id));
    }} /><//>`}`;
}

/** What is used of the budgets that hold for model calls of everybody. @param {{status: any}} props */
function Spent({ status }) {
  const windows = [['day', status.per_day], ['month', status.per_month]].filter(([, window]) => window.limit_usd !== null);
  if (!windows.length) return null;
  return html`<ul class="numbers" id="spent">${windows.map(([unit, window]) => html`<li key=${unit}><div>
    <strong class="number">${t('budgets.of', { used: money(window.used_usd), limit: money(window.limit_usd, 2) })}</strong><span>${t(`budgets.spent.${unit}`)}</span>
    <meter min="0" max=${Math.max(window.limit_usd, 1e-9)} low=${window.limit_usd * 0.8} high=${window.limit_usd} value=${window.used_usd} aria-label=${t(`budgets.spent.${unit}`)}></meter></div></li>`)}</ul>`;
}
