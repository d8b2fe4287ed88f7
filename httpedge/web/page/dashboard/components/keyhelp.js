// What the keys do.

import { html } from '../lib.js';
import { t } from '../messages.js';
import { Dialog } from './dialog.js';

const keys = [
  ['⌘K / Ctrl K', 'keys.palette'], ['j', 'keys.next'], ['k', 'keys.previous'], ['Enter', 'keys.open'], ['a', 'keys.approve'], ['x', 'keys.cancel'],
  ['f', 'keys.search'], ['Esc', 'keys.close'], ['?', 'keys.help'],
];

/** @param {{close: () => void}} props */
export function KeyHelp({ close }) {
  return html`<${Dialog} title=${t('keys.title')} onClose=${close}>
    <dl class="keys">${keys.map(([key, about]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${t(about)}</dd></div>`)}</dl>
  <//>`;
}
