// What a shield or a guardrail has decided, newest first: by a filter that is in the address, a page and then as many as are shown at most.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { t } from '../messages.js';
import { setQuery } from '../router.js';
import { useRead } from '../store.js';
import { Table } from './table.js';

/** A decision is in the trail so many milliseconds after it was made, at most. */
export const written = 1500;

/** How many are shown at first, and at most. */
const few = 100;
const many = 500;

const tones = { block: 'bad', allow: 'good', flag: '' };

/** A decision, in its colour. @param {{value: string, word: string}} props */
export function Decided({ value, word }) {
  return html`<span class="status" data-decision=${value} data-tone=${/** @type {Record<string, string>} */ (tones)[value] ?? 'warn'}>${word}</span>`;
}

/**
 * @param {{round: number, title: string, path: string, address: any, filter: string, label: string, any: string, empty: string, choices: string[], word: (choice: string) => string,
 *   columns: import('./table.js').Column[]}} props round: read anew when it changes; path: of what has decided; filter: the query parameter by which its decisions are chosen
 */
export function Trail({ round, title, path, address, filter, label, any, empty, choices, word, columns }) {
  const chosen = address.query.get(filter) || '';
  const [limit, setLimit] = useState(few);
  const read = useRead((signal) => api.get(`${path}/audit`, { limit, [filter]: chosen }, { signal }).then((answer) => answer.events.map((/** @type {any} */ event, /** @type {number} */ i) => ({ ...event, id: `${event.traceId}/${i}` }))), [path, chosen, limit, round]);
  const rows = read.value || [];
  return html`<div class="deliveries"><div class="filters"><h2 class="grow">${title}</h2>
      <select id=${filter} aria-label=${label} value=${chosen} onChange=${(/** @type {any} */ event) => setQuery({ [filter]: event.target.value })}>
        <option value="">${any}</option>${choices.map((one) => html`<option key=${one} value=${one}>${word(one)}</option>`)}</select>
      <button class="tiny" id="refresh" onClick=${read.reload}>${t('webhooks.refresh')}</button></div>
    <${Table} label=${title} columns=${columns} rows=${rows} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} more=${limit < many && rows.length === limit} onMore=${() => setLimit(many)}
      empty=${html`<p class="note">${chosen ? t('list.none') : empty}</p>`} /></div>`;
}
