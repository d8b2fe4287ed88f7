// What differs, line by line.

import { html } from '../lib.js';
import { t } from '../messages.js';

/** @param {any} value */
const written = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

/** @param {{changes: {path: string, from: any, to: any}[]}} props */
export function Diff({ changes }) {
  if (!changes.length) return html`<p class="soft diff-none">${t('agent.diff.none')}</p>`;
  return html`<dl class="diff" tabindex="0" aria-label=${t('agent.diff')}>${changes.map((change) => html`<div key=${change.path}><dt><code>${change.path}</code></dt>
    ${change.from !== undefined && change.from !== null && html`<dd><del><span class="hidden">${t('agent.diff.before')}</span>${written(change.from)}</del></dd>`}
    ${change.to !== undefined && change.to !== null && html`<dd><ins><span class="hidden">${t('agent.diff.after')}</span>${written(change.to)}</ins></dd>`}</div>`)}</dl>`;
}
