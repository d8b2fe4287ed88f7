// Icons of the rail and of buttons: 16 × 16 lines.

import { html } from '../lib.js';

/** @type {Record<string, string>} */
const paths = {
  overview: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z',
  sessions: 'M2 3h12v8H7l-3 3v-3H2z',
  agents: 'M4 6h8v7H4zM8 3v3M6 9v1M10 9v1M2 8v3M14 8v3',
  models: 'M8 1.5l6 3.2v6.6l-6 3.2-6-3.2V4.7zM2 4.7l6 3.3 6-3.3M8 8v6.5',
  runs: 'M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3',
  tracing: 'M2 3h8M5 6.500h6M5 10h3M9 13.500h5',
  webhooks: 'M2 5h10l-3-3M14 11H4l3 3',
  tokens: 'M10 2a4 4 0 1 1-2.6 7L3 13.4V11h2V9.5M11 5v.01',
  members: 'M6 7a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 14c0-3 2-4.5 4.5-4.5s4.5 1.5 4.5 4.5M11 7.5a2 2 0 1 0-.5-4M12 9.7c1.6.4 2.5 1.8 2.5 4',
  guardrails: 'M3 2v12M13 2v12M3 5h10M3 9.500h10',
  shields: 'M8 1.500l5.500 2v4c0 3.500-2.300 5.800-5.500 7-3.200-1.200-5.500-3.500-5.500-7v-4zM5.500 8l2 2 3-3.500',
  budgets: 'M2 4h12v9H2zM2 7h12M10.5 10h1.5',
  usage: 'M2 14h12M4 11V8M8 11V3M12 11V6',
  audit: 'M4 1.500h8v13H4zM6.5 5h3M6.5 8h3M6.5 11h2',
  settings: 'M8 10.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM8 1.500v2M8 12.500v2M1.5 8h2M12.5 8h2M3.4 3.400l1.4 1.400M11.2 11.200l1.4 1.400M3.4 12.600l1.4-1.400M11.2 4.800l1.4-1.4',
  playground: 'M5 3l8 5-8 5z',
  more: 'M3 8h.01M8 8h.01M13 8h.01',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.7 10.700L14 14',
  close: 'M3.5 3.500l9 9M12.5 3.500l-9 9',
  copy: 'M5.5 5.500h8v8h-8zM3.5 10.500h-1v-8h8v1',
  back: 'M10 3L5 8l5 5',
  check: 'M3 8.500l3.5 3.500L13 4.5',
  fork: 'M4 2.500v4c0 2 4 2 4 4v3M12 2.500v4c0 2-4 2-4 4',
};

/** @param {{name?: string}} props */
export function Icon({ name = '' }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false"><path d=${paths[name] || ''} /></svg>`;
}
