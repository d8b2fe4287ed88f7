// Guardrails: what looks at the texts that go to models and come from them, and the one that is open beside them.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Panes } from '../components/panes.js';
import { Table } from '../components/table.js';
import { Decided } from '../components/trail.js';
import { GuardrailForm } from '../guardrails/form.js';
import { Guardrail, inForce } from '../guardrails/guardrail.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { useRead } from '../store.js';
import { useMay } from '../who.js';

const home = '/dashboard/guardrails';

/** @param {{params: any, address: any}} props */
export default function Guardrails({ params, address }) {
  const open = params?.key || null;
  const may = useMay('guardrails', 'write');
  const [making, setMaking] = useState(false);
  const read = useRead((signal) => api.get('/guardrails', {}, { signal }).then((answer) => answer.guardrails), []);
  const rows = read.value || [];
  const at = (/** @type {string} */ key) => `${home}/${encodeURIComponent(key)}`;
  const columns = [
    { key: 'name', title: t('guardrails.name'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.name },
    { key: 'action', title: t('guardrails.action'), cell: (/** @type {any} */ row) => html`<${Decided} value=${row.action} word=${t(`guardrails.action.${row.action}`)} />` },
    ...(open ? [] : [{ key: 'rules', title: t('guardrails.rules'), phone: false, cell: (/** @type {any} */ row) => Object.keys(row.rules).filter((kind) => row.rules[kind]).map((kind) => t(`guardrails.${kind}`)).join(', ') }]),
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${inForce(row)} />` },
  ];
  const make = () => setMaking(true);
  const empty = html`<${Empty} text=${t('guardrails.empty')} action=${may && html`<button class="primary" id="make-first" onClick=${make}>${t('guardrails.new')}</button>`}
    curl=${{ method: 'POST', path: '/guardrails', body: { name: 'Mails', action: 'redact', rules: { pii: { categories: { email: 'redact' } } } } }} />`;
  const list = html`${!open && html`<h1 class="hidden">${t('nav.guardrails')}</h1>`}<div class="filters"><span class="gap"></span>${may && read.value && html`<button class="tiny" id="new-guardrail" onClick=${make}>+ ${t('guardrails.new')}</button>`}</div>
    <${Table} label=${t('nav.guardrails')} columns=${columns} rows=${rows} loading=${!read.value && read.loading} error=${read.error} retry=${read.reload} selected=${rows.find((/** @type {any} */ row) => row.key === open)?.id}
      href=${(/** @type {any} */ row) => at(row.key)} empty=${empty} />`;
  const gone = () => { read.reload(); go(home); };
  return html`<${Panes} list=${list} back=${home} thing=${open && html`<${Guardrail} key=${open} id=${open} address=${address} may=${may} changed=${read.reload} gone=${gone} />`} />
    ${making && html`<${Dialog} wide title=${t('guardrails.new')} onClose=${() => setMaking(false)}><${GuardrailForm} submit=${t('guardrails.new')} onSubmit=${async (/** @type {any} */ value) => {
      const { guardrail } = await api.post('/guardrails', value);
      setMaking(false);
      read.reload();
      go(at(guardrail.key));
    }} /><//>`}`;
}
