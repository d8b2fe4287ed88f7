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

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
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
