// Every state of the console is an address: path and query. Modules read them with useAddress and change them with go.

import { html, useEffect, useState } from './lib.js';

/** @typedef {{path: string, query: URLSearchParams, hash: string}} Address */

/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Address} where the page is */
export function address() {
  return { path: location.pathname, query: new URLSearchParams(location.search), hash: location.hash };
}

const tell = () => { for (const listener of listeners) listener(); };

/**
 * Goes to an address of the console.
 * @param {string} to path, with query and hash
 * @param {{replace?: boolean}} [how] replace: the address before does not come back
 */
export function go(to, { replace = false } = {}) {
  if (to === location.pathname + location.search + location.hash) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', to);
  tell();
}

/**
 * Changes fields of the query; empty ones go.
 * @param {Record<string, string|number|null|undefined>} fields
 * @param {{replace?: boolean}} [how]
 */
export function setQuery(fields, how) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === '') query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ''), how);
}

/** The address, and a new drawing whenever it changes. */
export function useAddress() {
  const [now, set] = useState(address);
  useEffect(() => {
    const listener = () => set(address());
    listeners.add(listener);
    listener();
    return () => { listeners.delete(listener); };
  }, []);
  return now;
}

/**
 * @template T
 * @param {T[]} routes with path: '/dashboard/sessions/:id'
 * @param {string} path
 * @returns {{route: T, params: Record<string, string>} | null}
 */
export function match(routes, path) {
  const parts = path.replace(/\/+$/, '').split('/');
  for (const route of routes) {
    const wanted = /** @type {any} */ (route).path.split('/');
    if (wanted.length !== parts.length) continue;
    /** @type {Record<string, string>} */
    const params = {};
    if (wanted.every((/** @type {string} */ want, /** @type {number} */ i) => {
      if (!want.startsWith(':')) return want === parts[i];
      try { params[want.slice(1)] = decodeURIComponent(parts[i]); } catch { return false; }
      return parts[i] !== '';
    })) return { route, params };
  }
  return null;
}

/** A link within the console: a real one, so that it can be opened in another tab. @param {{href?: string, children?: any, [other: string]: any}} props */
export function Link({ href = '', children = null, ...rest }) {
  return html`<a href=${href} ...${rest} data-link>${children}</a>`;
}

/** Follows links of the page without loading it again. Elements that are no links of ours are left to the browser. */
export function listen() {
  addEventListener('popstate', tell);
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = /** @type {HTMLAnchorElement|null} */ (/** @type {Element} */ (event.target).closest('a[data-link]'));
    if (!link || link.target || link.origin !== location.origin) return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}
