// Levels of services: of a person, a group, a project's member, or a token.

import { html, useMemo } from '../lib.js';
import { api } from '../api.js';
import { t } from '../messages.js';
import { useRead } from '../store.js';

/** @type {Promise<any>|null} they are the same for everybody, as long as the page is open */
let known = null;

const services = () => { known ||= api.get('/members/permissions/services').catch((error) => { known = null; throw error; }); return known; };

/** @param {{value: Record<string, string>|null, set: (value: Record<string, string>) => void, label: string, fallback: string}} props fallback: what a service without a level has */
export function Permissions({ value, set, label, fallback }) {
  const read = useRead(services, []);
  const rows = useMemo(() => read.value?.services || [], [read.value]);
  const change = (/** @type {string} */ id, /** @type {string} */ level) => {
    const next = { ...(value || {}) };
    if (level) next[id] = level; else delete next[id];
    set(next);
  };
  if (!read.value) return html`<p class="note">${read.error ? read.error.message : t('list.loading')}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="levels"><caption class="hidden">${label}</caption><tbody>
    ${rows.map((/** @type {any} */ one) => html`<tr key=${one.id}><th scope="row" title=${one.description}>${one.label}</th>
      <td><select aria-label=${one.label} name=${`level-${one.id}`} value=${value?.[one.id] || ''} onChange=${(/** @type {any} */ event) => change(one.id, event.target.value)}>
        <option value="">${fallback}</option>${read.value.levels.map((/** @type {string} */ level) => html`<option key=${level} value=${level}>${t(`level.${level}`)}</option>`)}</select></td></tr>`)}
  </tbody></table></div>`;
}

/** The levels in one line. @param {Record<string, string>|null|undefined} value */
export const levelsText = (value) => Object.entries(value || {}).map(([service, level]) => `${service}:${level}`).join(' ');
