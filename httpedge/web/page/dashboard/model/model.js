// One model: its form.

import { html } from '../lib.js';
import { besideField } from '../agent/fields.js';
import { api } from '../api.js';
import { confirm, unchanged } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { modelFields, modelOf, modelShown } from './fields.js';
import { useGuardrails } from './guardrails.js';
import { Try } from './try.js';
import { useMay } from '../who.js';

/** @param {{model: any, providers: any[], changed: () => void, gone: () => void}} props */
export function Model({ model, providers, changed, gone }) {
  const path = `/models/${encodeURIComponent(model.key)}`;
  const builtin = !model.createdAt;
  const may = useMay('models', 'write');
  const guardrails = useGuardrails();
  usePlace(model.name);
  const known = providers.some((one) => one.key === model.providerKey) ? providers : [...providers, { key: model.providerKey }];
  const save = async (/** @type {any} */ value) => {
    if (!await unchanged(model.updatedAt, () => api.get(path).then((answer) => answer.model.updatedAt))) return false;
    await api.patch(path, modelOf(model, value)).catch((error) => { throw besideField(error); });
    toast(t('models.saved'));
    changed();
    return true;
  };
  const remove = async () => {
    const done = await confirm({ title: t('models.delete.model'), text: t('models.delete.model.text', { name: model.name }), yes: t('models.delete'), act: () => api.remove(path) });
    if (done) gone();
  };
  return html`<div class="model" data-ready="true"><header class="session-head"><div><h1>${model.name}</h1>
      <p class="facts"><code>${model.key}</code><a href=${`/dashboard/models/providers/${encodeURIComponent(model.providerKey)}`} data-link>${known.find((one) => one.key === model.providerKey)?.label || model.providerKey}</a></p></div>
      <div class="do">${!builtin && may && html`<button class="button" id="delete" onClick=${remove}>${t('models.delete')}</button>`}</div></header>
    ${may && html`<${Try} path=${path} category=${model.category} />`}
    ${builtin ? html`<p class="note">${t('models.builtin')}</p>` : html`<div class="model-form"><${Form} keep=${`${path} ${model.updatedAt}`} schema=${modelFields(known, guardrails, model)} value=${modelShown(model)} submit=${may && t('do.save')} onSubmit=${save} /></div>`}</div>`;
}
