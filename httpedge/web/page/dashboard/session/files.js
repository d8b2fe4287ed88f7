// The files of a session.

import { html, useEffect, useRef } from '../lib.js';
import { api, API, call, linkURL } from '../api.js';
import { Time } from '../components/cells.js';
import { confirm } from '../components/dialog.js';
import { Empty } from '../components/empty.js';
import { Failure } from '../components/failure.js';
import { Table } from '../components/table.js';
import { toast } from '../components/toast.js';
import { bytes } from '../format.js';
import { t } from '../messages.js';
import { useRead, useStore } from '../store.js';
import { useMay } from '../who.js';

/** @param {{log: import('./log.js').SessionLog}} props */
export function Files({ log }) {
  const version = useStore(log.version);
  const changes = log.events.filter((event) => event.type.startsWith('file.')).length;
  const { value, error, loading, reload } = useRead((signal) => api.get(`${log.path}/files`, {}, { signal }), [log.id, changes]);
  const may = useMay('agents', 'write');
  const input = useRef(/** @type {HTMLInputElement|null} */ (null));
  useEffect(() => {}, [version]);
  const upload = async (/** @type {any} */ event) => {
    for (const file of event.target.files) {
      const form = { 'Content-Type': file.type || 'application/octet-stream' };
      await call('POST', `${API}${log.path}/files?name=${encodeURIComponent(file.name)}`, file, { headers: form }).catch(toast);
    }
    event.target.value = '';
    reload();
  };
  const remove = (/** @type {any} */ file) => confirm({
    title: t('files.remove.title'), text: t('files.remove.text', { name: file.name }), yes: t('files.remove'), act: () => api.remove(`${log.path}/files/${file.id}`),
  }).then((done) => { if (done) reload(); });
  if (error) return html`<${Failure} error=${error} retry=${reload} />`;
  const add = may && html`<button class="button" onClick=${() => input.current?.click()}>${t('files.upload')}</button><input type="file" multiple hidden ref=${input} onChange=${upload} />`;
  const files = value?.data || [];
  if (!files.length && !loading) return html`<${Empty} text=${t('files.none')} action=${add} curl=${{ path: `${log.path}/files` }} />`;
  return html`${add && html`<div class="filters">${add}</div>`}<${Table} label=${t('session.files')} rows=${files} loading=${loading && !files.length} columns=${[
    { key: 'name', title: t('files.name'), kind: 'wide', cell: (/** @type {any} */ file) => html`<a href=${linkURL(`${log.path}/files/${file.id}/content`)} download=${file.name}>${file.name}</a>` },
    { key: 'type', title: t('files.type'), phone: false, cell: (/** @type {any} */ file) => file.mime_type },
    { key: 'size', title: t('files.size'), kind: 'number', cell: (/** @type {any} */ file) => bytes(file.size) },
    { key: 'at', title: t('files.added'), kind: 'number', phone: false, cell: (/** @type {any} */ file) => html`<${Time} at=${file.created_at} />` },
    { key: 'do', title: '', cell: (/** @type {any} */ file) => may && html`<button class="tiny" onClick=${() => remove(file)}>${t('files.remove')}</button>` },
  ]} />`;
}
