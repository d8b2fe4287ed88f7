// How other agents find this one: its A2A card.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { copy } from '../components/cells.js';
import { Failure, errorText } from '../components/failure.js';
import { Icon } from '../components/icon.js';
import { Json } from '../components/json.js';
import { t } from '../messages.js';
import { useRead } from '../store.js';

/** @param {{path: string, may: boolean, draft: any, agent: any, reload: () => void}} props */
export function Card({ path, may, draft, agent, reload }) {
  const enabled = Boolean(draft?.metadata?.a2a?.enabled);
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const set = async (/** @type {boolean} */ on) => {
    setBusy(true);
    setFailed('');
    try {
      await api.patch(path, { metadata: { ...draft.metadata, a2a: { accessMode: 'token', ...draft.metadata?.a2a, enabled: on } } });
      reload();
    } catch (error) { setFailed(errorText(error)); }
    setBusy(false);
  };
  return html`<div class="agent-card"><p class="soft">${t('agent.a2a.about')}</p>
    ${draft && html`<label class="tick"><input type="checkbox" id="expose" checked=${enabled} disabled=${busy || !may} onChange=${(/** @type {any} */ event) => set(event.target.checked)} />${t('agent.a2a.expose')}</label>`}
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${enabled && agent.status !== 'active' && html`<p class="warn">${t('agent.a2a.inactive')}</p>`}
    ${enabled && agent.status === 'active' && html`<${Shown} agent=${agent.key} key=${draft?.updatedAt} />`}</div>`;
}

/** @param {{agent: string}} props */
function Shown({ agent }) {
  const read = useRead((signal) => api.get(`/a2a/${encodeURIComponent(agent)}/.well-known/agent-card.json`, {}, { signal }), [agent]);
  if (read.error) return html`<${Failure} error=${read.error} retry=${read.reload} />`;
  if (!read.value) return html`<p class="note">${t('list.loading')}</p>`;
  const at = `${read.value.url}/.well-known/agent-card.json`;
  return html`<${Line} label=${t('agent.a2a.card')} text=${at} /><${Line} label=${t('agent.a2a.endpoint')} text=${read.value.url} />
    <${Line} label=${t('curl.label')} text=${`curl -H "Authorization: Bearer $TOKEN" ${at}`} />
    <h2>${t('agent.a2a.json')}</h2><${Json} value=${read.value} label=${t('agent.a2a.json')} open=${3} />`;
}

/** @param {{label: string, text: string}} props */
function Line({ label, text }) {
  return html`<div class="copy-line"><span class="faint">${label}</span><code>${text}</code><button class="tiny" aria-label=${`${t('do.copy')}: ${label}`} onClick=${() => copy(text)}><${Icon} name="copy" /></button></div>`;
}
