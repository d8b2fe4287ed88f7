// Two sessions beside each other, turn by turn.

import { html, useEffect, useMemo } from '../lib.js';
import { Status } from '../components/cells.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { money } from '../format.js';
import { t } from '../messages.js';
import { go, Link } from '../router.js';
import { SessionLog } from '../session/log.js';
import { items } from '../session/conversation.js';
import { useStore } from '../store.js';

/** @param {string} id */
function useLog(id) {
  const log = useMemo(() => new SessionLog(id), [id]);
  useEffect(() => () => log.close(), [log]);
  return { log, session: useStore(log.session), error: useStore(log.error), version: useStore(log.version) };
}

/** @param {{address: any}} props */
export default function Compare({ address }) {
  const a = address.query.get('a');
  const b = address.query.get('b');
  if (a && b) return html`<${Both} a=${a} b=${b} key=${a + b} />`;
  return html`<div class="page narrow"><h1>${t('compare.title')}</h1><p class="soft">${t('compare.choose')}</p>
    <${Form} submit=${t('compare.do')} value=${{ a, b }} schema=${{ properties: { a: { title: t('compare.left') }, b: { title: t('compare.right') } }, required: ['a', 'b'] }}
      onSubmit=${(/** @type {any} */ ids) => go(`/dashboard/compare?a=${ids.a}&b=${ids.b}`)} /></div>`;
}

/** @param {{a: string, b: string}} props */
function Both({ a, b }) {
  const left = useLog(a);
  const right = useLog(b);
  const failed = left.error || right.error;
  const said = (/** @type {any} */ one) => items(one.log.events).filter((item) => item.role !== 'notice');
  const pairs = useMemo(() => {
    const [one, other] = [said(left), said(right)];
    return Array.from({ length: Math.max(one.length, other.length) }, (_, i) => [one[i], other[i]]);
  }, [left.version, right.version]);
  if (failed) return html`<${Failure} error=${failed} />`;
  const head = (/** @type {any} */ side) => html`<th scope="col"><${Link} href=${`/dashboard/sessions/${side.log.id}`}>${side.session?.title || side.log.id}<//>
    <p class="facts">${side.session && html`<${Status} value=${side.session.runtime_status} /><span class="number">${money(side.session.spent_usd)}</span><span>${t('session.turns', { n: side.log.trace.turns })}</span>`}</p></th>`;
  const cell = (/** @type {any} */ item) => html`<td>${item && html`<p class="faint">${item.role === 'user' ? t('session.you') : item.role === 'tools' ? item.calls.map((/** @type {any} */ call) => call.tool_name).join(', ') : t('session.assistant')}</p>
    <div class="plain">${item.calls ? JSON.stringify(item.calls.map((/** @type {any} */ call) => ({ args: call.args, result: call.result })), null, 1) : item.text}</div>`}</td>`;
  const text = (/** @type {any} */ item) => item && JSON.stringify([item.role, item.text, item.calls?.map((/** @type {any} */ call) => [call.tool_name, call.args, call.result])]);
  return html`<div class="page"><h1>${t('compare.title')}</h1><div class="compare-box" tabindex="0" role="region" aria-label=${t('compare.title')}><table class="compare"><thead><tr>${head(left)}${head(right)}<th scope="col"><span class="hidden">${t('compare.differs')}</span></th></tr></thead>
    <tbody>${pairs.map(([one, other], i) => { const same = text(one) === text(other); return html`<tr key=${i} data-same=${same}>${cell(one)}${cell(other)}<td class="verdict"><span aria-hidden="true">${same ? '=' : '≠'}</span><span class="hidden">${t(same ? 'compare.same' : 'compare.differs')}</span></td></tr>`; })}</tbody></table></div></div>`;
}
