// What went wrong: what happened, what to do, and the request's id.

import { html } from '../lib.js';
import { t } from '../messages.js';

/** @param {any} error @returns {string} */
export function errorText(error) {
  const said = error.status === 0 ? t('error.unreachable') : error.message || t('error.page', { why: String(error) });
  return error.requestID ? `${said} (${t('error.request', { id: error.requestID })})` : said;
}

/** @param {{error?: any, retry?: (() => void)|undefined}} props */
export function Failure({ error = null, retry = undefined }) {
  if (!error) return null;
  const forbidden = error.status === 403;
  const unlicensed = error.code === 'license_required';
  const again = retry && !unlicensed;
  return html`<div class="failure" role="alert">
    <p>${unlicensed ? t('error.license') : forbidden ? t('error.forbidden') : error.status === 0 ? t('error.unreachable') : error.message || String(error)}</p>
    ${forbidden && !unlicensed && error.message && html`<p class="soft">${error.message}</p>`}
    ${error.requestID && html`<p class="faint">${t('error.request', { id: error.requestID })}</p>`}
    ${again && html`<button class="button" onClick=${retry}>${t('do.retry')}</button>`}
    ${unlicensed && html`<a class="button" href="/dashboard/settings" data-link>${t('error.license.see')}</a>`}
  </div>`;
}
