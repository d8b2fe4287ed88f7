// Short words about what happened, also for screen readers; with something to do where there is.

import { html } from '../lib.js';
import { t } from '../messages.js';
import { Store, useStore } from '../store.js';
import { errorText } from './failure.js';

/** @typedef {{id: number, text: string, bad: boolean, action?: {label: string, act: () => void}}} Toast */

const toasts = new Store(/** @type {Toast[]} */ ([]));
let last = 0;

/** @param {number} id */
const drop = (id) => toasts.set((list) => list.filter((toast) => toast.id !== id));

/**
 * @param {string|Error} what an error is shown with its request id, and stays longer
 * @param {{label: string, act: () => void}} [action]
 */
export function toast(what, action) {
  const bad = what instanceof Error;
  const id = ++last;
  toasts.set((list) => [...list.slice(-3), { id, text: bad ? errorText(what) : what, bad, action }]);
  setTimeout(() => drop(id), bad || action ? 10_000 : 4000);
}

export function Toasts() {
  const list = useStore(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${list.map((one) => html`<div class="toast" data-bad=${one.bad} key=${one.id}>
      <span>${one.text}</span>
      ${one.action && html`<button class="tiny" onClick=${() => { one.action?.act(); drop(one.id); }}>${one.action.label}</button>`}
      <button class="tiny" aria-label=${t('do.close')} onClick=${() => drop(one.id)}>×</button>
    </div>`)}
  </div>`;
}
