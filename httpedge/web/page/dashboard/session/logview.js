// The event log as it is: one row for each event, drawn where it is seen, searched and filtered.

import { html, useMemo } from '../lib.js';
import { useSettled } from '../components/cells.js';
import { Json } from '../components/json.js';
import { Table } from '../components/table.js';
import { clock } from '../format.js';
import { t } from '../messages.js';
import { setQuery } from '../router.js';
import { useStore } from '../store.js';

/** @param {any} data */
const brief = (data) => JSON.stringify(data).slice(0, 160);

/** @param {{log: import('./log.js').SessionLog, address: any}} props */
export function LogView({ log, address }) {
  const version = useStore(log.version);
  const [text, setText] = useSettled(address.query.get('q') || '', (q) => setQuery({ q }, { replace: true }));
  const type = address.query.get('type') || '';
  const wanted = (address.query.get('q') || '').toLowerCase();
  const types = useMemo(() => [...new Set(log.events.map((event) => event.type))].sort(), [version]);
  const rows = useMemo(() => log.events.filter((event) => (!type || event.type === type) && (!wanted || JSON.stringify(event).toLowerCase().includes(wanted)))
    .map((event) => ({ ...event, id: String(event.seq) })), [version, type, wanted]);
  const open = address.query.get('event');
  const chosen = open && log.events.find((event) => String(event.seq) === open);
  const href = (/** @type {any} */ row) => { const query = new URLSearchParams(address.query); query.set('event', row.id); return `${address.path}?${query}`; };
  return html`<div class="falls" data-chosen=${Boolean(chosen)}>
    <div class="falls-main"><div class="filters"><input type="search" aria-label=${t('log.search')} placeholder=${t('log.search')} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
      <select aria-label=${t('log.types')} value=${type} onChange=${(/** @type {any} */ event) => setQuery({ type: event.target.value }, { replace: true })}><option value="">${t('log.types')}</option>
        ${types.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></div>
      <${Table} label=${t('log.label')} rows=${rows} selected=${open} href=${href} empty=${html`<p class="note">${t('list.none')}</p>`} columns=${[
        { key: 'type', title: t('log.types'), cell: (/** @type {any} */ row) => html`<span class="number faint">${row.seq}</span> ${row.type}` },
        { key: 'data', title: t('trace.output'), kind: 'wide', phone: false, cell: (/** @type {any} */ row) => html`<code class="soft">${brief(row.data)}</code>` },
        { key: 'at', title: t('chart.time'), kind: 'number', cell: (/** @type {any} */ row) => clock(row.created_at) },
      ]} /></div>
    <div class="falls-detail">${chosen ? html`<section class="detail" aria-label=${t('trace.event', { n: open || '' })}><h2>${chosen.type}</h2><${Json} find value=${chosen} open=${4} /></section>` : html`<p class="note">${t('trace.choose')}</p>`}</div>
  </div>`;
}
