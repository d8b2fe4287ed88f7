// What an endpoint was told: attempts with heads, one delivery sent again, and all that failed within a span of time.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { Dialog } from '../components/dialog.js';
import { errorText } from '../components/failure.js';
import { Json } from '../components/json.js';
import { Table, usePages } from '../components/table.js';
import { toast } from '../components/toast.js';
import { duration, exact, number } from '../format.js';
import { t } from '../messages.js';
import { setQuery } from '../router.js';

const size = 50;
/** How often what waits is looked at again, in milliseconds. */
const pause = 2000;

/** @param {{endpoint: any, address: any, readOnly: boolean}} props */
export function Deliveries({ endpoint, address, readOnly }) {
  const status = address.query.get('status') || '';
  const open = address.query.get('delivery') || '';
  const [again, setAgain] = useState(false);
  const path = `/webhooks/${encodeURIComponent(endpoint.id)}`;
  const pages = usePages(async (cursor, signal) => {
    const skip = Number(cursor || 0);
    const list = await api.get(`${path}/deliveries`, { status, limit: size, skip }, { signal });
    return { rows: list.deliveries, next: list.hasMore && skip + size <= 10_000 ? String(skip + size) : null };
  }, [status]);
  const waiting = pages.rows.some((row) => row.status === 'pending');
  const fresh = async () => {
    const list = await api.get(`${path}/deliveries`, { status, limit: size }).catch(() => null);
    if (!list) return;
    const known = new Map(list.deliveries.map((/** @type {any} */ row) => [row.id, row]));
    pages.change((rows) => {
      const here = new Set(rows.map((row) => row.id));
      return [...list.deliveries.filter((/** @type {any} */ row) => !here.has(row.id)), ...rows.map((row) => known.get(row.id) || row)];
    });
  };
  useEffect(() => {
    if (!waiting) return undefined;
    const timer = setInterval(() => { if (!document.hidden) fresh(); }, pause);
    return () => clearInterval(timer);
  }, [waiting, status]);
  const redeliver = async (/** @type {any} */ row) => {
    try {
      const { delivery } = await api.post(`/webhooks/deliveries/${encodeURIComponent(row.id)}/redeliver`);
      pages.change((rows) => rows.map((one) => (one.id === row.id ? delivery : one)));
      toast(t('webhooks.again.done', { n: 1 }));
    } catch (error) { toast(/** @type {Error} */ (error)); }
  };
  const columns = [
    { key: 'event', title: t('webhooks.event'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<code>${row.eventType}</code>` },
    { key: 'status', title: t('sessions.status'), cell: (/** @type {any} */ row) => html`<${Status} value=${row.status} />` },
    { key: 'code', title: t('webhooks.answer'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => row.lastStatusCode ?? '–' },
    { key: 'attempts', title: t('webhooks.attempts'), kind: /** @type {const} */ ('number'), phone: false, cell: (/** @type {any} */ row) => number(row.attempts) },
    { key: 'at', title: t('webhooks.at'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.createdAt} />` },
  ];
  const shown = open && pages.rows.find((row) => row.id === open);
  const query = (/** @type {string} */ id) => `?${new URLSearchParams({ ...(status && { status }), delivery: id })}`;
  return html`<div class="deliveries">
    <div class="filters"><h2 class="grow">${t('webhooks.deliveries')}</h2>
      <select id="delivery-status" aria-label=${t('sessions.status')} value=${status} onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value, delivery: null })}>
        <option value="">${t('webhooks.any')}</option>${['pending', 'delivered', 'failed'].map((one) => html`<option key=${one} value=${one}>${t(`state.${one}`)}</option>`)}</select>
      <button class="tiny" id="refresh" onClick=${fresh}>${t('webhooks.refresh')}</button>
      ${!readOnly && html`<button class="button" id="redeliver-failed" disabled=${endpoint.status !== 'active'} onClick=${() => setAgain(true)}>${t('webhooks.again.all')}</button>`}</div>
    ${shown && html`<${Delivery} delivery=${shown} endpoint=${endpoint} readOnly=${readOnly} redeliver=${() => redeliver(shown)} />`}
    <${Table} label=${t('webhooks.deliveries')} columns=${columns} rows=${pages.rows} selected=${open} href=${(/** @type {any} */ row) => `/dashboard/webhooks/${endpoint.id}${query(row.id)}`}
      loading=${pages.loading} error=${pages.error} retry=${pages.reload} more=${Boolean(pages.next)} onMore=${pages.more}
      empty=${html`<p class="note">${t(status ? 'list.none' : 'webhooks.none')}</p>`} />
    ${again && html`<${Again} path=${path} name=${endpoint.description || endpoint.url} close=${() => { setAgain(false); pages.reload(); }} />`}
  </div>`;
}

/** @param {{delivery: any, endpoint: any, readOnly: boolean, redeliver: () => void}} props */
function Delivery({ delivery, endpoint, readOnly, redeliver }) {
  const head = [`POST ${endpoint.url}`, 'Content-Type: application/json', 'User-Agent: service-webhooks/1.0', `X-Service-Event: ${delivery.eventType}`,
    `X-Service-Event-Id: ${delivery.eventId}`, `Webhook-Id: ${delivery.eventId}`, `Webhook-Signature: ${t('webhooks.head.signature')}`].join('\n');
  return html`<div class="delivery" data-delivery=${delivery.id}>
    <header><h3><code>${delivery.eventType}</code> <${Status} value=${delivery.status} /></h3>
      <div class="do">${!readOnly && html`<button class="button" id="redeliver" disabled=${delivery.status === 'pending' || endpoint.status !== 'active'} onClick=${redeliver}>${t('webhooks.again')}</button>`}
      <button class="quiet" aria-label=${t('do.close')} onClick=${() => setQuery({ delivery: null })}>×</button></div></header>
    <p class="facts"><span>${t('webhooks.attempt.n', { n: delivery.attempts })}</span>
      ${delivery.nextAttemptAt && html`<span>${t('webhooks.next')} <${Time} at=${delivery.nextAttemptAt} /></span>`}
      ${delivery.deliveredAt && html`<span title=${exact(delivery.deliveredAt)}>${t('webhooks.delivered')} <${Time} at=${delivery.deliveredAt} /></span>`}<${ID} id=${delivery.id} /></p>
    <div class="heads"><div><h4>${t('webhooks.head.request')}</h4><pre tabindex="0">${head}</pre></div>
      <div><h4>${t('webhooks.head.response')}</h4><pre tabindex="0" data-bad=${delivery.status === 'failed'}>${delivery.lastResponseHead || (delivery.lastStatusCode ? `HTTP ${delivery.lastStatusCode}` : t('webhooks.head.none'))}${delivery.lastDurationMs !== null ? `\n${duration(delivery.lastDurationMs)}` : ''}${delivery.lastError ? `\n${delivery.lastError}` : ''}</pre></div></div>
    <${Json} value=${delivery.payload} label=${t('webhooks.payload')} /></div>`;
}

/** The time as a control of the page writes it: local, to the minute. @param {number} at */
const local = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

/** @param {{path: string, name: string, close: () => void}} props */
function Again({ path, name, close }) {
  const [from, setFrom] = useState(() => local(Date.now() - 24 * 3_600_000));
  const [to, setTo] = useState('');
  const [found, setFound] = useState(/** @type {{redelivered: number, hasMore: boolean, to: string}|null} */ (null));
  const [failed, setFailed] = useState('');
  const [sent, setSent] = useState(-1);
  const [busy, setBusy] = useState(false);
  const iso = (/** @type {string} */ text) => (text ? new Date(text).toISOString() : undefined);
  useEffect(() => {
    let here = true;
    setFound(null);
    setFailed('');
    api.post(`${path}/redeliver`, { from: iso(from), to: iso(to), dryRun: true }).then((answer) => { if (here) setFound(answer); }, (error) => { if (here) setFailed(errorText(error)); });
    return () => { here = false; };
  }, [from, to]);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!found) return;
    setBusy(true);
    setFailed('');
    let done = Math.max(sent, 0);
    let before = null;
    try {
      // The same span to its end, however often it takes: what fails anew lies behind it.
      for (let answer = null; !answer || (answer.hasMore && answer.nextCursor !== before);) {
        before = answer?.nextCursor ?? null;
        answer = await api.post(`${path}/redeliver`, { from: iso(from), to: found.to, ...(before && { cursor: before }) });
        done += answer.redelivered;
        setSent(done);
      }
      toast(t('webhooks.again.done', { n: done }));
      close();
    } catch (error) { setFailed(errorText(error)); }
    setBusy(false);
  };
  const count = found ? `${number(found.redelivered)}${found.hasMore ? '+' : ''}` : '…';
  return html`<${Dialog} title=${t('webhooks.again.all')} onClose=${close}>
    <form class="form" onSubmit=${send}>
      <div class="spans"><div class="field"><label for="again-from">${t('webhooks.from')}</label><input id="again-from" type="datetime-local" value=${from} onInput=${(/** @type {any} */ event) => setFrom(event.target.value)} /></div>
        <div class="field"><label for="again-to">${t('webhooks.to')}</label><input id="again-to" type="datetime-local" value=${to} onInput=${(/** @type {any} */ event) => setTo(event.target.value)} /></div></div>
      <p id="again-count" aria-live="polite" data-count=${found?.redelivered ?? ''}>${t('webhooks.again.text', { n: count, name })}</p>
      ${sent >= 0 && html`<p role="status">${t('webhooks.again.done', { n: sent })}</p>`}
      ${failed && html`<p class="bad" role="alert">${failed}</p>`}
      <div class="form-end"><button class="primary" id="again-yes" disabled=${busy || !found?.redelivered}>${t('webhooks.again.do', { n: count })}</button>
        <button type="button" class="button" onClick=${close}>${t('do.cancel')}</button></div>
    </form><//>`;
}
