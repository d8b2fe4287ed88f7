// Small things of tables and heads: status, money, time, id.

import { html, useEffect, useState } from '../lib.js';
import { exact, money, relative, shortID } from '../format.js';
import { known, t } from '../messages.js';
import { Store, useStore } from '../store.js';
import { Icon } from './icon.js';
import { toast } from './toast.js';

/** Shape and colour of each status. @type {Record<string, [string, string]>} */
const shapes = {
  idle: ['○', ''], running: ['▶', 'accent'], requires_action: ['◆', 'warn'], budget_paused: ['■', 'warn'],
  queued: ['…', ''], succeeded: ['✓', 'good'], delivered: ['✓', 'good'], failed: ['✗', 'bad'], error: ['✗', 'bad'],
  canceled: ['–', ''], cancelled: ['–', ''], active: ['●', 'good'], inactive: ['○', ''], disabled: ['⊘', 'bad'], pending: ['…', 'warn'],
  success: ['✓', 'good'], in_progress: ['▶', 'accent'], approved: ['✓', 'good'], denied: ['✗', 'bad'], used: ['✓', ''], expired: ['⊘', ''],
  up: ['●', 'good'], down: ['✗', 'bad'], draining: ['◐', 'warn'], leaving: ['◐', 'warn'],
};

/** Status as word, shape and colour. @param {{value?: string, word?: string}} props */
export function Status({ value = '', word = '' }) {
  const [shape, tone] = Object.hasOwn(shapes, value) ? shapes[value] : ['○', '']; // it may be a program's own word
  return html`<span class="status" data-tone=${tone} data-status=${value}><span aria-hidden="true">${shape}</span> ${word || (known(`state.${value}`) ? t(`state.${value}`) : value)}</span>`;
}

/** @param {{usd?: number|null|undefined, digits?: number}} props */
export function Money({ usd = null, digits = 4 }) {
  return html`<span class="number">${money(usd, digits)}</span>`;
}

/** Minutes go by for all times of the page at once. */
const minute = new Store(Date.now());
setInterval(() => { if (!document.hidden) minute.set(Date.now()); }, 15_000);

/** @param {{at?: string|number|null|undefined}} props */
export function Time({ at = null }) {
  const now = useStore(minute);
  if (!at) return html`<span class="faint">–</span>`;
  const when = new Date(at);
  return html`<time class="number" datetime=${when.toISOString()} title=${exact(at)}>${relative(at, Math.max(now, Date.now() - 15_000, when.getTime() <= Date.now() ? when.getTime() : 0))}</time>`;
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t('do.copied'));
  } catch (error) {
    toast(/** @type {Error} */ (error));
  }
}

/** A short id with a button that copies the whole one. @param {{id?: string, whole?: boolean}} props */
export function ID({ id = '', whole = false }) {
  return html`<span class="id"><code title=${id}>${whole ? id : shortID(id)}</code><button class="tiny" aria-label=${t('do.copyID', { id })}
    onClick=${(/** @type {Event} */ event) => { event.stopPropagation(); event.preventDefault(); copy(id); }}><${Icon} name="copy" /></button></span>`;
}

/** What a search box says, after the person stopped typing. @param {string} value @param {(value: string) => void} set @param {number} [ms] */
export function useSettled(value, set, ms = 250) {
  const [text, setText] = useState(value);
  useEffect(() => { setText(value); }, [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => set(text), ms);
    return () => clearTimeout(timer);
  }, [text]);
  return /** @type {[string, (text: string) => void]} */ ([text, setText]);
}
