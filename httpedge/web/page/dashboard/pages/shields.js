// Shields: what judges calls, what waits for a person, and the one that is open beside them.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { Status, Time } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Panes, Tabs } from '../components/panes.js';
import { Table } from '../components/table.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { Approval, approvalStatus } from '../shields/approval.js';
import { modeStatus, Shield, ShieldForm } from '../shields/shield.js';
import { useRead } from '../store.js';
import { useMay } from '../who.js';

/** How many approvals are listed, and how often what waits is looked at again, in milliseconds. */
const size = 100;
const pause = 3000;

/** @param {{params: any, address: any}} props */
export default function Shields({ params, address }) {
  const view = params?.approval || address.query.get('view') === 'approvals' ? 'approvals' : 'shields';
  const open = params?.id || params?.approval || null;
  const may = useMay('aegis', 'admin');
  const [making, setMaking] = useState(false);
  const shields = useRead((signal) => api.get('/aegis/shields', {}, { signal }).then((answer) => answer.shields), []);
  const approvals = useRead((signal) => api.get('/aegis/approvals', { limit: size }, { signal }).then((answer) => answer.approvals), []);
  const refused = approvals.error?.status === 403;
  useEffect(() => {
    if (refused) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) api.get('/aegis/approvals', { limit: size }).then((answer) => approvals.set(answer.approvals), () => {}); // the next look may find it
    }, pause);
    return () => clearInterval(timer);
  }, [refused]);
  const nameOf = (/** @type {string} */ id) => shields.value?.find((/** @type {any} */ one) => one.id === id)?.name || id;
  const href = (/** @type {string} */ key) => `/dashboard/shields${key === 'approvals' ? '?view=approvals' : ''}`;
  const waiting = (approvals.value || []).filter((/** @type {any} */ one) => approvalStatus(one) === 'pending').length;
  const left = html`<h1 class="hidden">${t('nav.shields')}</h1><div class="list-head">
      <${Tabs} label=${t('shields.views')} open=${view} href=${href} tabs=${[{ key: 'shields', title: t('nav.shields') }, { key: 'approvals', title: t('shields.approvals'), count: waiting }]} />
      ${view === 'shields' && may && shields.value && html`<button class="tiny" id="new-shield" onClick=${() => setMaking(true)}>+ ${t('shields.new')}</button>`}</div>
    ${view === 'shields' ? html`<${List} read=${shields} open=${open} />` : html`<${Waiting} read=${approvals} open=${open} nameOf=${nameOf} />`}`;
  const gone = () => { shields.reload(); go(href('shields')); };
  let thing = null;
  if (open && view === 'shields') thing = html`<${Shield} key=${open} id=${open} address=${address} may=${may} changed=${shields.reload} gone=${gone} />`;
  else if (open) thing = html`<${Approval} key=${open} id=${open} nameOf=${nameOf} changed=${approvals.reload} />`;
  return html`<${Panes} list=${left} back=${href(view)} thing=${thing} />
    ${making && html`<${Dialog} title=${t('shields.new')} onClose=${() => setMaking(false)}><${ShieldForm} submit=${t('shields.new')} onSubmit=${async (/** @type {any} */ value) => {
      const { shield } = await api.post('/aegis/shields', value);
      setMaking(false);
      shields.reload();
      go(`/dashboard/shields/${encodeURIComponent(shield.id)}`);
    }} /><//>`}`;
}

/** @param {{read: any, open: string|null}} props */
function List({ read, open }) {
  const columns = [
    { key: 'name', title: t('shields.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.name },
    { key: 'mode', title: t('shields.mode'), cell: (/** @type {any} */ row) => html`<${Status} ...${modeStatus(row.mode)} />` },
    ...(open ? [] : [{ key: 'description', title: t('shields.description'), phone: false, cell: (/** @type {any} */ row) => row.description || '–' }]),
  ];
  return html`<${Table} label=${t('nav.shields')} columns=${columns} rows=${read.value || []} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} selected=${open}
    href=${(/** @type {any} */ row) => `/dashboard/shields/${encodeURIComponent(row.id)}`} />`;
}

/** @param {{read: any, open: string|null, nameOf: (id: string) => string}} props */
function Waiting({ read, open, nameOf }) {
  const columns = [
    { key: 'call', title: t('shields.call'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<code>${row.resourceName}</code>` },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${approvalStatus(row)} />` },
    ...(open ? [] : [{ key: 'shield', title: t('shields.shield'), phone: false, cell: (/** @type {any} */ row) => nameOf(row.shieldId) }]),
    { key: 'at', title: t('shields.at'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.createdAt} />` },
  ];
  const curl = { method: 'POST', path: '/aegis/evaluate', body: { stage: 'tool.pre', resource: { type: 'tool', name: 'delete_record', arguments: { id: '7' } } } };
  return html`<${Table} label=${t('shields.approvals')} columns=${columns} rows=${read.value || []} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} selected=${open}
    href=${(/** @type {any} */ row) => `/dashboard/approvals/${encodeURIComponent(row.id)}`} empty=${html`<${Empty} text=${t('shields.approvals.empty')} curl=${curl} />`} />`;
}
