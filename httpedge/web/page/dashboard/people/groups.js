// Groups: a role and levels for several people at once.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Permissions } from '../components/permissions.js';
import { Table } from '../components/table.js';
import { toast } from '../components/toast.js';
import { number } from '../format.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { Store, useRead, useStore } from '../store.js';
import { rules, useMay } from '../who.js';

/** Rises when the list is to be read anew. */
const round = new Store(0);
const changed = () => round.set((n) => n + 1);

/** @param {{open: string|null}} props */
export function Groups({ open }) {
  const at = useStore(round);
  const read = useRead((signal) => api.get('/members/groups', {}, { signal }).then((answer) => answer.groups), [at]);
  const [making, setMaking] = useState(false);
  const may = useMay('members', 'admin') && rules();
  const rows = read.value || [];
  const make = may && html`<button class="button" id="new-group" onClick=${() => setMaking(true)}>${t('groups.new')}</button>`;
  return html`${rows.length > 0 && html`<div class="filters"><span class="faint grow">${t('list.end', { n: rows.length })}</span>${make}</div>`}
    <${Table} label=${t('people.groups')} rows=${rows} selected=${open} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} href=${(/** @type {any} */ row) => `/dashboard/members?group=${row.id}`} columns=${[
      { key: 'name', title: t('people.name'), kind: 'wide', cell: (/** @type {any} */ row) => row.name },
      { key: 'role', title: t('people.role'), phone: false, cell: (/** @type {any} */ row) => (row.tenantRole ? t(`role.${row.tenantRole}`) : '–') },
      { key: 'count', title: t('people.people'), kind: 'number', cell: (/** @type {any} */ row) => number(row.memberCount) },
    ]} empty=${html`<${Empty} text=${t('groups.empty')} action=${make} />`} />
    ${making && html`<${Dialog} title=${t('groups.new')} onClose=${() => setMaking(false)}><${GroupForm} submit=${t('groups.new')} onSubmit=${async (/** @type {any} */ value) => {
      const { group } = await api.post('/members/groups', value);
      setMaking(false);
      changed();
      go(`/dashboard/members?group=${group.id}`);
    }} /><//>`}`;
}

/** @param {{value?: any, submit: string|false, onSubmit: (value: any) => any}} props */
function GroupForm({ value, submit, onSubmit }) {
  const roles = ['user', 'project_admin', 'admin'];
  return html`<${Form} submit=${submit} value=${value && { name: value.name, description: value.description, tenantRole: value.tenantRole }} schema=${{ properties: {
    name: { title: t('people.name') }, description: { title: t('webhooks.description') },
    tenantRole: { title: t('groups.role'), enum: roles, names: roles.map((role) => t(`role.${role}`)) },
  }, required: ['name'] }} onSubmit=${(/** @type {any} */ form) => onSubmit({ description: '', tenantRole: null, ...form })} />`;
}

/** @param {{id: string, users: any[]}} props */
export function Group({ id, users }) {
  const path = `/members/groups/${encodeURIComponent(id)}`;
  const read = useRead((signal) => api.get(path, {}, { signal }), [id]);
  const [levels, setLevels] = useState(/** @type {Record<string, string>|null} */ (null));
  const may = useMay('members', 'admin') && rules();
  const group = read.value?.group;
  usePlace(group?.name || '');
  if (read.error && !group) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!group) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const members = read.value.members;
  const done = () => { read.reload(); changed(); };
  const remove = async () => {
    if (await confirm({ title: t('groups.delete'), text: t('groups.delete.text', { name: group.name, n: members.length }), yes: t('groups.delete'), act: () => api.remove(path) })) { changed(); go('/dashboard/members?tab=groups'); }
  };
  const others = users.filter((user) => !members.some((/** @type {any} */ one) => one.id === user.id));
  const save = (/** @type {any} */ body) => api.patch(path, body).then(() => { done(); toast(t('people.saved')); });
  return html`<article class="thing" data-ready="true" aria-label=${group.name}>
    <header class="session-head"><div><h1>${group.name}</h1><p class="facts"><span>${group.description || ''}</span></p></div>${may && html`<div class="do"><button class="button" id="delete-group" onClick=${remove}>${t('groups.delete')}</button></div>`}</header>
    <div class="parts thing-parts">
      <section><h2>${t('people.people')}</h2><div class="rows-box"><${Table} label=${t('people.people')} rows=${members} columns=${[
        { key: 'name', title: t('people.name'), kind: 'wide', cell: (/** @type {any} */ row) => row.name || row.email },
        { key: 'do', title: '', cell: (/** @type {any} */ row) => may && html`<button class="tiny danger" onClick=${() => api.remove(`${path}/members`, { userId: row.id }).then(done, toast)}>${t('groups.out')}</button>` },
      ]} empty=${html`<p class="note">${t('groups.nobody')}</p>`} /></div>
        ${may && html`<label class="hidden" for="group-add">${t('groups.add')}</label><select id="group-add" value="" onChange=${(/** @type {any} */ event) => event.target.value && api.post(`${path}/members`, { userId: event.target.value }).then(done, toast)}>
          <option value="">${t('groups.add')}</option>${others.map((user) => html`<option key=${user.id} value=${user.id}>${user.name || user.email}</option>`)}</select>`}</section>
      <section><h2>${t('people.group')}</h2><${GroupForm} key=${group.updatedAt} value=${group} submit=${may && t('do.save')} onSubmit=${save} /></section>
      ${may && html`<section><h2>${t('people.levels')}</h2><${Permissions} value=${levels || group.servicePermissions} set=${setLevels} label=${t('people.levels')} fallback=${t('level.role')} />
        <button class="primary" id="save-levels" disabled=${!levels} onClick=${() => save({ servicePermissions: levels }).catch(toast)}>${t('people.levels.save')}</button></section>`}
    </div></article>`;
}
