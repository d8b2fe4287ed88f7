// What waits for a person, decided where it is seen.

import { html, useState } from '../lib.js';
import { errorText } from '../components/failure.js';
import { Json } from '../components/json.js';
import { relative } from '../format.js';
import { t } from '../messages.js';
import { useMay } from '../who.js';

/** @typedef {import('./log.js').SessionLog} SessionLog */

/** @param {{log: SessionLog, action: any}} props */
export function Wait({ log, action }) {
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const may = useMay('agents', 'write');
  const decide = async (/** @type {Record<string, any>} */ resolution) => {
    setBusy(true);
    setFailed('');
    try {
      await log.resolve(action, resolution);
    } catch (error) {
      setFailed(errorText(error));
      log.refresh();
    }
    setBusy(false);
  };
  const Body = action.kind === 'user_question' ? Question : action.kind === 'client_tool' ? ClientTool : Approval;
  const title = t(action.kind === 'user_question' ? 'wait.question' : action.kind === 'client_tool' ? 'wait.client' : 'wait.approval', { tool: action.tool_name || '' });
  return html`<section class="waits-for" data-action=${action.id} aria-label=${title}>
    <header><h2>◆ ${title}</h2>${action.expires_at && html`<span class="faint">${t('wait.lapses', { when: relative(action.expires_at) })}</span>`}</header>
    ${action.unknown_outcome && html`<p class="warn">${t('wait.unknown')}</p>`}
    ${may ? html`<${Body} action=${action} busy=${busy} decide=${decide} />` : html`<${Json} value=${action.questions || action.args} label=${title} />`}
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
  </section>`;
}

/** @param {{action: any, busy: boolean, decide: (resolution: any) => void}} props */
function Approval({ action, busy, decide }) {
  const [editing, setEditing] = useState(false);
  const [text, setText] = useState(() => JSON.stringify(action.args, null, 2));
  const [comment, setComment] = useState('');
  const [remember, setRemember] = useState(false);
  let args = action.args;
  let wrong = '';
  if (editing) try { args = JSON.parse(text); } catch (error) { wrong = t('form.json', { why: /** @type {Error} */ (error).message }); }
  const changed = editing && !wrong && JSON.stringify(args) !== JSON.stringify(action.args);
  const details = action.details && Object.keys(action.details).length > 0;
  return html`
    ${details && html`<div><h3>${t('wait.details')}</h3><${Json} value=${action.details} label=${t('wait.details')} /></div>`}
    <div><h3>${t('wait.args')} <button class="tiny" aria-pressed=${editing} onClick=${() => setEditing(!editing)}>${t('wait.edit')}</button></h3>
      ${editing ? html`<textarea class="code" rows="5" spellcheck="false" aria-label=${t('wait.edit')} aria-invalid=${wrong ? 'true' : undefined} value=${text}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>${wrong && html`<p class="bad" role="alert">${wrong}</p>`}`
      : html`<${Json} value=${action.args} label=${t('wait.args')} />`}</div>
    <label class="tick"><input type="checkbox" checked=${remember} onChange=${(/** @type {any} */ event) => setRemember(event.target.checked)} />${t('wait.remember')}</label>
    <div class="decide"><input type="text" class="small" aria-label=${t('wait.comment')} placeholder=${t('wait.comment')} value=${comment} onInput=${(/** @type {any} */ event) => setComment(event.target.value)} />
      <button class="button deny" disabled=${busy} onClick=${() => decide({ decision: 'deny', ...(comment && { comment }), ...(remember && { remember_for_session: true }) })}>${t('wait.deny')}</button>
      <button class="primary allow" disabled=${busy || Boolean(wrong)} onClick=${() => decide({ decision: 'allow', ...(changed && { approved_args: args }), ...(remember && { remember_for_session: true }) })}>
        ${t(changed ? 'wait.allow.changed' : 'wait.allow')}</button></div>`;
}

/** @param {{action: any, busy: boolean, decide: (resolution: any) => void}} props */
function Question({ action, busy, decide }) {
  const [answers, setAnswers] = useState(/** @type {Record<string, any>} */ ({}));
  const questions = action.questions || [];
  const set = (/** @type {string} */ key, /** @type {any} */ value) => setAnswers((now) => ({ ...now, [key]: value }));
  const whole = questions.every((/** @type {any} */ one) => (answers[one.question] || []).length > 0);
  return html`<form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); if (whole) decide({ answers }); }}>
    ${questions.map((/** @type {any} */ one) => {
      const options = (one.options || []).map((/** @type {any} */ option) => (typeof option === 'string' ? { label: option } : option));
      const many = one.multiSelect || one.multi_select || one.multiple;
      const chosen = answers[one.question];
      return html`<fieldset key=${one.question}><legend>${one.question}</legend>
        ${options.map((/** @type {any} */ option) => html`<label class="tick" key=${option.label}><input type=${many ? 'checkbox' : 'radio'} name=${one.question}
          checked=${many ? (chosen || []).includes(option.label) : chosen === option.label} onChange=${(/** @type {any} */ event) => set(one.question, !many ? option.label
            : event.target.checked ? [...(chosen || []), option.label] : (chosen || []).filter((/** @type {string} */ label) => label !== option.label))} />
          <span>${option.label}${option.description && html` <span class="faint">${option.description}</span>`}</span></label>`)}
        ${!options.length && html`<input type="text" class="small" aria-label=${one.question} value=${chosen || ''} onInput=${(/** @type {any} */ event) => set(one.question, event.target.value)} />`}
      </fieldset>`;
    })}
    <div class="decide"><button type="button" class="button" disabled=${busy} onClick=${() => decide({ cancelled: true })}>${t('wait.noanswer')}</button>
      <button class="primary allow" disabled=${busy || !whole}>${t('wait.answer')}</button></div>
  </form>`;
}

/** @param {{action: any, busy: boolean, decide: (resolution: any) => void}} props */
function ClientTool({ action, busy, decide }) {
  const [text, setText] = useState('');
  const output = () => { try { return JSON.parse(text); } catch { return text; } };
  return html`<${Json} value=${action.args} label=${t('wait.args')} />
    <textarea class="code" rows="3" aria-label=${t('wait.output')} placeholder=${t('wait.output')} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea>
    <div class="decide"><button class="primary allow" disabled=${busy || !text.trim()} onClick=${() => decide({ output: output() })}>${t('wait.return')}</button></div>`;
}
