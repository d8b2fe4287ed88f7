// What was reported of a bar: its numbers, what went in and came out, and everything else.

import { html } from '../lib.js';
import { Icon } from '../components/icon.js';
import { Json, Value } from '../components/json.js';
import { spanName } from '../components/waterfall.js';
import { clock, duration, exact } from '../format.js';
import { t } from '../messages.js';
import { partsOf } from './layout.js';

const names = { input: 'trace.input', output: 'trace.output', details: 'tracing.details', section: 'tracing.section' };

/** What has a place of its own in the pane. */
const placed = new Set(['sections', 'toolDetails', 'error', 'timestamp', 'durationMs', 'number', 'label']);

/** @param {any} event @returns {Record<string, any>} its members that say something */
function attributes(event) {
  return Object.fromEntries(Object.entries(event).filter(([name, value]) => !placed.has(name) && value !== null && value !== '' && value !== 0
    && (typeof value !== 'object' || Object.values(value).some(Boolean))));
}

/** @param {{span: import('./layout.js').Span|null, back: string}} props */
export function Detail({ span, back }) {
  if (!span) return html`<p class="note">${t('trace.choose')}</p>`;
  const event = span.output;
  return html`<section class="detail" aria-label=${spanName(span)} data-seq=${span.seq}>
    <a class="pane-back" href=${back} data-link><${Icon} name="back" /> ${t('do.back')}</a>
    <h2>${spanName(span)}</h2>
    <dl class="facts-list"><div><dt>${t('trace.began')}</dt><dd title=${exact(span.from)}>${clock(span.from)}</dd></div>
      <div><dt>${t('trace.took')}</dt><dd>${duration((span.to ?? span.from) - span.from)}</dd></div>
      ${span.usage && html`<div><dt>${t('trace.usage')}</dt><dd>${t('trace.tokens', { in: span.usage.input_tokens, out: span.usage.output_tokens })}</dd></div>`}
      <div><dt>${t('trace.event', { n: span.seq })}</dt><dd></dd></div></dl>
    ${event.error && html`<div><h3>${t('tracing.error')}</h3><${Value} value=${event.error} label=${t('tracing.error')} /></div>`}
    ${partsOf(event).map((part, i) => { const title = part.title || t(names[part.kind]); return html`<div key=${`${span.seq}/${i}`}><h3>${title}</h3><${Value} value=${part.value} label=${title} /></div>`; })}
    <div key=${`${span.seq}/attributes`}><h3>${t('tracing.attributes')}</h3><${Json} value=${attributes(event)} label=${t('tracing.attributes')} /></div>
  </section>`;
}
