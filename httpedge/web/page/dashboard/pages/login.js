// Sign in, with a second step for those who have one.

import { html, useEffect, useState } from '../lib.js';
import { account } from '../api.js';
import { Form } from '../components/form.js';
import { t } from '../messages.js';
import { go, Link } from '../router.js';
import { forget } from '../who.js';

/** Where to go afterwards: a path of the console, never another server's. @param {URLSearchParams} query */
export function backTo(query) {
  const back = query.get('back') || '';
  return /^\/(dashboard(\/|\?|$)|change-password$)/.test(back) && !back.includes('\\') ? back : '/dashboard';
}

/** The frame of all pages of people who are not signed in. @param {{title: string, lead?: any, children?: any}} props */
export function Entry({ title, lead, children }) {
  return html`<div class="card"><p class="brand"><img src="/icon.svg" alt="" width="28" height="28" />Parley</p><h1>${title}</h1>${lead && html`<p class="soft">${lead}</p>`}${children}</div>`;
}

/** @param {{address: any}} props */
export default function Login({ address }) {
  const given = address.hash.startsWith('#challenge=') ? decodeURIComponent(address.hash.slice('#challenge='.length)) : '';
  const [challenge, setChallenge] = useState(given);
  const [provider, setProvider] = useState(/** @type {{enabled: boolean, name?: string}} */ ({ enabled: false }));
  const [register, setRegister] = useState(false);
  const back = backTo(address.query);
  useEffect(() => {
    account.get('/auth/oidc', {}, { quiet: true }).then(setProvider, () => {});
    account.get('/auth/register/options', {}, { quiet: true }).then(({ mode }) => setRegister(mode !== 'disabled'), () => {});
  }, []);
  const done = (/** @type {any} */ answer) => { forget(); go(answer?.mustChangePassword ? '/change-password' : back, { replace: true }); };
  if (challenge) {
    return html`<${Entry} title=${t('entry.code.title')} lead=${t('entry.code.lead')} key="code">
      <${Form} autofocus submit=${t('entry.login')} schema=${{ properties: { code: { title: t('entry.code'), autocomplete: 'one-time-code' } }, required: ['code'] }}
        onSubmit=${async (/** @type {any} */ { code }) => done(await account.post('/auth/login/code', { challenge, code: code.trim() }, { quiet: true }))} />
      <p><button class="quiet" onClick=${() => setChallenge('')}>${t('entry.toLogin')}</button></p><//>`;
  }
  const submit = async (/** @type {any} */ value) => {
    try {
      done(await account.post('/auth/login', value, { quiet: true }));
    } catch (error) {
      const more = /** @type {any} */ (error).body?.challenge || /** @type {any} */ (error).body?.details?.challenge;
      if (!more) throw error;
      setChallenge(more);
    }
  };
  return html`<${Entry} title=${t('entry.login')} lead=${t('entry.login.lead')} key="login">
    <${Form} autofocus submit=${t('entry.login')} onSubmit=${submit} schema=${{ properties: {
      email: { title: t('entry.email'), format: 'email', autocomplete: 'username' }, password: { title: t('entry.password'), format: 'password', autocomplete: 'current-password' },
      slug: { title: t('entry.slug'), autocomplete: 'organization' },
    }, required: ['email', 'password'] }} />
    ${provider.enabled && html`<p><a class="button" id="provider" href=${`/api/auth/oidc/start?return_to=${encodeURIComponent(back)}`}>${t('entry.provider', { name: provider.name || 'OpenID' })}</a></p>`}
    <p class="links"><${Link} href="/forgot-password">${t('entry.forgot')}<//>${register && html`<${Link} href="/register">${t('entry.toRegister')}<//>`}</p>
  <//>`;
}
