// The audit trail: who did what, with the records before and after.

import { html } from '../lib.js';
import { api, linkURL } from '../api.js';
import { ID, Status, Time, useSettled } from '../components/cells.js';
import { Json } from '../components/json.js';
import { Panes } from '../components/panes.js';
import { Table, usePages } from '../components/table.js';
import { exact } from '../format.js';
import { known, t } from '../messages.js';
import { go, setQuery } from '../router.js';
import { useRead } from '../store.js';

const names = ['outcome', 'method', 'service', 'actorUserId', 'resourceId', 'from', 'to'];
const tones = /** @type {Record<string, string>} */ ({ success: 'succeeded', failure: 'failed', denied: 'disabled', unknown: 'queued' });

/** @param {{address: any}} props */
export default function Audit({ address }) {
  const { query } = address;
  const chosen = Object.fromEntries(names.map((name) => [name, query.get(name) || '']));
  const asked = { ...chosen, from: chosen.from && `${chosen.from}T00:00:00Z`, to: chosen.to && new Date(Date.parse(`${chosen.to}T00:00:00Z`) + 86_400_000).toISOString() };
  const open = query.get('row') || null;
  const users = useRead((signal) => api.get('/users', { limit: 500 }, { signal }).then((answer) => answer.users, () => []), []);
  const services = useRead((signal) => api.get('/members/permissions/services', {}, { signal }).then((answer) => answer.services, () => []), []);
  const pages = usePages(async (cursor, signal) => {
    let next = cursor;
    // With a filter that few rows pass a page may be empty, and have more all the same.
    for (let tries = 0; ; tries++) {
      const list = await api.get('/audit/logs', { ...asked, limit: 50, after: next }, { signal });
      next = list.hasMore ? list.nextCursor : null;
      if (list.logs.length || !next || tries >= 20) return { rows: list.logs, next };
    }
  }, names.map((name) => chosen[name]));
  const [resource, setResource] = useSettled(chosen.resourceId, (to) => setQuery({ resourceId: to }, { replace: true }));
  const nameOf = (/** @type {any} */ row) => row.actorEmail || users.value?.find((/** @type {any} */ one) => one.id === row.actorUserId)?.name || row.actorUserId || t(`audit.actor.${row.actorType}`);
  const columns = [
    { key: 'event', title: t('audit.event'), kind: /** @type {const} */ ('wide'), cell: (/** @type {any} */ row) => html`<code>${row.event.replace('/api/console/v1', '')}</code>` },
    { key: 'outcome', title: t('audit.outcome'), cell: (/** @type {any} */ row) => html`<${Status} value=${tones[row.outcome]} word=${t(`audit.${row.outcome}`)} />` },
    ...(open ? [] : [
      { key: 'actor', title: t('audit.actor'), phone: false, cell: nameOf },
      { key: 'resource', title: t('audit.resource'), phone: false, cell: (/** @type {any} */ row) => (row.resourceId ? html`<${ID} id=${row.resourceId} />` : row.resourceType || '–') },
      { key: 'at', title: t('audit.at'), kind: /** @type {const} */ ('number'), cell: (/** @type {any} */ row) => html`<${Time} at=${row.createdAt} />` },
    ]),
  ];
  const filtered = names.some((name) => chosen[name]);
  const choose = (/** @type {string} */ name, /** @type {string} */ any, /** @type {[string, string][]} */ options) => html`<select id=${`audit-${name}`} aria-label=${any} value=${chosen[name]} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.target.value, row: null })}>
    <option value="">${any}</option>${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select>`;
  const href = (/** @type {any} */ row) => { const to = new URLSearchParams(query); to.set('row', row.id); return `/dashboard/audit?${to}`; };
  const back = () => { const to = new URLSearchParams(query); to.delete('row'); return `/dashboard/audit${to.size ? `?${to}` : ''}`; };
  const list = html`<h1 class="hidden">${t('nav.audit')}</h1><div class="filters" role="search">
      ${choose('outcome', t('audit.any.outcome'), ['success', 'failure', 'denied', 'unknown'].map((one) => [one, t(`audit.${one}`)]))}
      ${choose('method', t('audit.any.method'), ['POST', 'PUT', 'PATCH', 'DELETE', 'GET'].map((one) => [one, one]))}
      ${choose('service', t('audit.any.service'), (services.value || []).map((/** @type {any} */ one) => [one.id, one.label]))}
      ${choose('actorUserId', t('audit.any.actor'), (users.value || []).map((/** @type {any} */ one) => [one.id, one.name || one.email || one.id]))}
      <input type="search" id="audit-resource" aria-label=${t('audit.resource.id')} placeholder=${t('audit.resource.id')} value=${resource} onInput=${(/** @type {any} */ event) => setResource(event.target.value)} />
      <input type="date" id="audit-from" aria-label=${t('usage.from')} value=${chosen.from} onChange=${(/** @type {any} */ event) => setQuery({ from: event.target.value })} />
      <input type="date" id="audit-to" aria-label=${t('usage.to')} value=${chosen.to} onChange=${(/** @type {any} */ event) => setQuery({ to: event.target.value })} />
      ${filtered && html`<button class="tiny" onClick=${() => go(address.path)}>${t('do.clear')}</button>`}
      <a class="button" id="audit-export" href=${linkURL('/audit/logs/export', asked)} download="audit.jsonl">${t('audit.export')}</a></div>
    <${Table} label=${t('nav.audit')} columns=${columns} rows=${pages.rows} href=${href} selected=${open} loading=${pages.loading} error=${pages.error} retry=${pages.reload} more=${Boolean(pages.next)} onMore=${pages.more}
      empty=${html`<p class="note">${t(filtered ? 'list.none' : 'audit.empty')}</p>`} />`;
  const row = open && pages.rows.find((one) => one.id === open);
  return html`<${Panes} list=${list} back=${back()} thing=${open && (row ? html`<${Row} row=${row} actor=${nameOf(row)} />` : html`<p class="note">${t(pages.loading ? 'list.loading' : 'audit.notshown')}</p>`)} />`;
}

/** @param {{row: any, actor: string}} props */
function Row({ row, actor }) {
  const changes = row.metadata?.changes || [];
  const pair = (/** @type {string} */ name, /** @type {any} */ value) => value && html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<article class="thing" data-ready="true" aria-label=${row.event}>
    <header class="session-head"><div><h1>${row.event}</h1><p class="facts"><${Status} value=${tones[row.outcome]} word=${t(`audit.${row.outcome}`)} />${row.statusCode && html`<span>HTTP ${row.statusCode}</span>`}<${ID} id=${row.id} /></p></div></header>
    <dl class="pairs">${pair(t('audit.at'), exact(row.createdAt))}${pair(t('audit.actor'), html`${actor} <span class="faint">${row.actorRole && known(`role.${row.actorRole}`) ? t(`role.${row.actorRole}`) : ''}</span>`)}
      ${pair(t('audit.token'), row.apiTokenId && html`<${ID} id=${row.apiTokenId} />`)}${pair(t('audit.resource'), row.resourceId && html`${row.resourceType} <${ID} id=${row.resourceId} />`)}
      ${pair(t('audit.request'), html`<${ID} id=${row.requestId} />`)}${pair(t('audit.address'), row.ipAddress)}${pair(t('audit.path'), html`<code>${row.method} ${row.path}</code>`)}</dl>
    ${changes.map((/** @type {any} */ change, /** @type {number} */ i) => html`<section class="delivery" key=${i}><h2>${change.record} <${ID} id=${change.id} /></h2><div class="diff">
      <div><h3>${t('audit.before')}</h3>${change.before ? html`<${Json} value=${change.before} label=${t('audit.before')} />` : html`<p class="faint">${t('audit.nothing')}</p>`}</div>
      <div><h3>${t('audit.after')}</h3>${change.after ? html`<${Json} value=${change.after} label=${t('audit.after')} />` : html`<p class="faint">${t('audit.nothing')}</p>`}</div></div></section>`)}
  </article>`;
}
