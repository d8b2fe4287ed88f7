// What was published of an agent; an earlier version can be taken back into the draft.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status, Time } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { errorText } from '../components/failure.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { Diff } from './diff.js';
import { differences, published } from './fields.js';

/** @param {{path: string, may: boolean, draft: any, versions: any[], published: number|null, reload: () => void}} props */
export function Versions({ path, may, draft, versions, published: current, reload }) {
  const [open, setOpen] = useState(/** @type {any} */ (null));
  if (!versions.length) return html`<p class="note">${t('agent.versions.none')}</p>`;
  return html`<ol class="versions">${versions.map((one) => html`<li key=${one.version}>
      <div><strong>${t('agent.version', { n: one.version })}</strong> ${one.version === current && html`<${Status} value="active" word=${t('agent.version.current')} />`}
        <p class="soft">${one.changelog || t('agent.changelog.none')}</p></div>
      <${Time} at=${one.createdAt} /><button class="button compare-version" data-version=${one.version} onClick=${() => setOpen(one)}>${t('agent.version.compare')}</button></li>`)}</ol>
    ${open && html`<${Restore} path=${path} may=${may} draft=${draft} version=${open} close=${() => setOpen(null)} reload=${reload} />`}`;
}

/** @param {{path: string, may: boolean, draft: any, version: any, close: () => void, reload: () => void}} props */
function Restore({ path, may, draft, version, close, reload }) {
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const changes = differences(published(draft), published(version.snapshot));
  const restore = async () => {
    setBusy(true);
    setFailed('');
    try {
      const { name, description, config } = version.snapshot;
      await api.patch(path, { name, description: description || '', config });
      toast(t('agent.restored', { n: version.version }));
      close();
      reload();
    } catch (error) { setFailed(errorText(error)); setBusy(false); }
  };
  return html`<${Dialog} wide title=${t('agent.version.title', { n: version.version })} onClose=${close}>
    ${may && html`<p class="soft">${t('agent.restore.text')}</p>`}<${Diff} changes=${changes} />
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    <footer><button class="button" onClick=${close}>${t('do.close')}</button>
      ${may && html`<button class="primary" id="restore" disabled=${busy || !changes.length} onClick=${restore}>${t('agent.restore')}</button>`}</footer><//>`;
}
