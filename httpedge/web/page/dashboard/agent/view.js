// One agent: head, views, what can be done.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { confirm, Dialog } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Tabs } from '../components/panes.js';
import { toast } from '../components/toast.js';
import { useKeys } from '../keys.js';
import { t } from '../messages.js';
import { useActions } from '../palette.js';
import { go } from '../router.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';
import { Card } from './card.js';
import { Diff } from './diff.js';
import { Editor } from './editor.js';
import { differences, published } from './fields.js';
import { Playground } from './playground.js';
import { Tools } from './tools.js';
import { Versions } from './versions.js';
import { useMay } from '../who.js';

const views = ['edit', 'tools', 'versions', 'a2a'];

/** @param {{id: string, address: any, models: any[], changed: () => void}} props */
export function Agent({ id, address, models, changed }) {
  const path = `/agents/${encodeURIComponent(id)}`;
  const read = useRead(async (signal) => {
    const summary = (await api.get(path, {}, { signal })).agent;
    // An agent of the server's configuration has neither draft nor versions.
    const draft = await api.get(`${path}/draft`, {}, { signal }).then((answer) => answer.agent, (error) => { if (error.status === 404) return null; throw error; });
    const listed = draft && await api.get(`${path}/versions`, { limit: 50 }, { signal });
    return { summary, draft, versions: listed?.versions || [], published: listed?.publishedVersion ?? null };
  }, [id]);
  if (read.error && !read.value) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!read.value) return html`<p class="note" aria-busy="true">${t('list.loading')}</p>`;
  return html`<${Open} path=${path} known=${read.value} address=${address} models=${models} reload=${() => { read.reload(); changed(); }} changed=${changed} />`;
}

/** @param {{path: string, known: any, address: any, models: any[], reload: () => void, changed: () => void}} props */
function Open({ path, known, address, models, reload, changed }) {
  const { summary, draft, versions } = known;
  const [publishing, setPublishing] = useState(false);
  const [playing, setPlaying] = useState(false);
  const may = useMay('agents', 'write');
  const base = `/dashboard${path}`;
  const view = views.includes(address.query.get('view')) ? address.query.get('view') : 'edit';
  const agent = draft || summary;
  const current = versions.find((/** @type {any} */ one) => one.version === known.published)?.snapshot || null;
  const changes = draft ? differences(current ? published(current) : {}, published(draft)) : [];
  const kept = address.query.get('status') ? `status=${address.query.get('status')}` : '';
  const href = (/** @type {string} */ key) => { const query = [kept, key === 'edit' ? '' : `view=${key}`].filter(Boolean).join('&'); return base + (query ? `?${query}` : ''); };
  usePlace(agent.name);
  const back = `/dashboard/agents${kept ? `?${kept}` : ''}`;
  // Who writes leaves the field first.
  useKeys({ Escape: () => { const at = /** @type {HTMLElement} */ (document.activeElement); if (at.matches('input, textarea, select')) at.blur(); else go(back); } });
  useActions(() => views.map((one) => ({ label: t(`agent.view.${one}`), kind: t('palette.action'), act: () => go(href(one)) })));
  useEffect(() => { if (view !== 'edit') setPlaying(false); }, [view]);
  const remove = async () => {
    const done = await confirm({ title: t('agent.delete'), text: t('agent.delete.text', { name: agent.name }), yes: t('agent.delete'), act: () => api.remove(path) });
    if (done) { changed(); go(back); }
  };
  return html`<div class="agent" data-ready="true" data-playing=${playing}>
    <header class="session-head"><div><h1>${agent.name}</h1>
      <p class="facts"><${Status} value=${agent.status} word=${t(`agents.status.${agent.status}`)} />
        <span>${known.published ? t('agent.published', { n: known.published }) : t(draft ? 'agent.unpublished' : 'agent.configured')}</span>
        ${known.published && changes.length > 0 && html`<span class="warn" id="unpublished">${t('agent.ahead', { n: changes.length })}</span>`}
        <code>${agent.key}</code></p></div>
      <div class="do">${may && view === 'edit' && html`<button class="button play-toggle" id="play" aria-pressed=${playing} onClick=${() => setPlaying(!playing)}>${t('agent.play')}</button>`}
        <a class="button no-phone" href=${`/dashboard/sessions?agent=${encodeURIComponent(agent.key)}`} data-link>${t('nav.sessions')}</a>
        ${draft && may && html`<button class="button" id="publish" onClick=${() => setPublishing(true)}>${t('agent.publish')}</button>
        <button class="button" id="delete" onClick=${remove}>${t('agent.delete')}</button>`}</div></header>
    <${Tabs} label=${t('agent.views')} open=${view} href=${href} tabs=${views.map((key) => ({ key, title: t(`agent.view.${key}`), count: key === 'versions' ? versions.length : 0 }))} />
    ${view === 'edit' && html`<div class="agent-edit"><div class="agent-form">${draft ? html`<${Editor} key=${draft.updatedAt} path=${path} draft=${draft} current=${current} models=${models} may=${may} saved=${reload} />`
      : html`<p class="note">${t('agent.configured.about')}</p>`}</div>
      ${may && html`<${Playground} agent=${agent.key} status=${agent.status} version=${known.published} ahead=${changes.length > 0} key=${known.published} />`}</div>`}
    ${view === 'tools' && html`<${Tools} path=${path} may=${may} key=${draft?.updatedAt} />`}
    ${view === 'versions' && html`<${Versions} path=${path} may=${may} draft=${draft} versions=${versions} published=${known.published} reload=${reload} />`}
    ${view === 'a2a' && html`<${Card} path=${path} may=${may} draft=${draft} agent=${agent} reload=${reload} />`}
    ${publishing && html`<${Dialog} wide title=${t('agent.publish.title', { name: agent.name })} onClose=${() => setPublishing(false)}>
      <p class="soft">${t(current ? 'agent.publish.text' : 'agent.publish.first', { n: summary.latestVersion + 1 })}</p><${Diff} changes=${changes} />
      <${Form} submit=${t('agent.publish')} schema=${{ properties: { changelog: { title: t('agent.changelog') } } }} onSubmit=${async (/** @type {any} */ value) => {
        const { version } = await api.post(`${path}/publish`, value);
        setPublishing(false);
        toast(t('agent.published.done', { n: version.version }));
        reload();
      }} /><//>`}
  </div>`;
}
