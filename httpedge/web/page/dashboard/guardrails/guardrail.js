// One guardrail: what it looks for, who names it, a text to try it on, and what it has decided.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { confirm, Dialog, unchanged } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Decided, Trail, written } from '../components/trail.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { GuardrailForm } from './form.js';
import { actions, categoryName, rulesTold } from './rules.js';
import { Try } from './try.js';

/** Whether it acts. @param {any} guardrail */
export const inForce = (guardrail) => (guardrail.enabled ? 'active' : 'disabled');

/** @param {{id: string, address: any, may: boolean, changed: () => void, gone: () => void}} props id: its key */
export function Guardrail({ id, address, may, changed, gone }) {
  const path = `/guardrails/${encodeURIComponent(id)}`;
  const read = useRead((signal) => api.get(path, {}, { signal }).then((answer) => answer.guardrail), [id]);
  const uses = useRead((signal) => api.get(`${path}/uses`, {}, { signal }), [id]);
  const [editing, setEditing] = useState(false);
  const [round, setRound] = useState(0);
  const guardrail = read.value;
  usePlace(guardrail?.name || id);
  if (read.error && !guardrail) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!guardrail) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const { name } = guardrail;
  const remove = async () => {
    const named = await api.get(`${path}/uses`).catch(() => null); // as it is now, not when the page was opened
    const n = (named?.models?.count || 0) + (named?.agents?.count || 0);
    const all = named?.models && named.agents;
    const text = n ? t('guardrails.delete.named', { name, n }) : t(all ? 'guardrails.delete.text' : 'guardrails.delete.unknown', { name });
    if (await confirm({ title: t('guardrails.delete'), text, yes: t('guardrails.delete'), act: () => api.remove(path) })) gone();
  };
  return html`<article class="thing" data-ready="true" aria-label=${name}>
    <header class="session-head"><div><h1>${name}</h1><p class="facts"><${Status} value=${inForce(guardrail)} /><span>${t('shields.changed')} <${Time} at=${guardrail.updatedAt} /></span><${ID} id=${guardrail.key} whole /></p></div>
      ${may && html`<div class="do"><button class="button" id="edit" onClick=${() => setEditing(true)}>${t('shields.edit')}</button><button class="button" id="delete" onClick=${remove}>${t('guardrails.delete')}</button></div>`}</header>
    <dl class="pairs"><div><dt>${t('guardrails.action')}</dt><dd><${Decided} value=${guardrail.action} word=${t(`guardrails.action.${guardrail.action}`)} /></dd></div>
      ${guardrail.message && html`<div><dt>${t('guardrails.message')}</dt><dd>${guardrail.message}</dd></div>`}
      ${guardrail.description && html`<div><dt>${t('guardrails.description')}</dt><dd>${guardrail.description}</dd></div>`}
      ${rulesTold(guardrail).map((rule) => html`<div key=${rule.kind} data-rule=${rule.kind}><dt>${t(`guardrails.${rule.kind}`)}</dt><dd><${Decided} value=${rule.action} word=${t(`guardrails.action.${rule.action}`)} />
        ${rule.of.map((one) => html`<span class="chip" key=${one}>${one}</span>`)}</dd></div>`)}
      <${Uses} kind="models" read=${uses} /><${Uses} kind="agents" read=${uses} /></dl>
    ${may && html`<${Try} guardrail=${guardrail} tried=${() => setTimeout(() => setRound((n) => n + 1), written)} />`}
    <${Found} round=${round} path=${path} address=${address} />
    ${editing && html`<${Dialog} wide title=${t('shields.edit')} onClose=${() => setEditing(false)}><${GuardrailForm} value=${guardrail} submit=${t('do.save')} onSubmit=${async (/** @type {any} */ value) => {
      if (!await unchanged(guardrail.updatedAt, () => api.get(path).then((answer) => answer.guardrail.updatedAt))) return false;
      read.set((await api.patch(path, value)).guardrail);
      setEditing(false);
      changed();
      return true;
    }} /><//>`}
  </article>`;
}

/** Who names it. @param {{kind: 'models'|'agents', read: any}} props */
function Uses({ kind, read }) {
  const uses = read.value?.[kind];
  if (!read.error && read.value && !uses) return null; // the person may not read them
  const side = (/** @type {any} */ one) => t(`guardrails.side.${one.input && one.output ? 'both' : one.input ? 'input' : 'output'}`);
  return html`<div id=${`uses-${kind}`}><dt>${t(`nav.${kind}`)}</dt><dd>${read.error ? html`<span class="bad">${read.error.message}</span>` : !uses ? t('list.loading')
    : uses.count ? html`${uses.first.map((/** @type {any} */ one) => html`<span key=${one.key}><a href=${`/dashboard/${kind}/${encodeURIComponent(one.key)}`} data-link>${one.name || one.key}</a> <span class="faint">${side(one)}</span></span>`)}
      ${uses.count > uses.first.length && html`<span class="faint">${t('json.more', { n: uses.count - uses.first.length })}</span>`}` : html`<span class="faint">${t('guardrails.unnamed')}</span>`}</dd></div>`;
}

/** @param {{path: string, address: any, round: number}} props */
function Found({ path, address, round }) {
  const word = (/** @type {string} */ action) => t(`guardrails.action.${action}`);
  const columns = [
    { key: 'action', title: t('guardrails.action'), cell: (/** @type {any} */ row) => html`<${Decided} value=${row.action} word=${word(row.action)} />` },
    { key: 'found', title: t('guardrails.found'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => row.findings.map((/** @type {any} */ one) => `${categoryName(one.category)}${one.count > 1 ? ` × ${one.count}` : ''}`).join(', ') },
    { key: 'stage', title: t('guardrails.stage'), phone: false, cell: (/** @type {any} */ row) => t(`guardrails.side.${row.stage}`) },
    { key: 'where', title: t('guardrails.where'), cell: (/** @type {any} */ row) => html`<${Where} row=${row} />` },
    { key: 'at', title: t('shields.at'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.at} />` },
  ];
  return html`<${Trail} round=${round} title=${t('shields.decisions')} path=${path} address=${address} filter="action" label=${t('guardrails.action')} any=${t('shields.decision.any')} empty=${t('guardrails.found.empty')}
    choices=${[...actions].reverse()} word=${word} columns=${columns} />`;
}

/** Where a text came from: a session's page is behind it, where it was in one. @param {{row: any}} props */
function Where({ row }) {
  const source = t(`guardrails.source.${row.source}`);
  if (row.conversationId?.startsWith('conv_')) return html`<a href=${`/dashboard/sessions/${encodeURIComponent(row.conversationId)}`} data-link>${source}</a>`;
  return html`<span title=${row.conversationId || row.resourceName}>${source}</span>`;
}
