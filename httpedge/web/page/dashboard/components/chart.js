// Charts: hand-made SVG with axes and units, and the same numbers as a table behind it.

import { html, useEffect, useRef, useState } from '../lib.js';
import { t } from '../messages.js';

const height = 200;
const left = 56;
const bottom = 24;
const top = 10;

/** A round number that is at least the given one. @param {number} most */
export function roundUp(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= most * 0.999) || most;
}

/**
 * Bars, stacked where there are several series.
 * @param {{label: string, points: {name: string, values: number[]}[], series: string[], format: (value: number) => string}} props
 * points: along the axis, each with a value of each series
 */
export function Chart({ label, points, series, format }) {
  const [table, setTable] = useState(false);
  const own = useRef(/** @type {HTMLElement|null} */ (null));
  // As wide as there is room, so that its words have one size everywhere.
  const [width, setWidth] = useState(640);
  useEffect(() => {
    if (!own.current) return undefined;
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.max(240, Math.round(entry.contentRect.width))));
    sizes.observe(own.current);
    return () => sizes.disconnect();
  }, []);
  const most = roundUp(Math.max(0, ...points.map((point) => point.values.reduce((sum, value) => sum + value, 0))));
  const inner = height - bottom - top;
  const step = (width - left) / Math.max(points.length, 1);
  const y = (/** @type {number} */ value) => top + inner * (1 - value / most);
  const bar = Math.min(step * 0.7, 64);
  const letters = Math.max(0, ...points.map((point) => point.name.length));
  const every = Math.max(1, Math.ceil(points.length / Math.max(1, (width - left) / (letters * 7 + 16))));
  return html`<figure class="chart" ref=${own}>
    <figcaption><span>${label}</span>
      ${series.length > 1 && html`<span class="legend">${series.map((name, i) => html`<span key=${name}><i data-series=${i % 6}></i>${name}</span>`)}</span>`}
      <button class="tiny" aria-pressed=${table} onClick=${() => setTable(!table)}>${t('chart.table')}</button></figcaption>
    ${table ? html`<div class="chart-table" tabindex="0" role="region" aria-label=${label}><table class="table"><thead><tr><th scope="col">${t('chart.time')}</th>${series.map((name) => html`<th scope="col" class="number" key=${name}>${name}</th>`)}</tr></thead>
      <tbody>${points.map((point) => html`<tr key=${point.name}><th scope="row">${point.name}</th>${point.values.map((value) => html`<td class="number">${format(value)}</td>`)}</tr>`)}</tbody></table></div>`
    : html`<svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label} preserveAspectRatio="xMidYMid meet">
      ${[0, 0.5, 1].map((part) => html`<g key=${part}><line class="grid" x1=${left} x2=${width} y1=${y(most * part)} y2=${y(most * part)} />
        <text class="tick" x=${left - 6} y=${y(most * part) + 4} text-anchor="end">${format(most * part)}</text></g>`)}
      ${points.map((point, i) => {
        let base = 0;
        return html`<g key=${point.name}>${point.values.map((value, s) => {
          const from = base;
          base += value;
          return value > 0 && html`<rect data-series=${s % 6} x=${left + (i + 0.5) * step - bar / 2} width=${bar} y=${y(base)} height=${Math.max(0.5, y(from) - y(base))}>
            <title>${`${point.name} · ${series[s]} · ${format(value)}`}</title></rect>`;
        })}${i % every === 0 && html`<text class="tick" x=${left + (i + 0.5) * step} y=${height - 8} text-anchor="middle">${point.name}</text>`}</g>`;
      })}
    </svg>`}
  </figure>`;
}
