// Try a guardrail: what it would do with a text.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { errorText } from '../components/failure.js';
import { Decided } from '../components/trail.js';
import { t } from '../messages.js';
import { categoryName } from './rules.js';

/** @param {{guardrail: any, tried: () => void}} props */
export function Try({ guardrail, tried }) {
  const [text, setText] = useState('');
  const [outcome, setOutcome] = useState(/** @type {any} */ (null));
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const check = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!text.trim() || busy) return;
    setBusy(true);
    setFailed('');
    try {
      setOutcome(await api.post('/guardrails/evaluate', { guardrail_key: guardrail.key, text }));
      tried();
    } catch (error) { setOutcome(null); setFailed(errorText(error)); }
    setBusy(false);
  };
  return html`<form class="try" onSubmit=${check}><div class="field"><label for="try-text">${t('guardrails.try')}</label>
      <textarea id="try-text" rows="3" value=${text} aria-describedby="try-about" onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></div>
    <div class="row"><button class="button" id="try-do" type="submit" disabled=${busy || !text.trim()} aria-busy=${busy}>${t('guardrails.try.do')}</button><span class="faint" id="try-about">${t('guardrails.try.about')}</span></div>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${outcome && html`<${Outcome} outcome=${outcome} />`}</form>`;
}

/** @param {{outcome: any}} props */
function Outcome({ outcome }) {
  const { passed, disabled, findings, message, redacted_text: left } = outcome;
  const word = (/** @type {string} */ action) => t(`guardrails.action.${action}`);
  const verdict = findings.length ? html`<${Decided} value=${outcome.action} word=${word(outcome.action)} />` : html`<span>${t(disabled ? 'guardrails.try.disabled' : 'guardrails.try.nothing')}</span>`;
  return html`<div class="outcome" role="status" data-outcome=${passed ? 'ok' : 'error'}><p class="facts"><strong>${t(passed ? 'guardrails.try.passed' : 'guardrails.try.blocked')}</strong>${verdict}</p>
    ${message && html`<p>${message}</p>`}
    ${findings.length > 0 && html`<ul class="found">${findings.map((/** @type {any} */ one, /** @type {number} */ i) => html`<li key=${i}><${Decided} value=${one.action} word=${word(one.action)} />
      <span>${t(`guardrails.type.${one.type}`)}: ${categoryName(one.category)}</span>${one.value && html`<code>${one.value}</code>`}<span class="faint">${t(`guardrails.severity.${one.severity}`)}</span></li>`)}</ul>`}
    ${left !== null && html`<p class="faint">${t('guardrails.try.left')}</p><pre id="try-left" tabindex="0">${left}</pre>`}</div>`;
}
