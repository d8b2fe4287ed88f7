// One model: its form, and a call of it.

import { html, useState } from '../lib.js';
import { besideField } from '../agent/fields.js';
import { api } from '../api.js';
import { Money, Status } from '../components/cells.js';
import { confirm, unchanged } from '../components/dialog.js';
import { errorText } from '../components/failure.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { duration, number } from '../format.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { modelFields, modelOf, modelShown } from './fields.js';
import { useGuardrails } from './guardrails.js';
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
    ${may && html`<${Try} path=${path} />`}
    ${builtin ? html`<p class="note">${t('models.builtin')}</p>` : html`<div class="model-form"><${Form} keep=${`${path} ${model.updatedAt}`} schema=${modelFields(known, guardrails, model)} value=${modelShown(model)} submit=${may && t('do.save')} onSubmit=${save} /></div>`}</div>`;
}

/** @param {{path: string}} props */
function Try({ path }) {
  const [outcome, setOutcome] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const call = async () => {
    setBusy(true);
    setFailed('');
    setOutcome(null);
    try { setOutcome(await api.post(`${path}/test`)); } catch (error) { setFailed(errorText(error)); }
    setBusy(false);
  };
  return html`<section class="try"><div class="row"><button class="button" id="try-model" disabled=${busy} aria-busy=${busy} onClick=${call}>${t(busy ? 'models.trying' : 'models.try')}</button>
      <span class="faint">${t('models.try.about')}</span></div>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${outcome && html`<div class="outcome" role="status" data-outcome=${outcome.ok ? 'ok' : 'error'}><p class="facts"><${Status} value=${outcome.ok ? 'succeeded' : 'failed'} word=${outcome.ok ? t('models.try.ok') : t('models.try.failed')} />
        <span class="number">${duration(outcome.latency_ms)}</span>
        ${outcome.ok ? html`<span class="number">${t('models.try.tokens', { input: number(outcome.input_tokens), output: number(outcome.output_tokens) })}</span>
          ${outcome.cost_usd === null ? html`<span class="faint">${t('models.try.unpriced')}</span>` : html`<${Money} usd=${outcome.cost_usd} digits=${6} />`}` : html`<code>${outcome.error.code}${outcome.error.status ? ` · ${outcome.error.status}` : ''}</code>`}</p>
      ${(outcome.text || outcome.error) && html`<pre tabindex="0">${outcome.ok ? outcome.text : outcome.error.message}</pre>`}</div>`}</section>`;
}
