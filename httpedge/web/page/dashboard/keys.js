// Keys: one listener for the page. Components say which keys they take while they are there; the newest one wins.

import { useEffect, useRef } from './lib.js';

/** @typedef {Record<string, (event: KeyboardEvent) => void>} Keys by key: 'j', '?', 'mod+k', 'Escape' */

/** @type {{current: Keys}[]} */
const taken = [];

/** @param {EventTarget|null} target */
const typing = (target) => target instanceof HTMLElement
  && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const mod = event.ctrlKey || event.metaKey;
  if (event.altKey) return;
  const name = mod ? `mod+${event.key.toLowerCase()}` : event.key;
  if (!mod && name !== 'Escape' && typing(event.target)) return;
  if (document.querySelector('dialog[open]') && !mod) return; // a dialog has its own
  for (let i = taken.length - 1; i >= 0; i--) {
    const act = taken[i].current[name];
    if (act) {
      event.preventDefault();
      act(event);
      return;
    }
  }
});

/** @param {Keys} keys */
export function useKeys(keys) {
  const own = useRef(keys);
  own.current = keys;
  useEffect(() => {
    taken.push(own);
    return () => { taken.splice(taken.indexOf(own), 1); };
  }, []);
}
