// What went in and came out of a bar, and what can be done there.

import { html } from '../lib.js';
import { Icon } from '../components/icon.js';
import { Value } from '../components/json.js';
import { spanName } from '../components/waterfall.js';
import { clock, duration, exact, money } from '../format.js';
import { t } from '../messages.js';
import { Budget } from './budget.js';
import { Wait } from './wait.js';

/** @param {{log: import('./log.js').SessionLog, session: any, span: import('./trace.js').Span|null, back: string}} props */
export function Detail({ log, session, span, back }) {
  if (!span) return html`<p class="note">${t('trace.choose')}</p>`;
  const pending = span.action && (session.pending_actions || []).find((/** @type {any} */ one) => one.id === span.action.action_id);
  return html`<section class="detail" aria-label=${spanName(span)} data-seq=${span.seq}>
    <a class="pane-back" href=${back} data-link><${Icon} name="back" /> ${t('do.back')}</a>
    <h2>${spanName(span)}</h2>
    <dl class="facts-list"><div><dt>${t('trace.began')}</dt><dd title=${exact(span.from)}>${clock(span.from)}</dd></div>
      ${span.kind !== 'mark' && span.kind !== 'message' && html`<div><dt>${t('trace.took')}</dt><dd>${span.to === null ? t('trace.running') : duration(span.to - span.from)}</dd></div>`}
      ${(span.attempt || 1) > 1 && html`<div><dt>${t('trace.attempt', { n: span.attempt || 1 })}</dt><dd></dd></div>`}
      ${span.usage && html`<div><dt>${t('trace.usage')}</dt><dd>${t('trace.tokens', { in: span.usage.input_tokens, out: span.usage.output_tokens })}${span.usage.cost_usd !== undefined && ` · ${money(span.usage.cost_usd)}`}</dd></div>`}
      <div><dt>${t('trace.event', { n: span.seq })}</dt><dd></dd></div></dl>
    ${pending && html`<${Wait} key=${pending.id} log=${log} action=${pending} />`}
    ${span.name === 'budget.reached' && session.runtime_status === 'budget_paused' && html`<${Budget} log=${log} session=${session} />`}
    ${span.input !== undefined && span.input !== null && !pending && html`<div><h3>${t('trace.input')}</h3><${Value} value=${span.input} label=${t('trace.input')} /></div>`}
    ${span.output !== undefined && span.output !== null && html`<div><h3>${t('trace.output')}</h3><${Value} value=${span.output} label=${t('trace.output')} /></div>`}
  </section>`;
}
