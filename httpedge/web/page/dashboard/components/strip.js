// The strip above the waterfall: the whole session in one look, with what is seen marked, and money as a line.

import { html, useLayoutEffect, useRef } from '../lib.js';
import { t } from '../messages.js';
import { useStore } from '../store.js';
import { theme } from '../theme.js';

const height = 44;

/**
 * @param {{spans: import('../session/trace.js').Span[], money: {at: number, spent: number}[], axis: import('../session/axis.js').Axis, until: number,
 *   first: number, last: number, jump: (row: number) => void}} props first and last: rows that are seen
 */
export function Strip({ spans, money, axis, until, first, last, jump }) {
  const canvas = useRef(/** @type {HTMLCanvasElement|null} */ (null));
  useStore(theme);
  useLayoutEffect(() => {
    const element = canvas.current;
    const pen = element?.getContext('2d');
    if (!element || !pen) return;
    const scale = devicePixelRatio || 1;
    const width = element.clientWidth;
    element.width = width * scale;
    element.height = height * scale;
    pen.scale(scale, scale);
    const style = getComputedStyle(element);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    /** @type {Record<string, string>} */
    const fills = { model: colour('--accent'), tool: colour('--good'), wait: colour('--warn'), mark: colour('--bad'), message: colour('--soft'), step: colour('--soft') };
    for (const [i, span] of spans.entries()) {
      if (span.kind === 'turn') continue;
      const x = axis.place(span.from) * width;
      pen.fillStyle = span.state === 'bad' ? fills.mark : fills[span.kind];
      pen.globalAlpha = span.kind === 'wait' ? 0.45 : 0.85;
      pen.fillRect(x, 2 + (i / spans.length) * (height - 14), Math.max(1, axis.place(span.to ?? until) * width - x), Math.max(1, (height - 14) / spans.length));
    }
    pen.globalAlpha = 1;
    const most = money.at(-1)?.spent || 0;
    if (most > 0) {
      pen.strokeStyle = colour('--ink');
      pen.lineWidth = 1;
      pen.beginPath();
      for (const point of money) pen.lineTo(axis.place(point.at) * width, height - 2 - (point.spent / most) * 8);
      pen.stroke();
    }
    if (last - first < spans.length) {
      pen.fillStyle = colour('--edge');
      pen.globalAlpha = 0.25;
      pen.fillRect(0, 2 + (first / spans.length) * (height - 14), width, Math.max(3, ((last - first) / spans.length) * (height - 14)));
      pen.globalAlpha = 1;
    }
  });
  return html`<div class="strip"><span></span><canvas ref=${canvas} height=${height} role="img" aria-label=${t('trace.strip')}
    onClick=${(/** @type {MouseEvent} */ event) => {
      const box = canvas.current?.getBoundingClientRect();
      if (box) jump(Math.round(((event.clientY - box.top - 2) / (height - 14)) * spans.length));
    }}></canvas></div>`;
}
