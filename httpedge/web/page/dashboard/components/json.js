// JSON, foldable, searchable, raw on demand. Large parts are drawn only when they are opened.

import { html, useMemo, useState } from '../lib.js';
import { t } from '../messages.js';
import { copy } from './cells.js';
import { Icon } from './icon.js';

const shownMembers = 100;
const shownText = 2000;

/** @param {any} value */
const isBox = (value) => value !== null && typeof value === 'object';

/** Whether a value has a text, in a name or in a leaf. @param {any} value @param {string} text @returns {boolean} */
function holds(value, text) {
  if (!isBox(value)) return String(value).toLowerCase().includes(text);
  return Object.entries(value).some(([name, one]) => name.toLowerCase().includes(text) || holds(one, text));
}

/** @param {{value: any, label?: string, open?: number, find?: boolean}} props open: how many levels are unfolded at first */
export function Json({ value, label = 'JSON', open = 2, find = false }) {
  const [raw, setRaw] = useState(false);
  const [text, setText] = useState('');
  const whole = useMemo(() => JSON.stringify(value, null, 2) ?? '', [value]);
  const wanted = text.trim().toLowerCase();
  return html`<div class="json" role="group" aria-label=${label}>
    <div class="json-tools">
      ${find && html`<input type="search" class="small" placeholder=${t('json.search')} aria-label=${t('json.search')} value=${text}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} />`}
      <button class="tiny" aria-pressed=${raw} onClick=${() => setRaw(!raw)}>${t('json.raw')}</button>
      <button class="tiny" aria-label=${t('do.copy')} onClick=${() => copy(whole)}><${Icon} name="copy" /></button>
    </div>
    ${raw ? html`<pre class="json-raw" tabindex="0">${whole.slice(0, 200_000)}</pre>` : html`<${Node} value=${value} level=${0} open=${open} wanted=${wanted} />`}
  </div>`;
}

/** A value as it is read: a text as such, cut when it is very long, anything else as JSON. @param {{value: any, label: string}} props */
export function Value({ value, label }) {
  if (typeof value === 'string') return html`<pre class="text" tabindex="0" aria-label=${label}>${value.slice(0, 50_000)}</pre>`;
  return html`<${Json} find value=${value} label=${label} open=${3} />`;
}

/** @param {{value: any, name?: string, level: number, open: number, wanted: string}} props */
function Node({ value, name, level, open, wanted }) {
  const [folded, setFolded] = useState(level >= open);
  const [most, setMost] = useState(shownMembers);
  const title = name === undefined ? null : html`<span class="json-name">${name}</span>: `;
  if (!isBox(value)) return html`<div class="json-row">${title}<${Leaf} value=${value} /></div>`;
  const list = Array.isArray(value);
  let members = Object.entries(value);
  if (wanted) members = members.filter(([key, one]) => key.toLowerCase().includes(wanted) || holds(one, wanted));
  const [begin, end] = list ? ['[', ']'] : ['{', '}'];
  if (!members.length) return html`<div class="json-row">${title}${begin}${end}</div>`;
  const shut = folded && !wanted;
  return html`<div class="json-row">
    <button class="json-fold" aria-expanded=${!shut} aria-label=${t(shut ? 'json.unfold' : 'json.fold', { name: name ?? begin + end })} onClick=${() => setFolded(!folded)}>${shut ? '▸' : '▾'}</button>${title}
    ${shut ? html`<span class="faint">${begin}${members.length}${end}</span>` : html`${begin}<div class="json-members">
      ${members.slice(0, most).map(([key, one]) => html`<${Node} key=${key} name=${key} value=${one} level=${level + 1} open=${open} wanted=${wanted} />`)}
      ${members.length > most && html`<button class="tiny" onClick=${() => setMost(most + 1000)}>${t('json.more', { n: members.length - most })}</button>`}
    </div>${end}`}
  </div>`;
}

/** @param {{value: any}} props */
function Leaf({ value }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== 'string') return html`<span class="json-value">${String(value)}</span>`;
  const shown = whole ? value : value.slice(0, shownText);
  return html`<span class="json-text">"${shown}"</span>
    ${shown.length < value.length && html` <button class="tiny" onClick=${() => setWhole(true)}>${t('json.whole', { n: value.length })}</button>`}`;
}
