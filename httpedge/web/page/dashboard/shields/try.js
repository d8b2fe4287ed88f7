// Try a shield: what it decides about a call. It is judged and recorded as any other.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Form } from '../components/form.js';
import { Json } from '../components/json.js';
import { Decided } from '../components/trail.js';
import { t } from '../messages.js';
import { stages } from './judge.js';

/** What a resource is at each stage. @param {string} stage */
const typeOf = (stage) => (stage.startsWith('tool') ? 'tool' : stage.startsWith('retrieval') ? 'retrieval' : 'text');

/** @param {{shield: any, tried: () => void}} props */
export function Try({ shield, tried }) {
  const [outcome, setOutcome] = useState(/** @type {any} */ (null));
  const ask = async (/** @type {any} */ { stage, ...resource }) => {
    setOutcome(null);
    setOutcome(await api.post('/aegis/evaluate', { stage, shieldId: shield.id, resource: { type: typeOf(stage), ...resource } }));
    tried();
    return false; // what was written stays
  };
  return html`<details class="try" id="try"><summary>${t('shields.try')}</summary><p class="faint">${t('shields.try.about')}</p>
    <${Form} submit=${t('shields.try.do')} value=${{ stage: 'tool.pre' }} schema=${{ properties: {
      stage: { title: t('shields.stage'), enum: stages },
      name: { title: t('shields.try.name'), maxLength: 256, said: ['resource'] },
      arguments: { title: t('shields.try.arguments'), type: 'object', check: (/** @type {any} */ value) => (value && typeof value === 'object' && !Array.isArray(value) ? '' : t('shields.object')) },
      content: { title: t('shields.try.content'), format: 'multiline' },
    }, required: ['stage', 'name'] }} onSubmit=${ask} />
    ${outcome && html`<${Outcome} outcome=${outcome} />`}</details>`;
}

/** @param {{outcome: any}} props */
function Outcome({ outcome }) {
  const passed = ['allow', 'redact'].includes(outcome.decision) || !outcome.enforced;
  return html`<div class="outcome" role="status" data-outcome=${passed ? 'ok' : 'error'}>
    <p class="facts"><${Decided} value=${outcome.decision} word=${t(`shields.decision.${outcome.decision}`)} />${!outcome.enforced && html`<span class="warn">${t('shields.try.simulated')}</span>`}
      ${outcome.approval && html`<a href=${`/dashboard/approvals/${encodeURIComponent(outcome.approval.approvalId)}`} data-link>${t('shields.try.approval')}</a>`}</p>
    ${outcome.reasons.length > 0 && html`<p>${outcome.reasons.join(' ')}</p>`}
    ${outcome.sanitizedResource && outcome.mutations.length > 0 && html`<p class="faint">${t('shields.try.left')}</p><${Json} value=${outcome.sanitizedResource} label=${t('shields.try.left')} />`}</div>`;
}
