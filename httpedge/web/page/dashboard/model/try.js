// Call a model: a few words, a text that is spoken and heard, or a recording that is written down.

import { html, useEffect, useMemo, useState } from '../lib.js';
import { api } from '../api.js';
import { Money, Status } from '../components/cells.js';
import { Form } from '../components/form.js';
import { bytes, duration, number } from '../format.js';
import { t } from '../messages.js';

/** The largest recording: the server takes a little more than what it comes to in base64. */
const largest = 2_000_000;

/** Formats of speech that browsers play. */
const formats = ['mp3', 'opus', 'aac', 'flac', 'wav'];

/** What is chosen for a call, by category. @returns {Record<string, import('../components/form.js').Schema>} */
const schemas = () => ({
  tts: { properties: {
    input: { title: t('models.try.input'), format: 'multiline', maxLength: 500 },
    voice: { title: t('models.try.voice'), description: t('models.try.voice.about'), maxLength: 100 },
    response_format: { title: t('models.try.format'), enum: formats },
  }, required: ['input', 'response_format'] },
  stt: { properties: {
    audio: { title: t('models.try.recording'), format: 'file', accept: 'audio/*', description: t('models.try.recording.about', { size: bytes(largest) }),
      check: (/** @type {File} */ file) => (file.size > largest ? t('models.try.recording.large', { size: bytes(file.size), most: bytes(largest) }) : file.size ? '' : t('models.try.recording.empty')) },
  }, required: ['audio'] },
});

/** @param {File} file @returns {Promise<string>} its bytes in base64 */
const encoded = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(String(reader.result).split(',')[1]);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

/** @param {{path: string, category: string}} props */
export function Try({ path, category }) {
  const [outcome, setOutcome] = useState(/** @type {any} */ (null));
  const schema = useMemo(() => schemas()[category] || { properties: {} }, [category]);
  const call = async (/** @type {any} */ { audio, ...body }) => {
    setOutcome(null);
    if (audio) body.audio = { data: await encoded(audio), fileName: audio.name, contentType: audio.type };
    setOutcome({ ...await api.post(`${path}/test`, body), spoken: body.input });
    return false; // what was written stays
  };
  return html`<section class="try" id="try"><${Form} submit=${t('models.try')} schema=${schema} value=${{ response_format: 'mp3' }} onSubmit=${call} extra=${html`<span class="faint">${t('models.try.about')}</span>`} />
    ${outcome && html`<div class="outcome" role="status" data-outcome=${outcome.ok ? 'ok' : 'error'}><p class="facts"><${Status} value=${outcome.ok ? 'succeeded' : 'failed'} word=${outcome.ok ? t('models.try.ok') : t('models.try.failed')} />
        <span class="number">${duration(outcome.latency_ms)}</span>
        ${outcome.ok && !schema.required && html`<span class="number">${t('models.try.tokens', { input: number(outcome.input_tokens), output: number(outcome.output_tokens) })}</span>`}
        ${outcome.ok ? outcome.cost_usd === null ? html`<span class="faint">${t('models.try.unpriced')}</span>` : html`<${Money} usd=${outcome.cost_usd} digits=${6} />` : html`<code>${outcome.error.code}${outcome.error.status ? ` · ${outcome.error.status}` : ''}</code>`}
        ${outcome.audio && html`<span>${outcome.text}</span>`}</p>
      ${outcome.audio ? html`<${Sound} audio=${outcome.audio} text=${outcome.spoken} />` : (outcome.text || outcome.error) && html`<pre tabindex="0">${outcome.ok ? outcome.text : outcome.error.message}</pre>`}</div>`}</section>`;
}

/** Speech beside the text that is spoken. @param {{audio: {content_type: string, data: string}, text: string}} props */
function Sound({ audio, text }) {
  const url = useMemo(() => URL.createObjectURL(new Blob([Uint8Array.from(atob(audio.data), (one) => one.charCodeAt(0))], { type: audio.content_type })), [audio]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return html`<blockquote>${text}</blockquote><div class="row"><audio controls src=${url} aria-label=${t('models.try.speech')}></audio>
    <a href=${url} download=${`speech.${/\w+$/.exec(audio.content_type.split(';')[0])}`}>${t('models.try.download')}</a></div>`;
}
