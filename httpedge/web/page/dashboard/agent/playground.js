// Beside the editor: a session with the agent.

import { html, useEffect, useState } from '../lib.js';
import { api } from '../api.js';
import { errorText } from '../components/failure.js';
import { t } from '../messages.js';
import { Conversation } from '../session/conversation.js';
import { SessionLog } from '../session/log.js';
import { useStore } from '../store.js';

/** @param {{agent: string, status: string, version: number|null, ahead: boolean}} props */
export function Playground({ agent, status, version, ahead }) {
  const [log, setLog] = useState(/** @type {SessionLog|null} */ (null));
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => () => log?.close(), [log]);
  const begin = async () => {
    if (busy) return;
    setBusy(true);
    setFailed('');
    try {
      const made = await api.post('/agents/sessions', { agent });
      setLog(new SessionLog(made.id));
    } catch (error) { setFailed(errorText(error)); }
    setBusy(false);
  };
  return html`<section class="playground" aria-label=${t('agent.playground')}>
    <header><h2>${t('agent.playground')}</h2>
      ${log && html`<a class="tiny" href=${`/dashboard/sessions/${log.id}`} data-link>${t('agent.play.open')}</a>
        <button class="tiny" id="play-again" onClick=${begin} disabled=${busy}>${t('agent.play.again')}</button>`}
      <a class="tiny" href="/">${t('agent.play.page')}</a></header>
    <p class="faint">${version ? t(ahead ? 'agent.play.behind' : 'agent.play.version', { n: version }) : t('agent.play.draft')}</p>
    ${failed && html`<p class="bad" role="alert">${failed}</p>`}
    ${log ? html`<${Talk} key=${log.id} log=${log} />` : html`<div class="play-begin"><p class="soft">${status === 'active' ? t('agent.play.about') : t('agent.play.inactive')}</p>
      <button class="primary" id="play-begin" disabled=${busy || status !== 'active'} onClick=${begin}>${t('agent.play.begin')}</button></div>`}
  </section>`;
}

/** @param {{log: SessionLog}} props */
function Talk({ log }) {
  const session = useStore(log.session);
  const error = useStore(log.error);
  useStore(log.ready);
  if (error && !session) return html`<p class="bad" role="alert">${errorText(error)}</p>`;
  if (!session) return html`<p class="note">${t('list.loading')}</p>`;
  return html`<${Conversation} log=${log} session=${session} />`;
}
