// The other pages of people who are not signed in, and the change of a password.

import { html, useEffect, useState } from '../lib.js';
import { account } from '../api.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { go, Link } from '../router.js';
import { useStore } from '../store.js';
import { forget, who } from '../who.js';
import { backTo, Entry } from './login.js';

const newPassword = () => ({ title: t('entry.new'), format: 'password', autocomplete: 'new-password', description: t('entry.rule') });

/** @param {{address: any}} props */
export function Register({ address }) {
  const [mode, setMode] = useState('');
  useEffect(() => { account.get('/auth/register/options', {}, { quiet: true }).then((options) => setMode(options.mode), () => setMode('open')); }, []);
  if (!mode) return null;
  const toLogin = html`<p class="links"><${Link} href="/login">${t('entry.toLogin')}<//></p>`;
  if (mode === 'disabled') return html`<${Entry} title=${t('entry.register')} lead=${t('entry.register.closed')}>${toLogin}<//>`;
  const code = mode === 'beta' ? { accessCode: { title: t('entry.access') } } : {};
  return html`<${Entry} title=${t('entry.register')} lead=${t('entry.register.lead')}>
    <${Form} autofocus submit=${t('entry.register.do')} schema=${{ properties: {
      companyName: { title: t('entry.company'), autocomplete: 'organization' }, name: { title: t('entry.name'), autocomplete: 'name' },
      email: { title: t('entry.email'), format: 'email', autocomplete: 'username' },
      password: { ...newPassword(), title: t('entry.password') }, ...code,
    }, required: ['companyName', 'name', 'email', 'password', ...Object.keys(code)] }}
    onSubmit=${async (/** @type {any} */ value) => { await account.post('/auth/register', value, { quiet: true }); forget(); go(backTo(address.query), { replace: true }); }} />
    ${toLogin}<//>`;
}

export function Forgot() {
  const [done, setDone] = useState(false);
  return html`<${Entry} title=${t('entry.forgot.title')} lead=${done ? t('entry.forgot.done') : t('entry.forgot.lead')}>
    ${!done && html`<${Form} autofocus submit=${t('entry.forgot.do')} schema=${{ properties: {
      email: { title: t('entry.email'), format: 'email', autocomplete: 'username' }, slug: { title: t('entry.slug') },
    }, required: ['email'] }} onSubmit=${async (/** @type {any} */ value) => { await account.post('/auth/forgot-password', value, { quiet: true }); setDone(true); }} />`}
    <p class="links"><${Link} href="/login">${t('entry.toLogin')}<//></p><//>`;
}

/** The secret of a link, which is in the fragment: browsers send that to nobody. @param {string} hash */
function secretOf(hash) {
  const text = hash.replace(/^#/, '');
  return new URLSearchParams(text).get('token') || (text.includes('=') ? '' : decodeURIComponent(text));
}

/** @param {{address: any}} props */
export function Reset({ address }) {
  const [token] = useState(() => secretOf(address.hash));
  const [done, setDone] = useState(false);
  const lead = !token ? t('entry.reset.bad') : done ? t('entry.reset.done') : t('entry.reset.lead');
  return html`<${Entry} title=${t('entry.reset.title')} lead=${lead}>
    ${token && !done && html`<${Form} autofocus submit=${t('entry.reset.do')} schema=${{ properties: { newPassword: newPassword() }, required: ['newPassword'] }}
      onSubmit=${async (/** @type {any} */ value) => {
        await account.post('/auth/reset-password', { token, ...value }, { quiet: true });
        history.replaceState(null, '', '/reset-password');
        setDone(true);
      }} />`}
    <p class="links"><${Link} href="/login">${t('entry.toLogin')}<//></p><//>`;
}

/** @param {{address: any}} props */
export function Accept({ address }) {
  const [token] = useState(() => secretOf(address.hash));
  return html`<${Entry} title=${t('entry.invite.title')} lead=${token ? t('entry.invite.lead') : t('entry.reset.bad')}>
    ${token && html`<${Form} autofocus submit=${t('entry.invite.do')} schema=${{ properties: {
      name: { title: t('entry.name'), autocomplete: 'name' }, password: { ...newPassword(), title: t('entry.password') },
    }, required: ['password'] }} onSubmit=${async (/** @type {any} */ value) => {
      await account.post('/auth/accept-invite', { token, ...value }, { quiet: true });
      forget();
      go('/dashboard', { replace: true });
    }} />`}
    <p class="links"><${Link} href="/login">${t('entry.toLogin')}<//></p><//>`;
}

export function Change() {
  const me = useStore(who);
  return html`<div class="page narrow"><h1>${t('entry.change.title')}</h1>
    <p class="soft">${me?.mustChangePassword ? t('entry.change.must') : t('entry.change.lead')}</p>
    <${Form} autofocus submit=${t('entry.change.do')} schema=${{ properties: {
      currentPassword: { title: t('entry.current'), format: 'password', autocomplete: 'current-password' }, newPassword: newPassword(),
    }, required: ['currentPassword', 'newPassword'] }} onSubmit=${async (/** @type {any} */ value) => {
      await account.post('/auth/change-password', value, { quiet: true });
      who.set((now) => now && { ...now, mustChangePassword: false });
      toast(t('entry.change.done'));
      go('/dashboard');
    }} /></div>`;
}

export default Register;
