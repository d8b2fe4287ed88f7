// The tools of an agent's draft, as they are described to the model; each can be called once with arguments of one's own. Then those that
// it does not get.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Status } from '../components/cells.js';
import { confirm } from '../components/dialog.js';
import { Failure } from '../components/failure.js';
import { Form } from '../components/form.js';
import { Json } from '../components/json.js';
import { duration } from '../format.js';
import { t } from '../messages.js';
import { useRead } from '../store.js';

/** @param {{path: string, may: boolean}} props */
export function Tools({ path, may }) {
  const read = useRead((signal) => api.get(`${path}/tools`, {}, { signal }), [path]);
  if (read.error) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!read.value) return html`<p class="note" aria-busy="true">${t('agent.tools.asking')}</p>`;
  const { tools, dropped } = read.value;
  if (!tools.length && !dropped.length) return html`<p class="note">${t('agent.tools.none')}</p>`;
  return html`<div class="agent-tools">
    <ul>${tools.map((/** @type {any} */ tool) => html`<li key=${tool.name}><${One} path=${path} may=${may} tool=${tool} /></li>`)}</ul>
    ${dropped.length > 0 && html`<section id="dropped"><h2>${t('agent.dropped')}</h2><p class="soft">${t('agent.dropped.about')}</p>
      <ul>${dropped.map((/** @type {any} */ one) => html`<li><strong>${one.name || t('agent.dropped.all')}</strong>
        ${one.server && html`<span class="soft">${t('agent.dropped.server', { server: one.server })}</span>`}<span class="warn">${one.reason}</span></li>`)}</ul></section>`}
  </div>`;
}

/** A form of the arguments: what is no plain value is written as JSON. @param {any} schema */
function formOf(schema) {
  const named = Object.entries(schema?.properties || {}).slice(0, 40);
  return {
    required: Array.isArray(schema?.required) ? schema.required : [],
    properties: Object.fromEntries(named.map(([name, one]) => {
      const type = Array.isArray(one?.type) ? one.type.find((/** @type {string} */ kind) => kind !== 'null') : one?.type;
      const plain = ['string', 'integer', 'number', 'boolean'].includes(type);
      return [name, { title: name, description: one?.description, type: plain ? type : 'object', enum: one?.enum, minimum: one?.minimum, maximum: one?.maximum }];
    })),
  };
}

/** @param {{path: string, may: boolean, tool: any}} props */
function One({ path, may, tool }) {
  const [open, setOpen] = useState(false);
  const [outcome, setOutcome] = useState(/** @type {any} */ (null));
  const call = async (/** @type {any} */ args) => {
    setOutcome(null);
    const ask = (/** @type {boolean} */ approved) => api.post(`${path}/tools/test`, { tool: tool.name, args, approved });
    let said = await ask(false);
    if (said.outcome === 'needs_approval') {
      const agreed = await confirm({ title: t('agent.try.approve'), text: t('agent.try.approve.text', { tool: tool.name }), yes: t('agent.try.do'), danger: false });
      if (!agreed) return;
      said = await ask(true);
    }
    setOutcome(said);
  };
  return html`<details class="agent-tool" data-tool=${tool.name} open=${open} onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}>
    <summary><strong>${tool.name}</strong><span class="soft">${tool.description}</span>
      <small class="faint">${t(`agent.kind.${tool.kind}`)}${tool.kind === 'run' && tool.approval !== 'never' ? ` · ${t(`agent.approval.${tool.approval}`)}` : ''}</small></summary>
    ${open && html`<div class="agent-try">
      <div><h2>${t('agent.schema')}</h2><${Json} value=${tool.input_schema} label=${t('agent.schema')} /></div>
      ${!may ? '' : tool.kind === 'run' ? html`<div><h2>${t('agent.try')}</h2><p class="faint">${t('agent.try.about')}</p>
        <${Form} schema=${formOf(tool.input_schema)} submit=${t('agent.try.do')} onSubmit=${call} />
        ${outcome && html`<${Outcome} outcome=${outcome} />`}</div>` : html`<p class="soft">${t('agent.try.not')}</p>`}</div>`}
  </details>`;
}

/** @param {{outcome: any}} props */
function Outcome({ outcome }) {
  const good = outcome.outcome === 'ok';
  return html`<div class="outcome" role="status" data-outcome=${outcome.outcome}><p class="facts"><${Status} value=${good ? 'succeeded' : 'failed'} word=${t(`agent.outcome.${outcome.outcome}`)} /><span class="number">${duration(outcome.latency_ms)}</span></p>
    <pre tabindex="0">${good ? outcome.result : outcome.error}</pre></div>`;
}
