// Numbers, times and ids as people read them.

import { language } from './messages.js';

/** @type {Map<string, any>} formats are dear to make */
const made = new Map();

/** @template T @param {string} key @param {(locale: string) => T} make @returns {T} */
function once(key, make) {
  const name = `${language.value} ${key}`;
  if (!made.has(name)) made.set(name, make(language.value));
  return made.get(name);
}

/** @param {number} value */
export const number = (value) => once('number', (l) => new Intl.NumberFormat(l)).format(value);

/** Dollars with four digits, so that columns align; null is no price. @param {number|null|undefined} usd @param {number} [digits] */
export function money(usd, digits = 4) {
  if (usd === null || usd === undefined) return '–';
  if (usd > 0 && usd < 0.5 * 10 ** -digits) return `<$${(10 ** -digits).toFixed(digits)}`;
  return `$${once(`money${digits}`, (l) => new Intl.NumberFormat(l, { minimumFractionDigits: digits, maximumFractionDigits: digits })).format(usd)}`;
}

/** @param {string|number|null|undefined} at */
export function exact(at) {
  if (!at) return '';
  return once('exact', (l) => new Intl.DateTimeFormat(l, { dateStyle: 'medium', timeStyle: 'medium' })).format(new Date(at));
}

/** @param {string|number} at @returns {string} the time of day with milliseconds */
export const clock = (at) => once('clock', (l) => new Intl.DateTimeFormat(l, {
  hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hour12: false,
})).format(new Date(at));

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const steps = [['second', 60], ['minute', 60], ['hour', 24], ['day', 30], ['month', 12], ['year', Infinity]];

/** How long ago, or until. @param {string|number|null|undefined} at @param {number} [now] */
export function relative(at, now = Date.now()) {
  if (!at) return '';
  let left = (new Date(at).getTime() - now) / 1000;
  for (const [unit, size] of steps) {
    if (Math.abs(left) < size) {
      return once('relative', (l) => new Intl.RelativeTimeFormat(l, { numeric: 'auto', style: 'narrow' })).format(Math.trunc(left), unit);
    }
    left /= size;
  }
  return '';
}

/** Milliseconds, seconds, minutes, hours, days. @type {Record<string, string[]>} */
const units = { en: ['ms', 's', 'min', 'h', 'd'], tr: ['ms', 'sn', 'dk', 'sa', 'g'] };

/** @param {number} ms */
export function duration(ms) {
  const [milli, second, minute, hour, day] = units[language.value] || units.en;
  const two = (/** @type {number} */ more, /** @type {string} */ large, /** @type {number} */ less, /** @type {string} */ small) => (less ? `${more} ${large} ${less} ${small}` : `${more} ${large}`);
  if (ms < 1000) return `${Math.round(ms)} ${milli}`;
  if (ms < 10_000) return `${once('tenths', (l) => new Intl.NumberFormat(l, { minimumFractionDigits: 1, maximumFractionDigits: 1 })).format(ms / 1000)} ${second}`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} ${second}`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return two(minutes, minute, seconds % 60, second);
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? two(hours, hour, minutes % 60, minute) : two(Math.floor(hours / 24), day, hours % 24, hour);
}

/** @param {number} bytes */
export function bytes(bytes) {
  let value = bytes;
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (value < 1000 || unit === 'GB') return `${unit === 'B' || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
    value /= 1000;
  }
  return '';
}

/** The beginning and the end of an id. @param {string} id */
export function shortID(id) {
  const cut = id.indexOf('_');
  const tail = cut < 0 ? id : id.slice(cut + 1);
  return tail.length <= 10 ? id : `${cut < 0 ? '' : id.slice(0, cut + 1)}${tail.slice(0, 6)}…`;
}
