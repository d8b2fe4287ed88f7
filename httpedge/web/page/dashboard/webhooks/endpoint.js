// One webhook endpoint: its health, what can be done with it, and what it was told.

import { html, useMemo, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { confirm, Dialog, unchanged } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Secret } from '../components/secret.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { rules, useMay } from '../who.js';
import { Deliveries } from './deliveries.js';
import { health, reasonText } from './health.js';

/** @param {{value?: any, submit: string, onSubmit: (value: any) => any}} props */
export function EndpointForm({ value, submit, onSubmit }) {
  const types = useRead((signal) => api.get('/webhooks/events', {}, { signal }).then((answer) => answer.events), []);
  const groups = useMemo(() => [...new Set((types.value || []).map((/** @type {any} */ one) => one.group))], [types.value]);
  const [chosen, setChosen] = useState(/** @type {string[]} */ (value?.events || ['*']));
  const [whole, setWhole] = useState(false);
  const pick = (/** @type {string} */ type, /** @type {boolean} */ on) => setChosen((now) => {
    const left = now.filter((one) => one !== type && one !== '*');
    return on ? [...left, type] : left;
  });
  const wild = chosen.includes('*');
  const events = html`<fieldset class="picks"><legend>${t('webhooks.events')}</legend>
    <label class="tick"><input type="checkbox" name="events-all" checked=${wild} onChange=${(/** @type {any} */ event) => setChosen(event.target.checked ? ['*'] : [])} />${t('webhooks.events.all')}</label>
    ${!wild && groups.map((group) => html`<div key=${group}>${(types.value || []).filter((/** @type {any} */ one) => one.group === group).map((/** @type {any} */ one) => html`<label class="tick" key=${one.type}>
      <input type="checkbox" name=${one.type} checked=${chosen.includes(one.type) || chosen.includes(`${one.type.split('.')[0]}.*`)} onChange=${(/** @type {any} */ event) => pick(one.type, event.target.checked)} /><code>${one.type}</code></label>`)}</div>`)}
    ${!value && rules() && html`<label class="tick"><input type="checkbox" checked=${whole} onChange=${(/** @type {any} */ event) => setWhole(event.target.checked)} />${t('webhooks.whole')}</label>`}
  </fieldset>`;
  return html`<${Form} autofocus keep=${`webhook ${value?.id || ''} ${value?.updatedAt || ''}`} submit=${submit} value=${value} before=${events} schema=${{ properties: {
    url: { title: t('webhooks.url'), placeholder: 'https:' + '//example.com/hook', description: t('webhooks.url.about'), maxLength: 2000 },
    description: { title: t('webhooks.description') },
  }, required: ['url'] }} onSubmit=${(/** @type {any} */ form) => onSubmit({ description: '', ...form, events: chosen, ...(whole && { projectId: null }) })} />`;
}

/** @param {{id: string, address: any, changed: () => void}} props */
export function Endpoint({ id, address, changed }) {
  const read = useRead((signal) => api.get(`/webhooks/${encodeURIComponent(id)}`, {}, { signal }).then((answer) => answer.endpoint), [id]);
  const [editing, setEditing] = useState(false);
  const [secret, setSecret] = useState('');
  const [round, setRound] = useState(0);
  const [testing, setTesting] = useState(false);
  const may = useMay('webhooks', 'admin');
  const endpoint = read.value;
  usePlace(endpoint?.description || endpoint?.url || id);
  if (read.error && !endpoint) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!endpoint) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const path = `/webhooks/${encodeURIComponent(id)}`;
  const name = endpoint.description || endpoint.url;
  const took = (/** @type {any} */ answer) => { read.set({ ...answer.endpoint, secret: undefined }); changed(); return answer.endpoint; };
  const change = async (/** @type {any} */ body) => took(await api.patch(path, body));
  const active = endpoint.status === 'active';
  const readOnly = endpoint.urlRedacted || !may;
  const toggle = async () => {
    if (!active) { await change({ status: 'active' }).then(() => toast(t('webhooks.enabled')), toast); return; }
    if (await confirm({ title: t('webhooks.disable'), text: t('webhooks.disable.text', { name }), yes: t('webhooks.disable'), act: () => change({ status: 'disabled' }) })) {
      toast(t('webhooks.disabled'), { label: t('do.undo'), act: () => { change({ status: 'active' }).catch(toast); } });
    }
  };
  const test = async () => {
    setTesting(true);
    try {
      const { delivery } = await api.post(`${path}/test`);
      toast(delivery.status === 'delivered' ? t('webhooks.test.done', { status: delivery.lastStatusCode }) : new Error(t('webhooks.test.failed', { why: delivery.lastError || '' })));
      setRound((n) => n + 1);
      read.reload();
    } catch (error) { toast(/** @type {Error} */ (error)); }
    setTesting(false);
  };
  const rotate = () => confirm({ title: t('webhooks.rotate'), text: t('webhooks.rotate.text', { name }), yes: t('webhooks.rotate'),
    act: async () => { const made = (await api.post(`${path}/rotate-secret`)).endpoint; setSecret(made.secret); } });
  const remove = async () => {
    if (await confirm({ title: t('webhooks.delete'), text: t('webhooks.delete.text', { name }), yes: t('webhooks.delete'), act: () => api.remove(path) })) { changed(); go('/dashboard/webhooks'); }
  };
  return html`<article class="thing" data-ready="true" aria-label=${name}>
    <header class="session-head"><div><h1>${name}</h1><p class="facts"><${Status} ...${health(endpoint)} />
        ${endpoint.failingSince && html`<span>${t('webhooks.since')} <${Time} at=${endpoint.failingSince} /></span>`}
        ${endpoint.disabledReason && html`<span class="bad">${reasonText(endpoint.disabledReason)}</span>`}<${ID} id=${id} /></p></div>
      ${!readOnly && html`<div class="do">
        <button class="button" id="test" disabled=${testing} onClick=${test}>${t('webhooks.test')}</button>
        <button class="button" id="edit" onClick=${() => setEditing(true)}>${t('webhooks.edit')}</button>
        <button class="button" id="toggle" onClick=${toggle}>${t(active ? 'webhooks.disable' : 'webhooks.enable')}</button>
        <button class="button" id="rotate" onClick=${rotate}>${t('webhooks.rotate')}</button>
        <button class="button" id="delete" onClick=${remove}>${t('webhooks.delete')}</button></div>`}</header>
    <dl class="pairs"><div><dt>${t('webhooks.url')}</dt><dd><code>${endpoint.url}</code></dd></div>
      <div><dt>${t('webhooks.events')}</dt><dd>${endpoint.events.map((/** @type {string} */ one) => html`<code class="chip" key=${one}>${one}</code>`)}</dd></div>
      <div><dt>${t('webhooks.hears')}</dt><dd>${t(endpoint.projectId ? 'webhooks.hears.project' : 'webhooks.hears.all')}</dd></div></dl>
    <${Deliveries} key=${round} endpoint=${endpoint} address=${address} readOnly=${readOnly} />
    ${editing && html`<${Dialog} title=${t('webhooks.edit')} onClose=${() => setEditing(false)}><${EndpointForm} value=${endpoint} submit=${t('do.save')}
      onSubmit=${async (/** @type {any} */ value) => {
        if (!await unchanged(endpoint.updatedAt, () => api.get(path).then((answer) => answer.endpoint.updatedAt))) return false;
        await change(value);
        setEditing(false);
        return true;
      }} /><//>`}
    ${secret && html`<${Secret} title=${t('webhooks.secret')} text=${t('webhooks.secret.rotated')} secret=${secret} onClose=${() => setSecret('')} />`}
  </article>`;
}
