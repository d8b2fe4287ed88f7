// The form of an agent. Before something is saved, it says what would differ from what is published.

import { html, useState } from '../lib.js';
import { api } from '../api.js';
import { Dialog, unchanged } from '../components/dialog.js';
import { Form } from '../components/form.js';
import { toast } from '../components/toast.js';
import { t } from '../messages.js';
import { useGuardrails } from '../model/guardrails.js';
import { Diff } from './diff.js';
import { besideField, differences, draftOf, fields, published, shown } from './fields.js';

/** @param {{path: string, draft: any, current: any, models: any[], may: boolean, saved: () => void}} props current: what is published, null = nothing */
export function Editor({ path, draft, current, models, may, saved }) {
  const [review, setReview] = useState(/** @type {any} */ (null));
  const guardrails = useGuardrails();
  const connected = draft.config.kind === 'external';
  const known = models.some((one) => one.key === draft.config.modelKey) || connected ? models : [...models, { key: draft.config.modelKey, name: draft.config.modelKey }];
  const save = async (/** @type {any} */ value) => {
    const sent = draftOf(draft, value);
    // The dialog answers; a refusal goes on to the form, which shows it beside its field.
    const agreed = await new Promise((resolve) => setReview({ sent, resolve }));
    setReview(null);
    if (!agreed || !await unchanged(draft.updatedAt, () => api.get(`${path}/draft`).then((answer) => answer.agent.updatedAt))) return false;
    await api.patch(path, sent).catch((error) => { throw besideField(error); });
    toast(t('agent.saved'));
    saved();
    return true;
  };
  return html`<${Form} schema=${fields(connected, known, Boolean(draft.config.connection?.hasApiKey), guardrails, draft.config)} value=${shown(draft)} keep=${`${path} ${draft.updatedAt}`} submit=${may && t('agent.review')} onSubmit=${save} />
    ${review && html`<${Review} draft=${draft} current=${current} sent=${review.sent} end=${review.resolve} />`}`;
}

/** @param {{draft: any, current: any, sent: any, end: (agreed: boolean) => void}} props */
function Review({ draft, current, sent, end }) {
  const next = published({ ...sent, config: masked(sent.config) });
  const changes = differences(current ? published(current) : published(draft), { ...next, config: { ...next.config, ...(draft.config.connection && kept(draft, next)) } });
  const beside = differences({ status: draft.status, metadata: draft.metadata || {} }, { status: sent.status ?? draft.status, metadata: sent.metadata });
  const all = [...changes, ...beside];
  return html`<${Dialog} wide title=${t(current ? 'agent.review.published' : 'agent.review.draft')} onClose=${() => end(false)}>
    <${Diff} changes=${all} />
    <footer><button class="button" onClick=${() => end(false)}>${t('do.cancel')}</button><button class="primary" id="save-draft" onClick=${() => end(true)}>${t('agent.save')}</button></footer><//>`;
}

/** What the server adds to a connection that it shows. @param {any} draft @param {any} next */
const kept = (draft, next) => ({ connection: { ...next.config.connection, hasApiKey: Boolean(next.config.connection.apiKey) || draft.config.connection.hasApiKey } });

/** What the server shows in place of a header's value. */
const mask = '********';

/** @param {any} at something with headers */
const hidden = (at) => (at?.headers && typeof at.headers === 'object' ? {
  ...at, headers: Object.fromEntries(Object.entries(at.headers).map(([name, value]) => [name, value === mask ? mask : t('agent.secret')])),
} : at);

/** A secret is not shown again, not even here. @param {any} config */
function masked(config) {
  const shown = { ...config };
  for (const list of ['tools', 'mcpServers']) if (Array.isArray(shown[list])) shown[list] = shown[list].map(hidden);
  if (shown.connection) shown.connection = { ...hidden(shown.connection), ...(shown.connection.apiKey && { apiKey: t('agent.secret') }) };
  return shown;
}
