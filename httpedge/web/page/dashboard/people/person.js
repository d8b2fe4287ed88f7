// One person: name, role, levels, sessions and second factor, and how they leave.

import { html, useState } from '../lib.js';
import { account, api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { confirm } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { Permissions } from '../components/permissions.js';
import { toast } from '../components/toast.js';
import { number } from '../format.js';
import { t } from '../messages.js';
import { state } from '../pages/members.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { useRead, useStore } from '../store.js';
import { rules, useMay, who } from '../who.js';

const roles = ['user', 'project_admin', 'admin', 'owner'];

/** @param {{user: any, changed: () => void, invited: (answer: any) => void}} props */
export function Person({ user, changed, invited }) {
  const me = useStore(who);
  const path = `/members/${encodeURIComponent(user.id)}`;
  const tokens = useRead((signal) => api.get(`/users/${encodeURIComponent(user.id)}/tokens`, { limit: 500 }, { signal }).then((list) => list.tokens.length, () => null), [user.id]);
  const [levels, setLevels] = useState(/** @type {Record<string, string>} */ (user.servicePermissions || {}));
  const name = user.name || user.email || user.id;
  usePlace(name);
  const may = useMay('members', 'admin') && rules();
  const waits = state(user).value === 'pending';
  const own = user.id === me?.userId;
  const held = tokens.value;
  const remove = async () => {
    const text = held ? t('people.remove.tokens', { name, n: held }) : t('people.remove.text', { name });
    if (await confirm({ title: t('people.remove'), text, yes: t('people.remove'), act: () => api.remove(path) })) { changed(); go('/dashboard/members'); toast(t('people.removed', { name })); }
  };
  const end = async () => {
    if (await confirm({ title: t('people.end'), text: t('people.end.text', { name }), yes: t('people.end'), act: () => account.post('/auth/sessions/end', { userId: user.id }) })) toast(t('people.ended', { name }));
  };
  const factor = async () => {
    if (await confirm({ title: t('people.factor'), text: t('people.factor.text', { name }), yes: t('people.factor'), act: () => account.post('/auth/second-factor/remove', { userId: user.id }) })) toast(t('people.factor.done', { name }));
  };
  const again = () => api.post(`${path}/invite`).then(invited, toast);
  return html`<article class="thing" data-ready="true" aria-label=${name}>
    <header class="session-head"><div><h1>${name}</h1><p class="facts"><${Status} ...${state(user)} /><span>${user.email || ''}</span><${ID} id=${user.id} /></p></div>
      <div class="do">${waits && may && html`<button class="button" id="invite-again" onClick=${again}>${t('people.invite.again')}</button>`}
        <a class="button" href=${`/dashboard/tokens?user=${user.id}`} data-link>${t('nav.tokens')}${held ? html` <small>${number(held)}</small>` : ''}</a>
        ${!own && may && html`<button class="button" id="end" onClick=${end}>${t('people.end')}</button>
        <button class="button" id="factor" onClick=${factor}>${t('people.factor')}</button><button class="button" id="remove" onClick=${remove}>${t('people.remove')}</button>`}</div></header>
    <dl class="pairs"><div><dt>${t('people.since')}</dt><dd><${Time} at=${user.createdAt} /></dd></div>
      ${user.invitedAt && html`<div><dt>${t('people.invited.at')}</dt><dd><${Time} at=${user.invitedAt} /></dd></div>`}</dl>
    <div class="parts thing-parts">
      <section><h2>${t('people.person')}</h2><${Form} submit=${may && t('do.save')} value=${{ name: user.name, role: user.role, canLogin: user.canLogin }} schema=${{ properties: {
        name: { title: t('people.name') }, ...(!own && { role: { title: t('people.role'), enum: roles, names: roles.map((role) => t(`role.${role}`)) } }),
        ...(!own && !waits && { canLogin: { title: t('people.canlogin'), type: 'boolean' } }),
      }, required: ['name'] }} onSubmit=${async (/** @type {any} */ value) => { await api.patch(path, value); changed(); toast(t('people.saved')); }} /></section>
      ${!own && may && html`<section><h2>${t('people.levels')}</h2><p class="faint">${t('people.levels.about')}</p>
        <${Permissions} value=${levels} set=${setLevels} label=${t('people.levels')} fallback=${t('level.role')} />
        <button class="primary" id="save-levels" onClick=${() => api.patch(`${path}/permissions`, { servicePermissions: levels }).then(() => { changed(); toast(t('people.saved')); }, toast)}>${t('people.levels.save')}</button></section>`}
    </div></article>`;
}
