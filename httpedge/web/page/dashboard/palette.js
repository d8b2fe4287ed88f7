// Search by id, name or action. An id opens what it names; pages may add actions of their own while they are open.

import { html, useEffect, useRef, useState } from './lib.js';
import { api } from './api.js';
import { Dialog } from './components/dialog.js';
import { t } from './messages.js';
import { go } from './router.js';
import { routes } from './routes.js';
import { useSees } from './who.js';

/** @typedef {{label: string, kind: string, act: () => void}} Entry */

/** @type {Set<() => Entry[]>} */
const offered = new Set();

/** Adds actions of the open page. @param {() => Entry[]} list asked when the palette opens */
export function useActions(list) {
  const own = useRef(list);
  own.current = list;
  useEffect(() => {
    const ask = () => own.current();
    offered.add(ask);
    return () => { offered.delete(ask); };
  }, []);
}

const looksLikeID = /^[a-z0-9]+_[\w-]{6,}$/i;
/** Keys of agents, models and guardrails, and what programs call the sessions that they report, look like any word. */
const mayBeKey = /^\S{2,256}$/;

/** @param {{close: () => void}} props */
export function Palette({ close }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState(/** @type {Entry[]} */ ([]));
  const [searched, setSearched] = useState(''); // what was found is of this text
  const [at, setAt] = useState(0);
  const wanted = text.trim();
  const sees = useSees();

  useEffect(() => {
    const ended = new AbortController();
    const timer = setTimeout(async () => {
      const { signal } = ended;
      const [sessions, agents] = await Promise.all([
        api.get('/agents/sessions', { limit: 8, q: wanted.slice(0, 100) || undefined }, { signal }).then((list) => list.data, () => []),
        api.get('/agents', {}, { signal }).then((list) => list.agents, () => []),
      ]);
      if (signal.aborted) return;
      setSearched(wanted);
      setFound([
        ...sessions.map((/** @type {any} */ one) => ({ label: one.title || one.id, kind: t('palette.session'), act: () => go(`/dashboard/sessions/${one.id}`) })),
        ...agents.map((/** @type {any} */ one) => ({ label: one.name, kind: t('palette.agent'), act: () => go(`/dashboard/agents/${one.key}`) })),
      ]);
    }, 150);
    return () => { clearTimeout(timer); ended.abort(); };
  }, [wanted]);

  /** @type {Entry[]} */
  const all = [
    ...[...offered].flatMap((ask) => ask()),
    ...routes.filter((one) => one.icon && sees(one)).map((one) => ({ label: t(one.key || ''), kind: t('palette.page'), act: () => go(one.path) })),
    ...found,
  ];
  const list = all.filter((one) => one.label.toLowerCase().includes(wanted.toLowerCase())).slice(0, 11);
  const id = { label: t('palette.go', { id: wanted }), kind: 'id', act: () => go(`/dashboard/go/${encodeURIComponent(wanted)}`) };
  if (looksLikeID.test(wanted)) list.unshift(id);
  else if (mayBeKey.test(wanted) && searched === wanted) list.push(id); // behind what has such a name
  const chosen = Math.min(at, list.length - 1);
  const open = (/** @type {Entry|undefined} */ one) => { if (one) { close(); one.act(); } };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, list.length - 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0));
    else if (event.key === 'Enter') open(list[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title=${t('palette.label')} onClose=${close}>
    <input id="palette" type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label=${t('palette.label')} autofocus autocomplete="off"
      aria-activedescendant=${list.length ? `palette-${chosen}` : undefined} placeholder=${t('palette.open')} value=${text}
      onInput=${(/** @type {any} */ event) => { setText(event.target.value); setAt(0); }} onKeyDown=${key} />
    <ul id="palette-list" role="listbox" aria-label=${t('palette.label')}>
      ${list.map((one, i) => html`<li key=${one.kind + one.label + i} id=${`palette-${i}`} role="option" aria-selected=${i === chosen} onClick=${() => open(one)}>
        <span>${one.label}</span><small>${one.kind}</small></li>`)}
    </ul>
    ${!list.length && html`<p class="faint">${t('palette.none')}</p>`}
  <//>`;
}
