// One provider: its form. Its credentials are never shown again.

import { html } from '../lib.js';
import { besideField } from '../agent/fields.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { confirm, unchanged } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { providerFields, providerOf } from './fields.js';
import { useMay } from '../who.js';

/** @param {{provider: any, changed: () => void, gone: () => void}} props */
export function Provider({ provider, changed, gone }) {
  const path = `/models/providers/${encodeURIComponent(provider.key)}`;
  const name = provider.label || provider.key;
  usePlace(name);
  const may = useMay('models', 'write');
  const save = async (/** @type {any} */ value) => {
    const latest = () => api.get('/models/providers').then((answer) => answer.providers.find((/** @type {any} */ one) => one.key === provider.key)?.updatedAt);
    if (!await unchanged(provider.updatedAt, latest)) return false;
    await api.patch(path, providerOf(provider, value)).catch((error) => { throw besideField(error); });
    toast(t('models.saved'));
    changed();
    return true;
  };
  const remove = async () => {
    const done = await confirm({ title: t('models.delete.provider'), text: t('models.delete.provider.text', { name }), yes: t('models.delete'), act: () => api.remove(path) });
    if (done) gone();
  };
  const credentials = Object.keys(provider.credentials);
  return html`<div class="model" data-ready="true"><header class="session-head"><div><h1>${name}</h1>
      <p class="facts"><${Status} value=${provider.status} /><span>${provider.driver}</span><code>${provider.key}</code>
        <span id="credentials">${credentials.length ? t('models.credentials.kept', { names: credentials.join(', ') }) : t('models.credentials.none')}</span></p></div>
      <div class="do">${may && html`<button class="button" id="delete" onClick=${remove}>${t('models.delete')}</button>`}</div></header>
    <div class="model-form"><${Form} keep=${`${path} ${provider.updatedAt}`} schema=${providerFields(provider)} value=${{ ...provider.settings, label: name, status: provider.status }} submit=${may && t('do.save')} onSubmit=${save} /></div></div>`;
}
