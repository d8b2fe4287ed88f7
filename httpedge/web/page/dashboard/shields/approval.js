// One approval: the call that a shield holds until a person has decided.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { Failure } from '../components/failure.js';
import { Json } from '../components/json.js';
import { Secret } from '../components/secret.js';
import { toast } from '../components/toast.js';
import { exact } from '../format.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { useMay } from '../who.js';

/** What an approval is by now: one whose time is over waits no more. @param {any} approval */
export const approvalStatus = (approval) => (approval.status === 'pending' && Date.parse(approval.expiresAt) <= Date.now() ? 'expired' : approval.status);

/** @param {{id: string, nameOf: (id: string) => string, changed: () => void}} props */
export function Approval({ id, nameOf, changed }) {
  const path = `/aegis/approvals/${encodeURIComponent(id)}`;
  const read = useRead((signal) => api.get(path, {}, { signal }).then((answer) => answer.approval), [id]);
  const may = useMay('aegis', 'write');
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const approval = read.value;
  usePlace(approval?.resourceName || id);
  if (read.error && !approval) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!approval) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const decide = async (/** @type {string} */ decision) => {
    setBusy(true);
    try {
      const answer = await api.post(`${path}/decide`, { decision });
      read.set(answer.approval);
      setToken(answer.approvalToken || '');
    } catch (error) {
      toast(/** @type {Error} */ (error));
      read.reload(); // somebody else has decided, or its time is over
    }
    setBusy(false);
    changed();
  };
  const status = approvalStatus(approval);
  const pair = (/** @type {string} */ name, /** @type {any} */ value) => value && html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<article class="thing" data-ready="true" aria-label=${approval.resourceName}>
    <header class="session-head"><div><h1>${approval.resourceName}</h1><p class="facts"><${Status} value=${status} /><${ID} id=${id} /></p></div>
      ${status === 'pending' && may && html`<div class="do"><button class="primary" id="approve" disabled=${busy} onClick=${() => decide('approve')}>${t('shields.approve')}</button>
        <button class="button" id="deny" disabled=${busy} onClick=${() => decide('deny')}>${t('shields.deny')}</button></div>`}</header>
    <dl class="pairs">${pair(t('shields.why'), approval.reasons.join(' '))}${pair(t('shields.shield'), html`<a href=${`/dashboard/shields/${encodeURIComponent(approval.shieldId)}`} data-link>${nameOf(approval.shieldId)}</a>`)}
      ${pair(t('shields.stage'), html`<code>${approval.stage}</code>`)}${pair(t('shields.actor'), approval.actorId)}${pair(t('shields.at'), exact(approval.createdAt))}
      ${pair(t('shields.until'), html`<${Time} at=${approval.expiresAt} />`)}${pair(t('shields.decided'), approval.decidedAt && html`${exact(approval.decidedAt)} <${ID} id=${approval.decidedBy} />`)}</dl>
    <div class="padded">${approval.resource ? html`<${Json} value=${approval.resource} label=${t('shields.call')} />` : html`<p class="faint">${t('shields.toolarge')}</p>`}</div>
    ${token && html`<${Secret} title=${t('shields.token')} text=${t('shields.token.once')} secret=${token} onClose=${() => setToken('')} />`}
  </article>`;
}
