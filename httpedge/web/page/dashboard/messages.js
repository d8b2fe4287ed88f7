// One table of what people read, in English and Turkish: [English, Turkish], with {names} for what differs. A message is a whole
// sentence; none is built from pieces. Where a number decides, an entry is {one, other}, and the number is {n}.
//
// Each area has its own file in words/, merged here.

import { Store } from './store.js';
import common from './words/common.js';
import entry from './words/entry.js';
import sessions from './words/sessions.js';
import { more } from './words/more.js';

/** @typedef {string | {one: string, other: string}} Message */
/** @typedef {Record<string, [Message, Message]>} Words */

/** @type {Words} */
const table = Object.assign({}, common, entry, sessions, ...more);

export const languages = ['en', 'tr'];

const kept = 'parley.language';

function preferred() {
  let chosen = null;
  try { chosen = localStorage.getItem(kept); } catch { /* a browser that keeps nothing */ }
  if (chosen && languages.includes(chosen)) return chosen;
  return (navigator.language || '').toLowerCase().startsWith('tr') ? 'tr' : 'en';
}

export const language = new Store(preferred());

/** @param {string} to */
export function speak(to) {
  try { localStorage.setItem(kept, to); } catch { /* then for this page only */ }
  language.set(to);
}

/**
 * @param {string} key @param {Record<string, string|number>} [values]
 * @returns {string} the message in the person's language; the key itself where there is none, which a test fails for
 */
export function t(key, values = {}) {
  const entry = table[key];
  if (!entry) { missing.add(key); return key; }
  let message = entry[language.value === 'tr' ? 1 : 0];
  if (typeof message !== 'string') {
    const form = new Intl.PluralRules(language.value).select(Number(values.n));
    message = form === 'one' ? message.one : message.other;
  }
  return message.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Keys that were asked for and are in no table. */
export const missing = new Set();

/** @param {string} key @returns whether there is such a message */
export const known = (key) => key in table;
