// Settings: how the page looks, how one signs in, and the licence of the company.

import { html, useState } from '../lib.js';
import { account, api } from '../api.js';
import { Status, Time } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { number } from '../format.js';
import { known, language, languages, speak, t } from '../messages.js';
import { go } from '../router.js';
import { setTheme, theme } from '../theme.js';
import { useRead, useStore } from '../store.js';
import { forget, rules, useMay, who } from '../who.js';

export default function Settings() {
  const me = useStore(who);
  const look = useStore(theme);
  const spoken = useStore(language);
  const may = useMay('members', 'admin') && rules();
  const end = async () => {
    if (await confirm({ title: t('settings.end'), text: t('settings.end.text'), yes: t('settings.end'), act: () => account.post('/auth/sessions/end') })) { forget(); go('/login'); }
  };
  return html`<div class="page settings"><h1>${t('nav.settings')}</h1><div class="parts">
    <section><h2>${t('settings.look')}</h2><div class="row">
      <label>${t('you.theme')} <select id="theme" value=${look} onChange=${(/** @type {any} */ event) => setTheme(event.target.value)}>${['auto', 'light', 'dark'].map((one) => html`<option key=${one} value=${one}>${t(`theme.${one}`)}</option>`)}</select></label>
      <label>${t('you.language')} <select id="language" value=${spoken} onChange=${(/** @type {any} */ event) => speak(event.target.value)}>${languages.map((one) => html`<option key=${one} value=${one}>${t(`language.${one}`)}</option>`)}</select></label></div></section>
    ${me && may && me.name && html`<section><h2>${t('settings.profile')}</h2><p class="soft">${me.email}</p><${Form} submit=${t('do.save')} value=${{ name: me.name }} schema=${{ properties: { name: { title: t('entry.name'), autocomplete: 'name' } }, required: ['name'] }}
      onSubmit=${async (/** @type {any} */ { name }) => { await api.patch(`/members/${encodeURIComponent(me.userId)}`, { name }); who.set((now) => now && { ...now, name }); toast(t('people.saved')); }} /></section>`}
    <section><h2>${t('settings.signin')}</h2><div class="row"><a class="button" href="/change-password" data-link>${t('you.password')}</a><button class="button" id="end-sessions" onClick=${end}>${t('settings.end')}</button></div></section>
    ${me && html`<${Factor} on=${me.secondFactor} />`}
    <${Licence} /></div></div>`;
}

/** @param {{on: boolean}} props */
function Factor({ on }) {
  const [enrolled, setEnrolled] = useState(/** @type {any} */ (null));
  const [asked, setAsked] = useState('');
  const [codes, setCodes] = useState(/** @type {string[]|null} */ (null));
  const password = { password: { title: t('entry.password'), format: 'password', autocomplete: 'current-password' } };
  const code = { code: { title: t('entry.code'), autocomplete: 'one-time-code' } };
  const now = (/** @type {boolean} */ secondFactor) => who.set((me) => me && { ...me, secondFactor });
  const begin = async (/** @type {any} */ value) => { setEnrolled(await account.post('/auth/second-factor/enrol', value, { quiet: true })); };
  const confirmCode = async (/** @type {any} */ value) => {
    setCodes((await account.post('/auth/second-factor/confirm', value, { quiet: true })).recoveryCodes);
    setAsked('');
    setEnrolled(null);
    now(true);
  };
  const prove = async (/** @type {any} */ value) => {
    if (asked === 'renew') setCodes((await account.post('/auth/second-factor/recovery-codes', value, { quiet: true })).recoveryCodes);
    else { await account.post('/auth/second-factor/disable', value, { quiet: true }); now(false); toast(t('factor.off')); }
    setAsked('');
  };
  const close = () => { setAsked(''); setEnrolled(null); };
  return html`<section><h2>${t('factor.title')}</h2><p><${Status} value=${on ? 'active' : 'inactive'} word=${t(on ? 'factor.is.on' : 'factor.is.off')} /></p>
    <div class="row">${on ? html`<button class="button" id="factor-renew" onClick=${() => setAsked('renew')}>${t('factor.renew')}</button><button class="button" id="factor-off" onClick=${() => setAsked('off')}>${t('factor.disable')}</button>`
    : html`<button class="button" id="factor-on" onClick=${() => setAsked('on')}>${t('factor.enable')}</button>`}</div>
    ${asked === 'on' && !enrolled && html`<${Dialog} title=${t('factor.enable')} onClose=${close}><p class="soft">${t('factor.password')}</p><${Form} autofocus submit=${t('factor.next')} schema=${{ properties: password, required: ['password'] }} onSubmit=${begin} /><//>`}
    ${enrolled && html`<${Dialog} title=${t('factor.enable')} onClose=${close}><p class="soft">${t('factor.secret')}</p><div class="secret"><code id="factor-secret" tabindex="0">${enrolled.secret}</code><a class="button" href=${enrolled.uri}>${t('factor.app')}</a></div>
      <${Form} submit=${t('factor.confirm')} schema=${{ properties: code, required: ['code'] }} onSubmit=${confirmCode} /><//>`}
    ${(asked === 'renew' || asked === 'off') && html`<${Dialog} title=${t(asked === 'renew' ? 'factor.renew' : 'factor.disable')} onClose=${close}><${Form} autofocus submit=${t(asked === 'renew' ? 'factor.renew' : 'factor.disable')} schema=${{ properties: { ...password, ...code }, required: ['password', 'code'] }} onSubmit=${prove} /><//>`}
    ${codes && html`<${Dialog} title=${t('factor.codes')} onClose=${() => setCodes(null)}><p>${t('factor.codes.text')}</p><ul class="codes">${codes.map((one) => html`<li key=${one}>${one}</li>`)}</ul>
      <footer><button class="primary" onClick=${() => setCodes(null)}>${t('secret.kept')}</button></footer><//>`}</section>`;
}

function Licence() {
  const read = useRead((signal) => api.get('/license', {}, { signal }), []);
  const [giving, setGiving] = useState(false);
  const may = useMay('license', 'admin');
  const licence = read.value;
  if (read.error) return read.error.status === 403 ? null : html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!licence) return null;
  const offline = licence.source === 'offline';
  const remove = async () => { if (await confirm({ title: t('licence.remove'), text: t('licence.remove.text', { type: licence.licenseType }), yes: t('licence.remove'), act: () => api.remove('/license') })) read.reload(); };
  return html`<section id="licence"><h2>${t('licence.title')}</h2>
    <dl class="pairs flush"><div><dt>${t('licence.type')}</dt><dd><strong>${licence.licenseType}</strong> <${Status} value=${{ active: 'active', free: 'active', expired: 'failed', invalid: 'failed' }[/** @type {'free'} */ (licence.status)] || 'inactive'} word=${known(`licence.${licence.status}`) ? t(`licence.${licence.status}`) : licence.status} /></dd></div>
      <div><dt>${t('licence.projects')}</dt><dd>${licence.limits.maxProjects < 0 ? t('licence.unlimited') : number(licence.limits.maxProjects)}</dd></div>
      ${licence.expiresAt && html`<div><dt>${t('licence.expires')}</dt><dd><${Time} at=${licence.expiresAt} /></dd></div>`}
      ${licence.graceEndsAt && html`<div><dt>${t('licence.grace')}</dt><dd><${Time} at=${licence.graceEndsAt} /></dd></div>`}
      ${licence.error && html`<div><dt>${t('licence.error')}</dt><dd class="bad">${licence.error}</dd></div>`}
      <div><dt>${t('licence.features')}</dt><dd>${(licence.features || []).map((/** @type {string} */ one) => html`<code class="chip" key=${one}>${one}</code>`)}</dd></div></dl>
    ${may && html`<div class="row"><button class="button" id="licence-give" onClick=${() => setGiving(true)}>${t('licence.give')}</button>${offline && html`<button class="button" id="licence-remove" onClick=${remove}>${t('licence.remove')}</button>`}</div>`}
    ${giving && html`<${Dialog} title=${t('licence.give')} onClose=${() => setGiving(false)}><${Form} autofocus submit=${t('licence.give')} schema=${{ properties: { licenseKey: { title: t('licence.key'), format: 'code', description: t('licence.key.about') } }, required: ['licenseKey'] }}
      onSubmit=${async (/** @type {any} */ value) => { await api.post('/license', value); setGiving(false); read.reload(); toast(t('licence.given')); }} /><//>`}</section>`;
}
