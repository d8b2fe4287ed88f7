// Projects, and who is in them.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { ID } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Permissions } from '../components/permissions.js';
import { Table } from '../components/table.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { Store, useRead, useStore } from '../store.js';
import { chooseProject, load, rules, useMay, who } from '../who.js';

/** Rises when the list is to be read anew. */
const round = new Store(0);
const changed = () => round.set((n) => n + 1);

/** @param {{value?: any, submit: string|false, onSubmit: (value: any) => any}} props */
function ProjectForm({ value, submit, onSubmit }) {
  return html`<${Form} submit=${submit} value=${value && { name: value.name, description: value.description }} schema=${{ properties: {
    name: { title: t('people.name') }, description: { title: t('webhooks.description') }, ...(!value && { key: { title: t('projects.key'), description: t('projects.key.about') } }),
  }, required: ['name'] }} onSubmit=${(/** @type {any} */ form) => onSubmit({ description: '', ...form })} />`;
}

/** @param {{open: string|null}} props */
export function Projects({ open }) {
  const at = useStore(round);
  const read = useRead((signal) => api.get('/projects', {}, { signal }).then((answer) => answer.projects), [at]);
  const [making, setMaking] = useState(false);
  const may = useMay('projects', 'write') && rules();
  const rows = read.value || [];
  return html`<div class="filters"><span class="faint grow">${t('list.end', { n: rows.length })}</span>${may && html`<button class="button" id="new-project" onClick=${() => setMaking(true)}>${t('projects.new')}</button>`}</div>
    <${Table} label=${t('people.projects')} rows=${rows} selected=${open} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} href=${(/** @type {any} */ row) => `/dashboard/projects/${row.id}`} columns=${[
      { key: 'name', title: t('people.name'), kind: 'wide', cell: (/** @type {any} */ row) => row.name },
      { key: 'key', title: t('projects.key'), cell: (/** @type {any} */ row) => html`<code>${row.key}</code>` },
    ]} />
    ${making && html`<${Dialog} title=${t('projects.new')} onClose=${() => setMaking(false)}><${ProjectForm} submit=${t('projects.new')} onSubmit=${async (/** @type {any} */ value) => {
      const { project } = await api.post('/projects', value);
      setMaking(false);
      changed();
      toast(t('projects.made', { name: project.name }));
      who.set((now) => now && { ...now, projects: [...now.projects, project] });
      go(`/dashboard/projects/${project.id}`);
    }} /><//>`}`;
}

/** @param {{id: string, users: any[]}} props */
export function Project({ id, users }) {
  const me = useStore(who);
  const path = `/projects/${encodeURIComponent(id)}`;
  const read = useRead((signal) => Promise.all([api.get('/projects', {}, { signal }), api.get(`${path}/members`, { limit: 500 }, { signal })]).then(([all, list]) => ({ project: all.projects.find((/** @type {any} */ one) => one.id === id), members: list.members })), [id]);
  const [levels, setLevels] = useState(/** @type {{user: any, value: Record<string, string>}|null} */ (null));
  const may = useMay('projects', 'write') && rules();
  const project = read.value?.project;
  usePlace(project?.name || '');
  if (read.error && !project) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!project) return html`<p class="note" role="status">${t(read.value ? 'people.gone' : 'list.loading')}</p>`;
  const members = read.value?.members || [];
  const done = () => { read.reload(); toast(t('people.saved')); };
  const remove = async () => {
    if (await confirm({ title: t('projects.delete'), text: t('projects.delete.text', { name: project.name }), yes: t('projects.delete'), act: () => api.remove(path) })) { changed(); go('/dashboard/members?tab=projects'); load().catch(toast); }
  };
  const out = async (/** @type {any} */ row) => {
    if (await confirm({ title: t('projects.out'), text: t('projects.out.text', { name: row.name, project: project.name }), yes: t('projects.out'), act: () => api.remove(`${path}/members`, { userId: row.userId }) })) done();
  };
  const set = (/** @type {any} */ body, /** @type {string} */ part = '') => api.patch(`${path}/members${part}`, body).then(done, toast);
  const others = users.filter((user) => !members.some((/** @type {any} */ one) => one.userId === user.id));
  return html`<article class="thing" data-ready="true" aria-label=${project.name}>
    <header class="session-head"><div><h1>${project.name}</h1><p class="facts"><code>${project.key}</code><${ID} id=${id} /></p></div>
      <div class="do">${me?.project !== id && html`<button class="button" onClick=${() => chooseProject(id).catch(toast)}>${t('projects.choose')}</button>`}${may && html`<button class="button" id="delete-project" onClick=${remove}>${t('projects.delete')}</button>`}</div></header>
    <div class="parts thing-parts">
      <section><h2>${t('people.people')}</h2><div class="rows-box"><${Table} label=${t('people.people')} rows=${members.map((/** @type {any} */ row) => ({ ...row, id: row.userId }))} columns=${[
        { key: 'name', title: t('people.name'), kind: 'wide', cell: (/** @type {any} */ row) => row.name || row.email },
        { key: 'role', title: t('people.role'), cell: (/** @type {any} */ row) => (row.inherited ? html`<span class="faint">${t('projects.inherited', { role: t(`role.${row.tenantRole}`) })}</span>`
          : !may ? t(`role.${row.role}`) : html`<select aria-label=${t('people.role')} value=${row.role} onChange=${(/** @type {any} */ event) => set({ userId: row.userId, role: event.target.value })}>${['member', 'project_admin'].map((role) => html`<option key=${role} value=${role}>${t(`role.${role}`)}</option>`)}</select>`) },
        { key: 'do', title: '', cell: (/** @type {any} */ row) => may && !row.inherited && html`<span class="rowmenu"><button class="tiny" onClick=${() => setLevels({ user: row, value: row.servicePermissions || {} })}>${t('people.levels')}</button>
          <button class="tiny danger" onClick=${() => out(row)}>${t('groups.out')}</button></span>` },
      ]} /></div>
        ${may && html`<label class="hidden" for="project-add">${t('groups.add')}</label><select id="project-add" value="" onChange=${(/** @type {any} */ event) => event.target.value && api.post(`${path}/members`, { userId: event.target.value, role: 'member' }).then(done, toast)}>
          <option value="">${t('groups.add')}</option>${others.map((user) => html`<option key=${user.id} value=${user.id}>${user.name || user.email}</option>`)}</select>`}</section>
      <section><h2>${t('project.label')}</h2><${ProjectForm} value=${project} submit=${may && t('do.save')} onSubmit=${async (/** @type {any} */ value) => { await api.patch(path, value); changed(); done(); }} /></section>
    </div>
    ${levels && html`<${Dialog} title=${t('people.levels')} onClose=${() => setLevels(null)}><p class="soft">${t('projects.levels', { name: levels.user.name, project: project.name })}</p>
      <${Permissions} value=${levels.value} set=${(/** @type {any} */ value) => setLevels({ ...levels, value })} label=${t('people.levels')} fallback=${t('level.role')} />
      <footer><button class="primary" onClick=${() => { set({ userId: levels.user.userId, servicePermissions: levels.value }, '/permissions'); setLevels(null); }}>${t('people.levels.save')}</button></footer><//>`}
  </article>`;
}
