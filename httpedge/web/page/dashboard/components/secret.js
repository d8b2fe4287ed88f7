// A secret that is shown once.

import { html } from '../lib.js';
import { t } from '../messages.js';
import { copy } from './cells.js';
import { Dialog } from './dialog.js';
import { Icon } from './icon.js';

/** @param {{title: string, text: string, secret: string, onClose: () => void}} props */
export function Secret({ title, text, secret, onClose }) {
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>${text}</p>
    <div class="secret"><code id="secret" tabindex="0">${secret}</code><button class="button" onClick=${() => copy(secret)}><${Icon} name="copy" /> ${t('do.copy')}</button></div>
    <footer><button class="primary" id="secret-kept" onClick=${onClose}>${t('secret.kept')}</button></footer><//>`;
}
