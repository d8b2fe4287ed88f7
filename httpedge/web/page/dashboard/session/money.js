// What the session has spent: over time, and by model call.

import { html, useMemo } from '../lib.js';
import { Chart } from '../components/chart.js';
import { Table } from '../components/table.js';
import { clock, money, number } from '../format.js';
import { t } from '../messages.js';
import { useStore } from '../store.js';
import { Budget } from './budget.js';

/** @param {{log: import('./log.js').SessionLog, session: any}} props */
export function Money({ log, session }) {
  const version = useStore(log.version);
  const calls = useMemo(() => {
    let turn = 0;
    return log.trace.spans.flatMap((span) => {
      if (span.kind === 'turn') turn++;
      return span.kind === 'model' && span.usage ? [{ id: String(span.seq), turn, at: span.from, ...span.usage }] : [];
    });
  }, [version]);
  const points = useMemo(() => {
    const all = log.trace.money;
    const step = Math.max(1, Math.ceil(all.length / 40));
    return all.filter((_, i) => i % step === step - 1 || i === all.length - 1).map((one) => ({ name: clock(one.at).slice(0, 8), values: [one.spent] }));
  }, [version]);
  return html`<div class="money"><${Budget} key=${`${session.runtime_status}${session.budget?.max_cost_usd}`} log=${log} session=${session} />
    ${points.length ? html`<${Chart} label=${t('money.over')} series=${[t('money.spent')]} points=${points} format=${(/** @type {number} */ value) => money(value)} />` : html`<p class="note">${t('money.none')}</p>`}
    ${calls.length > 0 && html`<${Table} label=${t('money.calls')} rows=${calls} columns=${[
      { key: 'at', title: t('chart.time'), cell: (/** @type {any} */ row) => clock(row.at) },
      { key: 'turn', title: t('money.turn'), kind: 'number', cell: (/** @type {any} */ row) => row.turn },
      { key: 'in', title: t('money.tokens.in'), kind: 'number', cell: (/** @type {any} */ row) => number(row.input_tokens) },
      { key: 'out', title: t('money.tokens.out'), kind: 'number', cell: (/** @type {any} */ row) => number(row.output_tokens) },
      { key: 'cost', title: t('money.cost'), kind: 'number', cell: (/** @type {any} */ row) => money(row.cost_usd) },
    ]} />`}</div>`;
}
