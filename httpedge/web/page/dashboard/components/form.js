// Forms from a schema: an object schema (JSON Schema's type, enum, format, minimum, maximum, title, description, required) and a value.

import { html, useEffect, useID, useMemo, useRef, useState } from '../lib.js';
import { active } from '../api.js';
import { t } from '../messages.js';
import { who } from '../who.js';
import { errorText } from './failure.js';

/**
 * @typedef {object} Field
 * @property {string} [type] string, integer, number, boolean, object, array
 * @property {string} [title] @property {string} [description] @property {any[]} [enum] @property {string[]} [names] of the enum's values
 * @property {string} [format] password, email, multiline, code, file
 * @property {string} [accept] the types of a file
 * @property {number} [minimum] @property {number} [maximum] @property {number} [maxLength]
 * @property {string} [autocomplete] @property {string} [placeholder]
 * @property {(value: any) => string} [check] what else is wrong with a value; '' = nothing
 * @property {(raw: Record<string, any>) => boolean} [when] what is written asks for it; otherwise it is neither shown nor sent
 * @property {string[]} [said] what refusals of the server call it, where that is not its name
 */

/**
 * @typedef {{properties: Record<string, Field>, required?: string[]}} Schema
 */

/** @param {Field} field @param {any} raw @returns {{value?: any, error?: string}} */
function read(field, raw) {
  const text = typeof raw === 'string' ? raw : '';
  switch (field.type) {
    case 'boolean': return { value: Boolean(raw) };
    case 'integer': case 'number': {
      if (text.trim() === '' && typeof raw !== 'number') return { value: undefined };
      const number = Number(raw);
      const { minimum = -Infinity, maximum = Infinity } = field;
      const said = (/** @type {number} */ one) => one.toLocaleString(document.documentElement.lang);
      if (!Number.isFinite(number) || number < minimum || number > maximum || (field.type === 'integer' && !Number.isInteger(number))) {
        if (minimum === -Infinity && maximum === Infinity) return { error: t(field.type === 'integer' ? 'form.integer' : 'form.number') };
        return { error: maximum === Infinity ? t('form.least', { min: said(minimum) }) : t('form.range', { min: said(minimum), max: said(maximum) }) };
      }
      return { value: number };
    }
    case 'object': case 'array': {
      if (typeof raw !== 'string') return { value: raw };
      if (text.trim() === '') return { value: undefined };
      try { return { value: JSON.parse(text) }; } catch (error) { return { error: t('form.json', { why: /** @type {Error} */ (error).message }) }; }
    }
    default: return { value: raw === '' ? undefined : raw };
  }
}

/** @param {Field} field @param {any} value what the control shows */
function written(field, value) {
  if (field.type === 'boolean') return Boolean(value);
  if (value === undefined || value === null) return '';
  return field.type === 'object' || field.type === 'array' ? JSON.stringify(value, null, 2) : String(value);
}

/**
 * The field that a refusal is about: the server names it beside its words, or begins them with it, as in "rules.deny has the wrong type".
 * @param {Schema} schema @param {any} error
 */
function fieldOf(schema, error) {
  const named = [error.body?.field, error.body?.details?.field, /^`?(\w+)/.exec(error.message || '')?.[1]];
  return Object.keys(schema.properties).find((name) => [name, ...schema.properties[name].said || []].some((one) => named.includes(one)));
}

/** What was typed into forms that keep it, until it is sent. Never passwords. @type {Map<string, Record<string, any>>} */
const kept = new Map();

/**
 * @param {{schema: Schema, value?: Record<string, any>, submit: string|false, onSubmit: (value: Record<string, any>) => any, onChange?: (value: any) => void,
 *   extra?: any, before?: any, autofocus?: boolean, keep?: string}} props before: between the fields and the button; onSubmit: a promise that fails shows its error, beside the field that the server
 * named; one of false sent nothing. submit: without it there is nothing to send, and the fields are only read. keep: under this name what was typed is there again when the person comes back
 */
export function Form({ schema, value = {}, submit, onSubmit, onChange, extra, before, autofocus = false, keep: name = '' }) {
  const keep = useMemo(() => name && `${who.value?.userId} ${active.project} ${name}`, [name]); // another person on this page sees none of it
  const [raw, setRaw] = useState(() => ({ ...Object.fromEntries(Object.entries(schema.properties).map(([name, field]) => [name, written(field, value[name])])), ...(keep && kept.get(keep)) }));
  const [errors, setErrors] = useState(/** @type {Record<string, string>} */ ({}));
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const id = useID();
  const earlier = useRef(raw);

  const asked = Object.entries(schema.properties).filter(([, field]) => !field.when || field.when(raw));
  const collect = () => {
    /** @type {Record<string, any>} */ const result = {};
    /** @type {Record<string, string>} */ const wrong = {};
    for (const [name, field] of asked) {
      const one = read(field, raw[name]);
      const more = one.error === undefined && one.value !== undefined && field.check?.(one.value);
      if (one.error || more) wrong[name] = one.error || String(more);
      else if (one.value === undefined) { if (schema.required?.includes(name)) wrong[name] = t('form.required'); } else result[name] = one.value;
    }
    return { result, wrong };
  };
  useEffect(() => { if (onChange) { const { result, wrong } = collect(); if (!Object.keys(wrong).length) onChange(result); } }, [raw]);

  // A field is judged when it is left, and no longer wrong as soon as it is right.
  const judge = (/** @type {string} */ name) => { const { wrong } = collect(); setErrors((now) => ({ ...now, [name]: wrong[name] || '' })); };
  useEffect(() => {
    if (!Object.values(errors).some(Boolean)) return;
    const { wrong } = collect();
    const changed = Object.keys(errors).filter((name) => errors[name] && !wrong[name] && raw[name] !== earlier.current[name]);
    if (changed.length) setErrors((now) => ({ ...now, ...Object.fromEntries(changed.map((name) => [name, ''])) }));
  }, [raw]);
  useEffect(() => { earlier.current = raw; }, [raw]);

  // What is typed is kept at once, not by an effect: an effect runs after the next frame, and a form that is gone by then has none.
  const set = (/** @type {string} */ name, /** @type {any} */ to) => {
    if (keep && schema.properties[name]?.format !== 'password') kept.set(keep, { ...kept.get(keep), [name]: to });
    setRaw((now) => ({ ...now, [name]: to }));
  };

  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (busy || !submit) return;
    const { result, wrong } = collect();
    setErrors(wrong);
    setFailed('');
    const first = Object.keys(wrong)[0];
    if (first) { document.getElementById(`${id}-${first}`)?.focus(); return; }
    setBusy(true);
    try {
      if (await onSubmit(result) !== false) kept.delete(keep);
    } catch (error) {
      const field = fieldOf(schema, error);
      if (field) setErrors({ [field]: errorText(error) });
      else setFailed(errorText(error));
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="form" onSubmit=${send} noValidate>
    <fieldset class="bare" disabled=${!submit}>${asked.map(([name, field], i) => html`<${Control} key=${name} name=${name} id=${`${id}-${name}`} field=${field} value=${raw[name]} error=${errors[name]}
      leave=${() => judge(name)} needed=${schema.required?.includes(name)} autofocus=${autofocus && i === 0} set=${(/** @type {any} */ to) => set(name, to)} />`)}
    ${before}</fieldset>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${submit && html`<div class="form-end"><button class="primary" type="submit" disabled=${busy} aria-busy=${busy}>${submit}</button>${extra}</div>`}
  </form>`;
}

/** @param {any} props */
function Control({ name, id, field, value, error, needed, set, leave, autofocus }) {
  const label = field.title || name;
  const about = [field.description && `${id}-about`, error && `${id}-error`].filter(Boolean).join(' ') || undefined;
  const common = {
    id, name, 'aria-describedby': about, 'aria-invalid': error ? 'true' : undefined, 'aria-required': needed ? 'true' : undefined,
    autocomplete: field.autocomplete || 'off', placeholder: field.placeholder, maxLength: field.maxLength, autofocus, onBlur: leave,
  };
  const onInput = (/** @type {any} */ event) => set(event.target.value);
  let control;
  if (field.type === 'boolean') {
    return html`<div class="field check"><input type="checkbox" ...${common} checked=${value} onChange=${(/** @type {any} */ event) => set(event.target.checked)} />
      <label for=${id}>${label}</label>${field.description && html`<p class="faint" id=${`${id}-about`}>${field.description}</p>`}</div>`;
  }
  if (field.enum) {
    control = html`<select ...${common} value=${value} onChange=${onInput}><option value="">${t('form.choose')}</option>
      ${field.enum.map((/** @type {any} */ one, /** @type {number} */ i) => html`<option value=${one} key=${one}>${field.names?.[i] ?? one}</option>`)}</select>`;
  } else if (field.format === 'file') {
    control = html`<input ...${common} type="file" accept=${field.accept} onChange=${(/** @type {any} */ event) => set(event.target.files[0] ?? '')} />`;
  } else if (field.format === 'multiline' || field.format === 'code' || field.type === 'object' || field.type === 'array') {
    control = html`<textarea ...${common} class=${field.format === 'multiline' ? '' : 'code'} rows=${field.format === 'multiline' ? 4 : 6} spellcheck=${field.format === 'multiline'} value=${value} onInput=${onInput}></textarea>`;
  } else {
    const type = field.format === 'password' ? 'password' : field.format === 'email' ? 'email' : 'text';
    control = html`<input ...${common} type=${type} inputmode=${field.type === 'number' ? 'decimal' : field.type === 'integer' ? 'numeric' : undefined} value=${value} onInput=${onInput} />`;
  }
  return html`<div class="field"><label for=${id}>${label}</label>${control}
    ${field.description && html`<p class="faint" id=${`${id}-about`}>${field.description}</p>`}
    ${error && html`<p class="bad" id=${`${id}-error`} role="alert">${error}</p>`}</div>`;
}
