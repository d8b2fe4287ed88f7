// API tokens of a person: made (the secret is shown once), bounded by scopes, revoked.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Time } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Form } from '../components/form.js';
import { levelsText, Permissions } from '../components/permissions.js';
import { Secret } from '../components/secret.js';
import { Table, usePages } from '../components/table.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { setQuery } from '../router.js';
import { useRead, useStore } from '../store.js';
import { rules, useMay, who } from '../who.js';

const size = 100;

/** @param {{params: any, address: any}} props */
export default function Tokens({ params, address }) {
  const me = useStore(who);
  const users = useRead((signal) => api.get('/users', { limit: 500 }, { signal }).then((answer) => answer.users), []);
  const user = address.query.get('user') || me?.userId || '';
  const [making, setMaking] = useState(false);
  const may = useMay('members', 'admin') && rules();
  const [made, setMade] = useState(/** @type {any} */ (null));
  const path = `/users/${encodeURIComponent(user)}/tokens`;
  const pages = usePages(async (cursor, signal) => {
    const offset = Number(cursor || 0);
    const list = await api.get(path, { limit: size, offset }, { signal });
    const next = offset + list.tokens.length;
    return { rows: list.tokens, next: list.pagination.hasMore ? String(next) : null };
  }, [user]);
  const wanted = params?.id;
  useEffect(() => { if (wanted && users.value && !address.query.get('user')) seek(wanted, users.value); }, [wanted, users.value]);
  const projectName = (/** @type {string} */ id) => me?.projects.find((project) => project.id === id)?.name || id;
  const revoke = async (/** @type {any} */ row) => {
    if (await confirm({ title: t('tokens.revoke'), text: t('tokens.revoke.text', { label: row.label, prefix: row.tokenPrefix }), yes: t('tokens.revoke'), act: () => api.remove(`${path}/${encodeURIComponent(row.id)}`) })) {
      toast(t('tokens.revoked'));
      pages.reload();
    }
  };
  const columns = [
    { key: 'label', title: t('tokens.label'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.label },
    { key: 'prefix', title: t('tokens.prefix'), cell: (/** @type {any} */ row) => html`<code>${row.tokenPrefix}…</code>` },
    { key: 'project', title: t('project.label'), phone: false, cell: (/** @type {any} */ row) => projectName(row.projectId) },
    { key: 'scope', title: t('tokens.scope'), phone: false, cell: (/** @type {any} */ row) => (row.servicePermissions === null ? t('tokens.scope.none') : levelsText(row.servicePermissions) || t('tokens.scope.nothing')) },
    { key: 'used', title: t('tokens.used'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.lastUsed} />` },
    { key: 'expires', title: t('tokens.expires'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => html`<${Time} at=${row.expiresAt} />` },
    { key: 'id', title: t('tokens.id'), phone: false, cell: (/** @type {any} */ row) => html`<${ID} id=${row.id} />` },
    { key: 'do', title: '', cell: (/** @type {any} */ row) => may && html`<button class="tiny danger" data-revoke=${row.id} onClick=${() => revoke(row)}>${t('tokens.revoke')}</button>` },
  ];
  const make = may && html`<button class="primary" id="new-token" onClick=${() => setMaking(true)}>${t('tokens.new')}</button>`;
  const owner = (users.value || []).find((/** @type {any} */ one) => one.id === user);
  return html`<div class="page tokens"><div class="page-head"><h1>${t('nav.tokens')}</h1>
      <label class="hidden" for="token-user">${t('tokens.owner')}</label><select id="token-user" value=${user} onChange=${(/** @type {any} */ event) => setQuery({ user: event.target.value })}>
        ${(users.value || [{ id: user, name: me?.name || user }]).map((/** @type {any} */ one) => html`<option key=${one.id} value=${one.id}>${one.name || one.email || one.id}</option>`)}</select>
      ${pages.rows.length > 0 && make}</div>
    <p class="soft">${t('tokens.lead')}</p>
    <div class="rows-box"><${Table} label=${t('nav.tokens')} columns=${columns} rows=${pages.rows} selected=${wanted || null} loading=${pages.loading} error=${pages.error} retry=${pages.reload} more=${Boolean(pages.next)} onMore=${pages.more}
      empty=${html`<${Empty} text=${t('tokens.empty')} action=${make} curl=${{ path: '/agents' }} />`} /></div>
    ${making && html`<${Make} owner=${owner?.name || me?.name || ''} project=${me?.project || ''} projects=${me?.projects || []} close=${() => setMaking(false)} make=${async (/** @type {any} */ body) => {
      const token = await api.post(path, body);
      setMaking(false);
      setMade(token);
      pages.reload();
    }} />`}
    ${made && html`<${Secret} title=${t('tokens.secret')} text=${t('tokens.secret.once')} secret=${made.token} onClose=${() => setMade(null)} />`}</div>`;
}

/** Looks whose a token is, among the people of the company. @param {string} id @param {any[]} users */
async function seek(id, users) {
  for (const user of users) {
    const list = await api.get(`/users/${encodeURIComponent(user.id)}/tokens`, { limit: 500 }).catch(() => null);
    if (list?.tokens.some((/** @type {any} */ one) => one.id === id)) { setQuery({ user: user.id }, { replace: true }); return; }
  }
}

/** @param {{owner: string, project: string, projects: any[], close: () => void, make: (body: any) => Promise<void>}} props */
function Make({ owner, project, projects, close, make }) {
  const [scoped, setScoped] = useState(false);
  const [scope, setScope] = useState(/** @type {Record<string, string>} */ ({}));
  const before = html`<fieldset class="picks"><legend>${t('tokens.scope')}</legend>
    <label class="tick"><input type="checkbox" id="scoped" checked=${scoped} onChange=${(/** @type {any} */ event) => setScoped(event.target.checked)} />${t('tokens.scoped', { name: owner })}</label>
    ${scoped && html`<${Permissions} value=${scope} set=${setScope} label=${t('tokens.scope')} fallback=${t('level.none')} />`}</fieldset>`;
  return html`<${Dialog} title=${t('tokens.new')} onClose=${close}><${Form} autofocus submit=${t('tokens.new')} before=${before} value=${{ projectId: project }} schema=${{ properties: {
    label: { title: t('tokens.label'), description: t('tokens.label.about'), maxLength: 100 },
    projectId: { title: t('project.label'), enum: projects.map((one) => one.id), names: projects.map((one) => one.name) },
    days: { title: t('tokens.days'), type: 'integer', minimum: 1, maximum: 3650 },
  }, required: ['label', 'projectId'] }} onSubmit=${(/** @type {any} */ { days, ...value }) => make({
    ...value, ...(days && { expiresAt: new Date(Date.now() + days * 86_400_000).toISOString() }), ...(scoped && { servicePermissions: scope }),
  })} /><//>`;
}
