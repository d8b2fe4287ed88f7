// Light, dark, or as the system is.

import { Store } from './store.js';

const kept = 'parley.theme';

function chosen() {
  try { return localStorage.getItem(kept) || 'auto'; } catch { return 'auto'; }
}

export const theme = new Store(chosen());

/** @param {string} to auto, light or dark */
export function setTheme(to) {
  try { localStorage.setItem(kept, to); } catch { /* then for this page only */ }
  theme.set(to);
}

export function startTheme() {
  const apply = () => { document.documentElement.dataset.theme = theme.value; };
  theme.on(apply);
  apply();
}
