// Tables: rows by cursor, drawn only where they are seen, moved through with j and k, marked for two seconds when they change.

import { html, names, useEffect, useLayoutEffect, useRef, useState } from '../lib.js';
import { useKeys } from '../keys.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { Failure } from './failure.js';

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title what the head says; '' for a column of buttons
 * @property {(row: any) => any} cell
 * @property {'number'|'wide'|'narrow'} [kind] number: aligned to the right; wide: takes the room that is left
 * @property {boolean} [phone] false: not on a phone
 */

/**
 * A list that is read page by page.
 * @param {(cursor: string|null, signal: AbortSignal) => Promise<{rows: any[], next: string|null}>} read
 * @param {any[]} deps read anew from the first page when they change
 */
export function usePages(read, deps) {
  const [state, set] = useState({ rows: /** @type {any[]} */ ([]), next: /** @type {string|null} */ (null), loading: true, error: /** @type {any} */ (null), round: 0 });
  const controller = useRef(new AbortController());
  const reading = useRef(read);
  reading.current = read;
  const page = async (/** @type {string|null} */ cursor, /** @type {any[]} */ before) => {
    const { signal } = controller.current;
    set((now) => ({ ...now, loading: true, error: null }));
    try {
      const { rows, next } = await reading.current(cursor, signal);
      if (signal.aborted) return;
      const seen = new Set(before.map(idOf));
      set((now) => ({ ...now, rows: [...before, ...rows.filter((row) => !seen.has(idOf(row)))], next, loading: false }));
    } catch (error) {
      if (!signal.aborted) set((now) => ({ ...now, loading: false, error }));
    }
  };
  useEffect(() => {
    controller.current.abort();
    controller.current = new AbortController();
    page(null, []);
    return () => controller.current.abort();
  }, [...deps, state.round]);
  return {
    ...state,
    more: () => { if (state.next && !state.loading) page(state.next, state.rows); },
    reload: () => set((now) => ({ ...now, round: now.round + 1 })),
    /** Changes the rows that are there, for example by what a stream tells. @param {(rows: any[]) => any[]} change */
    change: (change) => set((now) => ({ ...now, rows: change(now.rows) })),
  };
}

/** @param {any} row @returns {string} */
export const idOf = (row) => row.id || row._id || row.key;

/**
 * @param {{label: string, columns: Column[], rows: any[], href?: (row: any) => string, selected?: string|null, onMore?: () => void,
 *   more?: boolean, loading?: boolean, error?: any, retry?: () => void, empty?: any, changed?: Set<string>, fresh?: number,
 *   onFresh?: () => void, rowClass?: (row: any) => string}} props
 * href: where a row leads; selected: id of the row that is open; changed: ids of rows that just changed; fresh: how many new rows wait
 */
export function Table({
  label, columns, rows, href, selected = null, onMore, more = false, loading = false, error, retry, empty, changed, fresh = 0, onFresh, rowClass,
}) {
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [view, setView] = useState({ from: 0, to: 40, height: 37 });
  const wanted = useRef(-1);

  const measure = () => {
    const element = box.current;
    if (!element) return;
    const height = element.querySelector('tbody tr[data-row]')?.getBoundingClientRect().height || view.height;
    const from = Math.max(0, Math.floor(element.scrollTop / height) - 10);
    const to = Math.ceil((element.scrollTop + element.clientHeight) / height) + 10;
    setView((now) => (now.from === from && now.to === to && now.height === height ? now : { from, to, height }));
    if (more && onMore && element.scrollTop + element.clientHeight > element.scrollHeight - 400) onMore();
  };
  useLayoutEffect(measure, [rows.length, more, loading]);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const sizes = new ResizeObserver(measure);
    sizes.observe(element);
    return () => sizes.disconnect();
  });

  const links = () => /** @type {HTMLElement[]} */ ([...(box.current?.querySelectorAll('tbody tr[data-row] [data-first]') || [])]);
  const current = () => {
    const focused = /** @type {HTMLElement|null|undefined} */ (document.activeElement?.closest?.('tr[data-row]'));
    if (focused && box.current?.contains(focused)) return Number(focused.dataset.row);
    const open = rows.findIndex((row) => idOf(row) === selected);
    return open;
  };
  const move = (/** @type {number} */ by) => {
    if (!rows.length || !box.current) return;
    const to = Math.min(Math.max(current() + by, 0), rows.length - 1);
    const top = to * view.height;
    if (top < box.current.scrollTop + view.height) box.current.scrollTop = top - view.height;
    else if (top + 2 * view.height > box.current.scrollTop + box.current.clientHeight) box.current.scrollTop = top - box.current.clientHeight + 2 * view.height;
    wanted.current = to;
    measure();
    focusWanted();
  };
  const focusWanted = () => {
    if (wanted.current < 0) return;
    const link = links().find((one) => Number(/** @type {HTMLElement} */ (one.closest('tr'))?.dataset.row) === wanted.current);
    if (link) { link.focus({ preventScroll: true }); wanted.current = -1; }
  };
  useLayoutEffect(focusWanted);
  useKeys(href ? { j: () => move(1), k: () => move(-1) } : {});

  const shown = rows.slice(view.from, view.to);
  const above = Math.min(view.from, rows.length) * view.height;
  const below = Math.max(0, rows.length - view.to) * view.height;
  if (!rows.length && !loading && !error && empty) return empty;
  return html`<div class="table-box" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label=${label} aria-busy=${loading}>
    ${fresh > 0 && html`<button class="fresh" onClick=${onFresh}>${t('list.new', { n: fresh })}</button>`}
    <table class="table" aria-rowcount=${more ? -1 : rows.length + 1}>
      <caption class="hidden">${label}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col" key=${column.key} class=${names(column.kind, column.phone === false && 'no-phone')}>
        ${column.title || html`<span class="hidden">${t('nav.more')}</span>`}</th>`)}</tr></thead>
      <tbody>
        ${above > 0 && html`<tr class="room" aria-hidden="true" style=${{ height: `${above}px` }}></tr>`}
        ${shown.map((row, i) => {
          const id = idOf(row);
          const to = href?.(row);
          return html`<tr key=${id} data-row=${view.from + i} data-id=${id} aria-rowindex=${view.from + i + 2} aria-current=${selected === id ? 'true' : undefined}
            class=${names(changed?.has(id) && 'changed', to && 'leads', rowClass?.(row))}
            onClick=${to ? (/** @type {MouseEvent} */ event) => { if (!/** @type {Element} */ (event.target).closest('a, button, input, select')) go(to); } : undefined}>
            ${columns.map((column, at) => html`<td key=${column.key} class=${names(column.kind, column.phone === false && 'no-phone')}>
              ${at === 0 && to ? html`<a href=${to} data-link data-first>${column.cell(row)}</a>` : column.cell(row)}</td>`)}
          </tr>`;
        })}
        ${below > 0 && html`<tr class="room" aria-hidden="true" style=${{ height: `${below}px` }}></tr>`}
      </tbody>
    </table>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${loading && html`<p class="note" role="status">${t('list.loading')}</p>`}
    ${more && !loading && html`<p class="note"><button class="button" onClick=${onMore}>${t('list.more')}</button></p>`}
  </div>`;
}

/**
 * Keeps a list live by the project's feed: rows change where they are, new ones are counted until the person wants them.
 * @param {ReturnType<typeof usePages>} pages @param {(row: any) => boolean} fits whether a row of the feed belongs into the list
 * @param {'session'|'run'} kind @param {(listener: any) => () => void} on of the feed
 */
export function useLive(pages, fits, kind, on) {
  const [fresh, setFresh] = useState(/** @type {Set<string>} */ (new Set()));
  const [changed, setChanged] = useState(/** @type {Set<string>} */ (new Set()));
  const now = useRef(pages);
  now.current = pages;
  const belongs = useRef(fits);
  belongs.current = fits;
  useEffect(() => {
    let first = true;
    return on({
      [kind]: (/** @type {any} */ row) => {
        const known = now.current.rows.some((one) => idOf(one) === row.id);
        if (row.deleted) {
          if (known) now.current.change((rows) => rows.filter((one) => idOf(one) !== row.id));
          return;
        }
        if (!known) {
          if (!belongs.current(row)) return;
          if (!now.current.rows.length) now.current.reload(); // nothing is there that could move
          else setFresh((set) => new Set(set).add(row.id));
          return;
        }
        now.current.change((rows) => rows.map((one) => (idOf(one) === row.id ? { ...one, ...row } : one)));
        setChanged((set) => new Set(set).add(row.id));
        setTimeout(() => setChanged((set) => { const left = new Set(set); left.delete(row.id); return left; }), 2000);
      },
      reset: () => { if (first) first = false; else now.current.reload(); },
    });
  }, [kind]);
  return { changed, fresh: fresh.size, show: () => { setFresh(new Set()); now.current.reload(); } };
}
