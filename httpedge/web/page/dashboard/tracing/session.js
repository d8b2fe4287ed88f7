// One reported session: head, waterfall of its events, and what was reported of the bar that is chosen.

import { html, useEffect, useMemo, useState } from '../lib.js';
import { ID, Status, Time } from '../components/cells.js';
import { Failure } from '../components/failure.js';
import { Json } from '../components/json.js';
import { Waterfall } from '../components/waterfall.js';
import { duration, number } from '../format.js';
import { t } from '../messages.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { useStore } from '../store.js';
import { Detail } from './detail.js';
import { layout } from './layout.js';
import { Record } from './record.js';

/** How often a session that runs is looked at again, in milliseconds. */
const pause = 3000;

/** @param {any} session */
export const agentOf = (session) => session.agent.name || t('tracing.agent.none');

/** @param {{id: string, thread: string, alone: boolean, conversation: boolean, address: any}} props thread: address of its thread; alone: it is all of that; conversation: the thread is a session of this server */
export function Reported({ id, thread, alone, conversation, address }) {
  const record = useMemo(() => new Record(id), [id]);
  useEffect(() => () => record.close(), [record]);
  const session = useStore(record.session);
  const error = useStore(record.error);
  const reading = useStore(record.reading);
  const version = useStore(record.version);
  const [fold, setFold] = useState(true);
  usePlace(session ? agentOf(session) : '');
  const runs = session?.status === 'in_progress';
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => { if (!document.hidden && !record.more) record.read(); }, pause);
    return () => clearInterval(timer);
  }, [runs, record]);
  const { spans, first, last } = useMemo(() => layout(record.events, session ? Date.parse(session.startedAt) : 0), [record, version]);
  if (!session) return error ? html`<${Failure} error=${error} retry=${() => record.read()} />` : html`<p class="note" aria-busy="true">${t('list.loading')}</p>`;
  const base = `${thread}?session=${encodeURIComponent(id)}`;
  const chosen = spans.find((span) => span.seq === Number(address.query.get('event'))) || null;
  const href = (/** @type {any} */ span) => `${base}&event=${span.seq}`;
  const { summary } = session;
  return html`<div class="session" data-ready=${!reading} data-spans=${spans.length}>
    <header class="session-head"><div><h1>${agentOf(session)}</h1>
      <p class="facts"><${Status} value=${session.status} /><span class="number">${duration(session.durationMs)}</span><${Time} at=${session.startedAt} />
        <span class="number">${t('trace.tokens', { in: number(summary.totalInputTokens), out: number(summary.totalOutputTokens) })}</span>
        ${session.modelsUsed.length > 0 && html`<span>${session.modelsUsed.join(', ')}</span>`}<${ID} id=${id} /></p></div>
      <div class="do">${conversation && html`<${Conversation} thread=${session.threadId} />`}
        ${!alone && html`<a class="button" id="all" href=${thread} data-link>${t('tracing.all')}</a>`}</div></header>
    ${error && html`<${Failure} error=${error} retry=${() => record.read()} />`}
    ${spans.length ? html`<div class="falls" data-chosen=${Boolean(chosen)}>
      <div class="falls-main"><div class="filters"><span class="faint grow" role="status">${t('tracing.shown', { n: number(spans.length), total: number(Math.max(session.totalEvents, spans.length)) })}</span>
        <label class="tick"><input type="checkbox" id="fold" checked=${fold} onChange=${(/** @type {any} */ event) => setFold(event.target.checked)} />${t('trace.fold')}</label></div>
        <${Waterfall} spans=${spans} money=${[]} from=${first} to=${last} live=${false} selected=${chosen} fold=${fold} follow=${false} onFollow=${() => {}}
          href=${href} open=${(/** @type {any} */ span, /** @type {any} */ how) => go(href(span), how)} />
        ${record.more && html`<p class="note"><button class="button" id="more" disabled=${reading} onClick=${() => record.read()}>${t('tracing.more')}</button></p>`}</div>
      <div class="falls-detail">${chosen || !(session.errors || session.config) ? html`<${Detail} span=${chosen} back=${base} />` : html`<${Whole} session=${session} />`}</div>
    </div>` : html`<p class="note">${reading ? t('list.loading') : t('tracing.none')}</p>${!reading && html`<${Whole} session=${session} />`}`}
  </div>`;
}

/** What was reported of the session as a whole. @param {{session: any}} props */
function Whole({ session }) {
  return html`<section class="detail"><p class="soft">${session.totalEvents > 0 && t('trace.choose')}</p>
    ${session.errors !== undefined && html`<div><h3>${t('tracing.errors')}</h3><${Json} value=${session.errors} label=${t('tracing.errors')} /></div>`}
    ${session.config !== undefined && html`<div><h3>${t('tracing.config')}</h3><${Json} value=${session.config} label=${t('tracing.config')} /></div>`}
  </section>`;
}

/** A way to the session of this server that a thread is. @param {{thread: string}} props */
export function Conversation({ thread }) {
  return html`<a class="button" id="conversation" href=${`/dashboard/sessions/${encodeURIComponent(thread)}`} data-link>${t('tracing.conversation')}</a>`;
}
