// Webhooks: the endpoints, and the one that is open with what it was told.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Panes } from '../components/panes.js';
import { Table } from '../components/table.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { useRead } from '../store.js';
import { Endpoint, EndpointForm } from '../webhooks/endpoint.js';
import { health } from '../webhooks/health.js';
import { Secret } from '../components/secret.js';
import { useMay } from '../who.js';

/** @param {{params: any, address: any}} props */
export default function Webhooks({ params, address }) {
  const open = params?.id || null;
  const list = useRead((signal) => api.get('/webhooks', {}, { signal }).then((answer) => answer.endpoints), []);
  const [making, setMaking] = useState(false);
  const may = useMay('webhooks', 'admin');
  const [made, setMade] = useState(/** @type {any} */ (null));
  const rows = list.value || [];
  const columns = [
    { key: 'url', title: t('webhooks.url'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.description || row.url },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} ...${health(row)} />` },
    ...(open ? [] : [
      { key: 'events', title: t('webhooks.events'), phone: false, cell: (/** @type {any} */ row) => row.events.join(', ') },
      { key: 'project', title: t('webhooks.hears'), phone: false, cell: (/** @type {any} */ row) => t(row.projectId ? 'webhooks.hears.project' : 'webhooks.hears.all') },
    ]),
  ];
  const make = may && html`<button class="primary" id="new-webhook" onClick=${() => setMaking(true)}>${t('webhooks.new')}</button>`;
  const left = html`${!open && html`<h1 class="hidden">${t('nav.webhooks')}</h1>`}
    ${(rows.length > 0 || open) && html`<div class="filters"><span class="faint grow">${t('list.end', { n: rows.length })}</span>${may && html`<button class="tiny" id="new-webhook" onClick=${() => setMaking(true)}>+ ${t('webhooks.new')}</button>`}</div>`}
    <${Table} label=${t('nav.webhooks')} columns=${columns} rows=${rows} loading=${!list.value && list.loading} error=${list.error} retry=${list.reload} selected=${open}
      href=${(/** @type {any} */ row) => `/dashboard/webhooks/${row.id}`}
      empty=${html`<${Empty} text=${t('webhooks.empty')} action=${make} curl=${{ path: '/webhooks', body: { url: 'https:' + '//example.com/hook', events: ['session.*'] } }} />`} />`;
  return html`<${Panes} list=${left} back="/dashboard/webhooks" thing=${open && html`<${Endpoint} key=${open} id=${open} address=${address} changed=${list.reload} />`} />
    ${making && html`<${Dialog} title=${t('webhooks.new')} onClose=${() => setMaking(false)}><${EndpointForm} submit=${t('webhooks.new')} onSubmit=${async (/** @type {any} */ value) => {
      const { endpoint } = await api.post('/webhooks', value);
      setMaking(false);
      setMade(endpoint);
      list.reload();
    }} /><//>`}
    ${made && html`<${Secret} title=${t('webhooks.secret')} text=${t('webhooks.secret.once')} secret=${made.secret} onClose=${() => { setMade(null); go(`/dashboard/webhooks/${made.id}`); }} />`}`;
}
