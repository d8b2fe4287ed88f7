// One shield: what it says, and what it has decided.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { confirm, Dialog, unchanged } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Json } from '../components/json.js';
import { Decided, Trail, written } from '../components/trail.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { useMay } from '../who.js';
import { judgeFields, judgeShown, withJudge } from './judge.js';
import { Try } from './try.js';

const modes = ['enforce', 'simulate', 'disabled'];
const decisions = ['allow', 'redact', 'require_approval', 'sandbox', 'block'];

/** Word, shape and colour of a mode. @param {string} mode */
export const modeStatus = (mode) => ({ value: { enforce: 'active', simulate: 'inactive', disabled: 'disabled' }[mode] || '', word: t(`shields.mode.${mode}`) });

/** A document of a shield with what it says beside a form. @param {string} title @param {string} description */
const jsonField = (title, description) => ({ title, description, type: 'object', check: (/** @type {any} */ value) => (value && typeof value === 'object' && !Array.isArray(value) ? '' : t('shields.object')) });

/** @param {{value?: any, submit: string, onSubmit: (value: any) => any}} props */
export function ShieldForm({ value = { mode: 'enforce', rules: {}, dlp: { redactSecrets: true, redactPii: true } }, submit, onSubmit }) {
  const models = useRead((signal) => api.get('/models', { category: 'llm' }, { signal }).then((answer) => answer.models), []);
  return html`<${Form} autofocus keep=${`shield ${value.id || ''} ${value.updatedAt || ''}`} submit=${submit} value=${{ ...value, ...judgeShown(value.llm) }} schema=${{ properties: {
    name: { title: t('shields.name'), maxLength: 200 },
    description: { title: t('shields.description'), format: 'multiline' },
    mode: { title: t('shields.mode'), enum: modes, names: modes.map((mode) => t(`shields.mode.${mode}`)) },
    rules: jsonField(t('shields.rules'), t('shields.rules.about')),
    dlp: jsonField(t('shields.dlp'), t('shields.dlp.about')),
    ...judgeFields(models.value || [], value.llm),
  }, required: ['name', 'mode'] }} onSubmit=${(/** @type {any} */ form) => onSubmit(withJudge({ description: '', rules: {}, dlp: {}, ...form }))} />`;
}

/** @param {{id: string, address: any, may: boolean, changed: () => void, gone: () => void}} props */
export function Shield({ id, address, may, changed, gone }) {
  const path = `/aegis/shields/${encodeURIComponent(id)}`;
  const read = useRead((signal) => api.get(path, {}, { signal }).then((answer) => answer.shield), [id]);
  const [editing, setEditing] = useState(false);
  const [round, setRound] = useState(0);
  const calls = useMay('aegis', 'write');
  const shield = read.value;
  usePlace(shield?.name || id);
  if (read.error && !shield) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!shield) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const remove = async () => {
    if (await confirm({ title: t('shields.delete'), text: t('shields.delete.text', { name: shield.name }), yes: t('shields.delete'), act: () => api.remove(path) })) gone();
  };
  const said = Object.fromEntries(['rules', 'dlp', 'llm'].filter((name) => shield[name]).map((name) => [name, shield[name]]));
  return html`<article class="thing" data-ready="true" aria-label=${shield.name}>
    <header class="session-head"><div><h1>${shield.name}</h1><p class="facts"><${Status} ...${modeStatus(shield.mode)} />
        ${Date.parse(shield.updatedAt) > 0 && html`<span>${t('shields.changed')} <${Time} at=${shield.updatedAt} /></span>`}<${ID} id=${shield.id} whole /></p></div>
      ${may && html`<div class="do"><button class="button" id="edit" onClick=${() => setEditing(true)}>${t('shields.edit')}</button>
        ${shield.id !== 'default' && html`<button class="button" id="delete" onClick=${remove}>${t('shields.delete')}</button>`}</div>`}</header>
    <dl class="pairs"><div><dt>${t('shields.mode')}</dt><dd>${t(`shields.mode.${shield.mode}.text`)}</dd></div>
      ${shield.description && html`<div><dt>${t('shields.description')}</dt><dd>${shield.description}</dd></div>`}</dl>
    <div class="padded"><${Json} value=${said} label=${t('shields.rules')} /></div>
    ${calls && html`<${Try} shield=${shield} tried=${() => setTimeout(() => setRound((n) => n + 1), written)} />`}
    <${Decisions} path=${path} address=${address} round=${round} />
    ${editing && html`<${Dialog} title=${t('shields.edit')} onClose=${() => setEditing(false)}><${ShieldForm} value=${shield} submit=${t('do.save')} onSubmit=${async (/** @type {any} */ value) => {
      if (!await unchanged(shield.updatedAt, () => api.get(path).then((answer) => answer.shield.updatedAt))) return false;
      read.set((await api.patch(path, value)).shield);
      setEditing(false);
      changed();
      return true;
    }} /><//>`}
  </article>`;
}

/** @param {{path: string, address: any, round: number}} props */
function Decisions({ path, address, round }) {
  const word = (/** @type {string} */ decision) => t(`shields.decision.${decision}`);
  const columns = [
    { key: 'decision', title: t('shields.decision'), cell: (/** @type {any} */ row) => html`<${Decided} value=${row.decision} word=${word(row.decision)} />` },
    { key: 'call', title: t('shields.call'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<code>${row.resourceName}</code> <span class="faint">${row.reasons.join(' ')}</span>` },
    { key: 'stage', title: t('shields.stage'), phone: false, cell: (/** @type {any} */ row) => html`<code>${row.stage}</code>` },
    { key: 'actor', title: t('shields.actor'), phone: false, cell: (/** @type {any} */ row) => row.actorId || '–' },
    { key: 'at', title: t('shields.at'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.at} />` },
  ];
  return html`<${Trail} round=${round} title=${t('shields.decisions')} path=${path} address=${address} filter="decision" label=${t('shields.decision')} any=${t('shields.decision.any')} empty=${t('shields.decisions.empty')}
    choices=${decisions} word=${word} columns=${columns} />`;
}
