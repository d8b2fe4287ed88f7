// One background task: what was asked, what was said about it, and what came of it.

import { html } from '../lib.js';
import { api } from '../api.js';
import { ID, Status, Time } from '../components/cells.js';
import { Icon } from '../components/icon.js';
import { Failure } from '../components/failure.js';
import { Value } from '../components/json.js';
import { t } from '../messages.js';
import { usePlace } from '../shell.js';
import { useRead } from '../store.js';

/** What a status of a task is among those of the console. @type {Record<string, string>} */
const states = { waiting_for_input: 'requires_action', completed: 'succeeded' };

/** @param {{params: any}} props */
export default function Task({ params }) {
  const read = useRead((signal) => api.get(`/tasks/${encodeURIComponent(params.id)}`, {}, { signal }), [params.id]);
  const task = read.value;
  usePlace(params.id);
  if (read.error && !task) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!task) return html`<p class="note" role="status">${t('list.loading')}</p>`;
  const section = (/** @type {string} */ title, /** @type {any} */ value) => value && html`<section class="delivery"><h2>${title}</h2><${Value} value=${value} label=${title} /></section>`;
  return html`<article class="thing" data-ready="true" aria-label=${params.id}>
    <a class="pane-back" href="/dashboard/runs" data-link><${Icon} name="back" /> ${t('do.back')}</a>
    <header class="session-head"><div><h1>${t('tasks.task')}</h1><p class="facts"><${Status} value=${states[task.status] || task.status} word=${task.status === 'waiting_for_input' ? t('tasks.waits') : ''} /><a href=${`/dashboard/agents/${encodeURIComponent(task.agent)}`} data-link>${task.agent}</a><${ID} id=${task.id} whole /></p></div>
      <div class="do"><button class="button" id="refresh" onClick=${read.reload}>${t('webhooks.refresh')}</button></div></header>
    <dl class="pairs">
      <div><dt>${t('runs.created')}</dt><dd><${Time} at=${task.created_at} /></dd></div>
      <div><dt>${t('runs.started')}</dt><dd><${Time} at=${task.started_at} /></dd></div>
      <div><dt>${t('runs.ended')}</dt><dd><${Time} at=${task.completed_at} /></dd></div>
      ${task.user && html`<div><dt>${t('tasks.user')}</dt><dd><${ID} id=${task.user} /></dd></div>`}
      ${task.error && html`<div><dt>${t('runs.error')}</dt><dd class="bad">${task.error}</dd></div>`}</dl>
    ${section(t('tasks.input'), task.input)}
    ${task.comments.map((/** @type {any} */ one) => html`<div key=${one.id}>${section(t(`tasks.comment.${one.role}`), one.content)}</div>`)}
    ${section(t('runs.result'), task.result)}
  </article>`;
}
