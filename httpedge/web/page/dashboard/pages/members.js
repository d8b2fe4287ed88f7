// The company: people, groups, projects.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { Panes, Tabs } from '../components/panes.js';
import { Secret } from '../components/secret.js';
import { Table } from '../components/table.js';
import { t } from '../messages.js';
import { Group, Groups } from '../people/groups.js';
import { Person } from '../people/person.js';
import { Project, Projects } from '../people/projects.js';
import { useRead, useStore } from '../store.js';
import { rules, useMay, who } from '../who.js';

/** What the list says of a person. @param {any} user @returns {{value: string, word?: string}} */
export function state(user) {
  if (user.invitedAt && !user.inviteAcceptedAt) return { value: 'pending', word: t('people.invited') };
  return user.canLogin ? { value: 'active' } : { value: 'inactive', word: t('people.nologin') };
}

/** @param {{params: any, address: any}} props */
export default function Members({ params, address }) {
  const project = address.path.startsWith('/dashboard/projects/') ? params.id : address.query.get('project');
  const group = address.query.get('group');
  const open = address.path.startsWith('/dashboard/members/') ? params.id : null;
  const tab = project ? 'projects' : group ? 'groups' : open ? 'people' : address.query.get('tab') || 'people';
  const people = useRead((signal) => api.get('/members', { limit: 500 }, { signal }), []);
  const users = people.value?.users || [];
  const [inviting, setInviting] = useState(false);
  const may = useMay('members', 'admin') && rules();
  const [invite, setInvite] = useState(/** @type {any} */ (null));
  const tabs = html`<${Tabs} label=${t('nav.members')} open=${tab} href=${(/** @type {string} */ key) => `/dashboard/members${key === 'people' ? '' : `?tab=${key}`}`}
    tabs=${['people', 'groups', 'projects'].map((key) => ({ key, title: t(`people.${key}`) }))} />`;
  const columns = [
    { key: 'name', title: t('people.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.name || row.email },
    ...(open ? [] : [{ key: 'email', title: t('entry.email'), phone: false, cell: (/** @type {any} */ row) => row.email || '–' }]),
    { key: 'role', title: t('people.role'), cell: (/** @type {any} */ row) => t(`role.${row.role}`) },
    { key: 'state', title: t('sessions.status'), phone: false, cell: (/** @type {any} */ row) => html`<${Status} ...${state(row)} />` },
  ];
  const shown = users.find((/** @type {any} */ one) => one.id === open);
  const list = tab === 'groups' ? html`<${Groups} open=${group} />` : tab === 'projects' ? html`<${Projects} open=${project} />`
    : html`<div class="filters"><span class="faint grow">${people.value ? t('people.count', { n: users.length }) : ''}</span>${may && html`<button class="button" id="invite" onClick=${() => setInviting(true)}>${t('people.invite')}</button>`}</div>
      <${Table} label=${t('people.people')} columns=${columns} rows=${users} loading=${!people.value && people.loading} error=${people.error} retry=${people.reload} selected=${open} href=${(/** @type {any} */ row) => `/dashboard/members/${row.id}`} />`;
  const thing = tab === 'groups' ? group && html`<${Group} key=${group} id=${group} users=${users} />` : tab === 'projects' ? project && html`<${Project} key=${project} id=${project} users=${users} />`
    : open && (shown ? html`<${Person} key=${open} user=${shown} changed=${people.reload} invited=${setInvite} />` : people.value && html`<p class="note">${t('people.gone')}</p>`);
  return html`<${Panes} back=${`/dashboard/members${tab === 'people' ? '' : `?tab=${tab}`}`} thing=${thing || null} list=${html`<h1 class="hidden">${t('nav.members')}</h1>${tabs}${list}`} />
    ${inviting && html`<${Invite} close=${() => setInviting(false)} done=${(/** @type {any} */ answer) => { setInviting(false); setInvite(answer); people.reload(); }} />`}
    ${invite && html`<${Secret} title=${t('people.invite.link')} text=${t('people.invite.once', { email: invite.user?.email || '' })} secret=${invite.invite.url || `${location.origin}/accept-invite#token=${invite.invite.token}`} onClose=${() => setInvite(null)} />`}`;
}

/** @param {{close: () => void, done: (answer: any) => void}} props */
function Invite({ close, done }) {
  const me = useStore(who);
  const roles = ['user', 'project_admin', 'admin'];
  return html`<${Dialog} title=${t('people.invite')} onClose=${close}><${Form} autofocus submit=${t('people.invite')} value=${{ role: 'user', projectId: me?.project }} schema=${{ properties: {
    name: { title: t('people.name') }, email: { title: t('entry.email'), format: 'email' },
    role: { title: t('people.role'), enum: roles, names: roles.map((role) => t(`role.${role}`)) },
    projectId: { title: t('project.label'), enum: (me?.projects || []).map((one) => one.id), names: (me?.projects || []).map((one) => one.name) },
  }, required: ['name', 'email', 'role'] }} onSubmit=${async (/** @type {any} */ value) => done(await api.post('/members/invite', value))} /><//>`;
}
