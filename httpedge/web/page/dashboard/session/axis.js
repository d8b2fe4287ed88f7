// The axis of the waterfall: time, with long waiting folded to a mark, so that 18 minutes do not squeeze 2 seconds.

/** @typedef {{from: number, to: number}} Gap */

/**
 * Stretches in which nothing but waiting goes on, or nothing at all between two turns.
 * @param {import('./trace.js').Span[]} spans @param {number} now
 * @returns {Gap[]} in order
 */
export function gaps(spans, now) {
  /** @type {[number, number][]} */
  const busy = [];
  for (const span of spans) {
    if (span.kind === 'model' || span.kind === 'step' || (span.kind === 'tool' && !span.waited)) busy.push([span.from, span.to ?? now]);
    else if (span.kind === 'message' || span.kind === 'mark') busy.push([span.from, span.from]);
    else if (span.kind === 'wait') { busy.push([span.from, span.from]); busy.push([span.to ?? now, span.to ?? now]); }
  }
  busy.sort((a, b) => a[0] - b[0]);
  /** @type {Gap[]} */
  const found = [];
  let end = busy[0]?.[1] ?? 0;
  for (const [from, to] of busy) {
    if (from > end) found.push({ from: end, to: from });
    end = Math.max(end, to);
  }
  return found;
}

/** Round steps of the axis above ten seconds. */
const long = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800].map((seconds) => seconds * 1000);

export class Axis {
  /**
   * @param {import('./trace.js').Span[]} spans @param {number} from @param {number} to @param {boolean} fold
   */
  constructor(spans, from, to, fold) {
    this.from = from;
    this.to = Math.max(to, from + 1);
    /** @type {(Gap & {cut: number, before: number})[]} what is folded, and how much of the time is cut away */
    this.folded = [];
    this.cut = 0;
    if (fold) {
      const all = gaps(spans, to);
      const work = this.to - this.from - all.reduce((sum, gap) => sum + gap.to - gap.from, 0);
      // A gap is folded when it is longer than the work; then it takes a fiftieth of it.
      const most = Math.max(work * 0.15, 50);
      const shown = Math.max(work * 0.02, 20);
      for (const gap of all) {
        const length = gap.to - gap.from;
        if (length <= most) continue;
        this.folded.push({ ...gap, cut: length - shown, before: this.cut });
        this.cut += length - shown;
      }
    }
    this.length = Math.max(this.to - this.from - this.cut, 1);
  }

  /** @param {number} at @returns {number} between 0 and 1 */
  place(at) {
    let cut = 0;
    let low = 0;
    let high = this.folded.length;
    while (low < high) { // the last gap that begins before
      const middle = (low + high) >> 1;
      if (this.folded[middle].from < at) low = middle + 1; else high = middle;
    }
    const gap = this.folded[low - 1];
    if (gap) {
      const length = gap.to - gap.from;
      const part = Math.min(1, (at - gap.from) / length);
      cut = gap.before + gap.cut * part;
    }
    return Math.min(1, Math.max(0, (at - this.from - cut) / this.length));
  }

  /** Round times for the axis, in milliseconds of work since the beginning. @param {number} count */
  ticks(count) {
    const raw = this.length / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = (raw > 10_000 ? long : [1, 2, 5, 10].map((n) => n * power)).find((n) => n >= raw) || raw;
    const list = [];
    for (let at = 0; at <= this.length && list.length < 40; at += step) list.push({ at, place: at / this.length });
    return list;
  }
}
