// The form of a guardrail: what it is called, what it does, and a part for each rule that opens when the rule is on.

import { html, useState } from '../lib.js';
import { Form } from '../components/form.js';
import { t } from '../messages.js';
import { actions, asRule, categoryName, kinds, personal, rulesOf, rulesShown, topics, wrongRules } from './rules.js';

/** @typedef {import('./rules.js').Draft} Draft */

/** @param {{value?: any, submit: string, onSubmit: (value: any) => any}} props value: the guardrail as it is */
export function GuardrailForm({ value, submit, onSubmit }) {
  const [draft, setDraft] = useState(() => rulesShown(value?.rules));
  const change = (/** @type {keyof Draft} */ kind, /** @type {any} */ to) => setDraft((now) => ({ ...now, [kind]: { ...now[kind], ...to } }));
  const send = (/** @type {any} */ form) => {
    const wrong = wrongRules(draft);
    if (wrong) throw new Error(wrong);
    const cleared = value ? null : undefined; // a new one has nothing that could be taken away
    return onSubmit({ description: cleared, message: cleared, ...form, rules: rulesOf(draft) });
  };
  return html`<${Form} autofocus submit=${submit} value=${value || { action: 'block', enabled: true }} before=${kinds.map((kind) => html`<${RulePart} key=${kind} kind=${kind} draft=${draft} change=${change} />`)} schema=${{ properties: {
    name: { title: t('guardrails.name'), maxLength: 200 },
    description: { title: t('guardrails.description'), maxLength: 2000 },
    action: { title: t('guardrails.action'), description: t('guardrails.action.about'), enum: actions, names: actions.map((one) => t(`guardrails.action.${one}`)) },
    message: { title: t('guardrails.message'), description: t('guardrails.message.about'), format: 'multiline', maxLength: 2000 },
    enabled: { title: t('guardrails.enabled'), type: 'boolean' },
  }, required: ['name', 'action'] }} onSubmit=${async (/** @type {any} */ form) => send(form)} />`;
}

/** @param {{kind: keyof Draft, draft: Draft, change: (kind: keyof Draft, to: any) => void}} props */
function RulePart({ kind, draft, change }) {
  const rule = draft[kind];
  const set = (/** @type {any} */ to) => change(kind, to);
  return html`<fieldset class="picks rule"><legend>${t(`guardrails.${kind}`)}</legend>
    <label class="tick"><input type="checkbox" name=${kind} checked=${rule.on} onChange=${(/** @type {any} */ event) => set({ on: event.target.checked })} />${t(`guardrails.${kind}.about`)}</label>
    ${rule.on && html`<label class="pick"><span>${t('guardrails.rule.action')}</span>${html`<${Action} name=${`${kind}-action`} value=${rule.action} empty=${t('guardrails.rule.same')} set=${(/** @type {string} */ action) => set({ action })} />`}</label>`}
    ${kind === 'pii' && rule.on && html`<${Personal} chosen=${draft.pii.categories} set=${(/** @type {any} */ categories) => set({ categories })} />`}
    ${kind === 'wordFilter' && rule.on && html`<div class="field"><label for="rail-words">${t('guardrails.words')}</label>
      <textarea id="rail-words" name="words" rows="5" value=${draft.wordFilter.words} aria-describedby="rail-words-about" onInput=${(/** @type {any} */ event) => set({ words: event.target.value })}></textarea>
      <p class="faint" id="rail-words-about">${t('guardrails.words.about')}</p></div>`}
    ${kind === 'moderation' && rule.on && html`<${Topics} chosen=${draft.moderation.categories} set=${(/** @type {string[]} */ categories) => set({ categories })} />`}
  </fieldset>`;
}

/** @param {{name: string, value: string, empty: string, set: (value: string) => void, more?: {value: string, word: string}[]}} props */
function Action({ name, value, empty, set, more = [] }) {
  return html`<select name=${name} value=${value} onChange=${(/** @type {any} */ event) => set(event.target.value)}><option value="">${empty}</option>
    ${more.map((one) => html`<option key=${one.value} value=${one.value}>${one.word}</option>`)}${actions.map((one) => html`<option key=${one} value=${one}>${t(`guardrails.action.${one}`)}</option>`)}</select>`;
}

/** What is done about each category of personal data. @param {{chosen: Record<string, string>, set: (chosen: Record<string, string>) => void}} props */
function Personal({ chosen, set }) {
  const pick = (/** @type {string} */ category, /** @type {string} */ action) => {
    const { [category]: _, ...left } = chosen;
    set(action ? { ...left, [category]: action } : left);
  };
  return html`<div>${personal.map((one) => html`<label class="pick" key=${one}><span>${categoryName(one)}</span>
    <${Action} name=${`pii-${one}`} value=${chosen[one] || ''} empty=${t('guardrails.pii.off')} more=${[{ value: asRule, word: t('guardrails.pii.rule') }]} set=${(/** @type {string} */ action) => pick(one, action)} /></label>`)}</div>`;
}

/** @param {{chosen: string[], set: (chosen: string[]) => void}} props */
function Topics({ chosen, set }) {
  const all = chosen.length === topics.length;
  return html`<label class="tick"><input type="checkbox" name="topics-all" checked=${all} onChange=${(/** @type {any} */ event) => set(event.target.checked ? topics : [])} />${t('guardrails.moderation.all')}</label>
    ${!all && html`<div>${topics.map((one) => html`<label class="tick" key=${one}><input type="checkbox" name=${`topic-${one}`} checked=${chosen.includes(one)}
      onChange=${(/** @type {any} */ event) => set(event.target.checked ? [...chosen, one] : chosen.filter((other) => other !== one))} /><code>${one}</code></label>`)}</div>`}`;
}
