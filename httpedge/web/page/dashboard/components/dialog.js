// Dialogs: modal, named, closed by Escape, focus returns to where it was.

import { html, render, useEffect, useID, useRef, useState } from '../lib.js';
import { t } from '../messages.js';

/**
 * @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props
 */
export function Dialog({ title, onClose, children, wide = false }) {
  const own = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const id = useID();
  useEffect(() => {
    const dialog = own.current;
    if (!dialog) return undefined;
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    dialog.showModal();
    return () => {
      dialog.close();
      if (before?.isConnected && before !== document.body) before.focus();
    };
  }, []);
  return html`<dialog ref=${own} class=${wide ? 'wide' : ''} aria-labelledby=${id}
    onCancel=${(/** @type {Event} */ event) => { event.preventDefault(); onClose(); }}
    onClick=${(/** @type {MouseEvent} */ event) => { if (event.target === own.current) onClose(); }}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><button class="quiet" aria-label=${t('do.close')} onClick=${onClose}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * Asks once before something dangerous.
 * @param {{title: string, text: string, yes: string, no?: string, danger?: boolean, act?: () => Promise<any>}} question text names the object
 * and the count; act is done with the dialog open, so that a failure can be tried again
 * @returns {Promise<boolean>} whether it was done
 */
export function confirm(question) {
  return new Promise((resolve) => {
    const place = document.body.appendChild(document.createElement('div'));
    const end = (/** @type {boolean} */ done) => { render(null, place); place.remove(); resolve(done); };
    render(html`<${Confirm} ...${question} end=${end} />`, place);
  });
}

/**
 * Two people at one thing: whether what is about to be saved may be. Somebody else's change since the thing was shown is not overwritten
 * unasked.
 * @param {string} shown when the thing that is edited was last changed @param {() => Promise<string>} now the same, as it is
 */
export async function unchanged(shown, now) {
  return await now() === shown || confirm({ title: t('edit.meanwhile'), text: t('edit.meanwhile.text'), yes: t('edit.overwrite') });
}

/** @param {any} props */
function Confirm({ title, text, yes, no, danger = true, act, end }) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState('');
  const agree = async () => {
    if (!act) { end(true); return; }
    setBusy(true);
    try { await act(); end(true); } catch (error) { setFailed(String(/** @type {Error} */ (error).message || t('error.unreachable'))); setBusy(false); }
  };
  return html`<${Dialog} title=${title} onClose=${() => end(false)}>
    <p>${text}</p>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    <footer><button class="button" id="confirm-no" onClick=${() => end(false)}>${no || t('do.cancel')}</button>
      <button class=${danger ? 'primary bad' : 'primary'} id="confirm-yes" disabled=${busy} onClick=${agree}>${yes}</button></footer>
  <//>`;
}
