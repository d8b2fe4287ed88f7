// The waterfall: spans of a session over time. Rows are virtual, bars are links, arrows walk them; waiting is hatched and can be folded;
// a strip shows the whole; money is a thin line below the axis.

import { html, names, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib.js';
import { clock, duration, money, number } from '../format.js';
import { useKeys } from '../keys.js';
import { known, t } from '../messages.js';
import { Axis } from '../session/axis.js';
import { Strip } from './strip.js';

const rowHeight = 26;

/** @typedef {import('../session/trace.js').Span} Span */

/** @param {Span} span */
export function spanName(span) {
  if (span.title !== undefined) return span.title;
  switch (span.kind) {
    case 'turn': return t('trace.turn', { n: span.name });
    case 'model': return t('trace.model');
    case 'tool': return t('trace.tool', { name: span.name });
    case 'wait': return t('trace.wait', { name: span.name });
    case 'message': return `${t('trace.message')} ${span.name.slice(0, 80)}`;
    default: return known(`mark.${span.name}`) ? t(`mark.${span.name}`, { node: span.output?.node || '' }) : span.name;
  }
}

/** What stands behind a name: time, tokens, cost. @param {Span} span @param {number} now */
export function spanNote(span, now) {
  const parts = [];
  if (span.kind !== 'mark' && span.kind !== 'message') parts.push(span.to === null ? `${duration(now - span.from)}…` : duration(span.to - span.from));
  if (span.usage?.input_tokens !== undefined) parts.push(t('trace.tokens', { in: number(span.usage.input_tokens), out: number(span.usage.output_tokens) }));
  if (span.usage?.cost_usd !== undefined) parts.push(money(span.usage.cost_usd));
  if ((span.attempt || 1) > 1) parts.push(t('trace.attempt', { n: span.attempt || 1 }));
  return parts.join(' · ');
}

/**
 * @param {{spans: Span[], money: {at: number, seq: number, spent: number}[], from: number, to: number, live: boolean, selected: Span|null,
 *   href: (span: Span) => string, open: (span: Span, how?: {replace?: boolean}) => void, fold: boolean, follow: boolean, onFollow: (on: boolean) => void, found?: Set<number>|null}} props
 * live: something goes on, now moves; found: seqs that a search found
 */
export function Waterfall({ spans, money: spent, from, to, live, selected, href, open, fold, follow, onFollow, found = null }) {
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [now, setNow] = useState(Date.now());
  const [view, setView] = useState({ top: 0, height: 600 });
  const own = useRef(false); // a scroll that is the page's own
  useEffect(() => {
    if (!live) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [live]);
  const until = live ? Math.max(now, to) : to;
  const axis = useMemo(() => new Axis(spans, from, until, fold), [spans.length, from, until, fold]);
  const read = () => { const at = box.current; if (at) setView((before) => (before.top === at.scrollTop && before.height === at.clientHeight ? before : { top: at.scrollTop, height: at.clientHeight })); };
  useLayoutEffect(() => {
    const at = box.current;
    if (!at) return undefined;
    const sizes = new ResizeObserver(read);
    sizes.observe(at);
    read();
    return () => sizes.disconnect();
  }, []);
  const scrollTo = (/** @type {number} */ top) => { const at = box.current; if (at) { own.current = true; at.scrollTop = top; read(); } };
  useLayoutEffect(() => { if (follow) scrollTo(spans.length * rowHeight); }, [follow, spans.length]);
  const index = useMemo(() => (selected ? spans.indexOf(selected) : -1), [selected, spans.length]);
  const reveal = (/** @type {number} */ i) => {
    const at = box.current;
    if (!at || i < 0) return;
    const top = i * rowHeight;
    if (top < at.scrollTop) scrollTo(Math.max(0, top - rowHeight));
    else if (top + 2 * rowHeight > at.scrollTop + at.clientHeight) scrollTo(top - at.clientHeight + 3 * rowHeight);
  };
  useLayoutEffect(() => { reveal(index); }, [index]);
  const walk = (/** @type {number} */ by) => {
    if (!spans.length) return;
    const i = Math.min(Math.max(index + by, 0), spans.length - 1);
    onFollow(false);
    open(spans[i], { replace: index >= 0 });
    reveal(i);
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    walk(by);
  };
  useKeys({ j: () => walk(1), k: () => walk(-1) });
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 8);
  const last = Math.min(spans.length, Math.ceil((view.top + view.height) / rowHeight) + 8);
  const percent = (/** @type {number} */ at) => `${(axis.place(at) * 100).toFixed(3)}%`;
  return html`<div class="waterfall">
    <${Strip} spans=${spans} money=${spent} axis=${axis} until=${until} first=${view.top / rowHeight} last=${(view.top + view.height) / rowHeight}
      jump=${(/** @type {number} */ i) => { onFollow(false); scrollTo(Math.max(0, i * rowHeight - view.height / 2)); }} />
    <div class="axis" aria-hidden="true"><span></span><div>${axis.ticks(6).map((tick) => html`<i key=${tick.at} style=${{ left: `${(tick.place * 100).toFixed(2)}%` }}>${tick.place < 0.93 ? duration(tick.at) : ''}</i>`)}</div></div>
    <div class="bars" ref=${box} tabindex="0" role="group" aria-label=${t('trace.label')} onKeyDown=${key}
      onScroll=${() => { read(); if (own.current) own.current = false; else if (follow) { const at = box.current; if (at && at.scrollHeight - at.scrollTop - at.clientHeight > 40) onFollow(false); } }}>
      <div class="bars-all" style=${{ height: `${spans.length * rowHeight}px` }}>
        ${spans.slice(first, last).map((span, i) => {
          const left = axis.place(span.from);
          const right = axis.place(span.to ?? until);
          const at = first + i;
          const hit = found?.has(span.seq);
          return html`<a key=${at} class=${names('bar-row', found && !hit && 'missed', hit && 'hit')} href=${href(span)} data-link tabindex=${-1} data-seq=${span.seq} data-kind=${span.kind} data-state=${span.state || ''}
            aria-current=${span === selected ? 'true' : undefined} style=${{ top: `${at * rowHeight}px` }} title=${`${clock(span.from)} ${spanName(span)}`}>
            <span class="bar-name" style=${{ paddingLeft: `${span.depth * 14}px` }}><span>${spanName(span)}</span><small>${spanNote(span, until)}</small></span>
            <span class="bar-space"><span class="bar" data-kind=${span.kind} data-state=${span.state || ''} data-open=${span.to === null}
              style=${span.from === span.to ? { left: percent(span.from) } : { left: percent(span.from), width: `max(3px, ${((right - left) * 100).toFixed(3)}%)` }}></span></span></a>`;
        })}
      </div>
    </div>
    ${axis.folded.length > 0 && html`<p class="faint folded">// ${t('trace.folded', { time: duration(axis.cut) })}</p>`}
  </div>`;
}
