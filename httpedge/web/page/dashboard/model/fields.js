// The fields of a model's and a provider's form, and what is sent.

import { checkURL, railFields } from '../agent/fields.js';
import { t } from '../messages.js';

const categories = ['llm', 'embedding', 'rerank', 'stt', 'tts', 'ocr', 'moderation'];
const prices = ['inputTokenPer1M', 'outputTokenPer1M', 'cachedTokenPer1M', 'inputSecondPer1K', 'outputSecondPer1K', 'inputCharacterPer1M'];
/** The prices that calls of a category are counted by. Nothing is counted by the others; one that a model has all the same is shown. @type {Record<string, string[]>} */
const counted = { llm: prices.slice(0, 3), stt: ['inputTokenPer1M', 'outputTokenPer1M', 'inputSecondPer1K'], tts: ['inputCharacterPer1M', 'outputSecondPer1K'] };
const drivers = ['openai', 'openai-responses', 'openai-compatible', 'azure', 'anthropic', 'scripted'];

/** @param {any[]} providers @param {any[]} [guardrails] @param {any} [model] as it is @returns {import('../components/form.js').Schema} */
export function modelFields(providers, guardrails = [], model = null) {
  return {
    properties: {
      name: { title: t('models.name'), maxLength: 200 },
      providerKey: { title: t('models.provider'), enum: providers.map((one) => one.key), names: providers.map((one) => one.label || one.key) },
      modelId: { title: t('models.modelId'), description: t('models.modelId.about') },
      category: { title: t('models.category'), enum: categories, names: categories.map((one) => t(`models.category.${one}`)) },
      ...Object.fromEntries(prices.map((name) => [name, { title: t(`models.${name}`), type: 'number', minimum: 0, maximum: 1_000_000,
        when: (/** @type {any} */ raw) => (counted[raw.category] || ['inputTokenPer1M']).includes(name) || model?.pricing?.[name] !== undefined }])),
      supportsToolCalls: { title: t('models.tools'), type: 'boolean' }, isMultimodal: { title: t('models.images'), type: 'boolean' },
      ...railFields('models', guardrails, model),
      keeps: { title: t('models.cache'), type: 'boolean', description: t('models.cache.about') },
      ttlSeconds: { title: t('models.cache.ttl'), type: 'integer', minimum: 1, maximum: 2_592_000 },
      maxCacheSize: { title: t('models.cache.size'), type: 'integer', minimum: 1, maximum: 100_000 },
      settings: { title: t('models.settings'), type: 'object', description: t('models.settings.about') },
    },
    required: ['name', 'providerKey', 'modelId', 'category'],
  };
}

/** @param {any} model */
export const modelShown = (model) => ({ ...model, keeps: model.cache?.enabled, ttlSeconds: model.cache?.ttlSeconds, maxCacheSize: model.cache?.maxCacheSize, ...Object.fromEntries(prices.map((name) => [name, model.pricing?.[name]])) });

/** @param {any} model null = a new one @param {any} value of the form */
export function modelOf(model, value) {
  const pricing = { ...model?.pricing };
  for (const name of prices) if (value[name] === undefined) delete pricing[name]; else pricing[name] = value[name];
  const { name, providerKey, modelId, category, supportsToolCalls, isMultimodal, ttlSeconds, maxCacheSize } = value;
  const cache = (value.keeps || model?.cache) && { cache: { enabled: Boolean(value.keeps), ttlSeconds, maxCacheSize } };
  const guarded = Object.fromEntries(['inputGuardrailKey', 'outputGuardrailKey'].map((side) => [side, value[side] || (model?.[side] ? null : undefined)])); // null takes it away
  return { name, providerKey, modelId, category, supportsToolCalls, isMultimodal, pricing, ...guarded, ...cache, settings: value.settings || {} };
}

/** @param {string} [driver] @param {boolean} [hasKey] @returns {Record<string, import('../components/form.js').Field>} */
function common(driver = '', hasKey = false) {
  return {
    label: { title: t('models.name') },
    ...(driver === 'scripted' ? { script: { title: t('models.script'), type: 'object', description: t('models.script.about') } } : {
      baseUrl: { title: t('models.baseUrl'), check: checkURL, description: t('models.baseUrl.about') },
      apiKey: { title: t('models.apiKey'), format: 'password', description: t(hasKey ? 'agent.apiKey.kept' : 'agent.apiKey.about') },
      headers: { title: t('agent.headers'), type: 'object', description: t('agent.headers.about') },
    }),
  };
}

/** @returns {import('../components/form.js').Schema} */
export function newProvider() {
  const { label, baseUrl, apiKey } = common();
  return { properties: { label, driver: { title: t('models.driver'), enum: drivers, names: ['OpenAI Chat Completions', 'OpenAI Responses', t('models.driver.compatible'), 'Azure', 'Anthropic Messages', t('models.driver.scripted')] }, baseUrl, apiKey }, required: ['label', 'driver'] };
}

/** @param {any} provider @returns {import('../components/form.js').Schema} */
export function providerFields(provider) {
  const states = ['active', 'disabled'];
  return {
    properties: {
      ...common(provider.driver, Boolean(provider.credentials?.apiKey)), status: { title: t('models.status'), enum: states, names: states.map((one) => t(`state.${one}`)) },
    },
    required: ['label', 'status'],
  };
}

/** @param {any} provider null = a new one @param {any} value of the form */
export function providerOf(provider, value) {
  const settings = { ...provider?.settings };
  for (const name of ['baseUrl', 'headers', 'script']) if (value[name] === undefined) delete settings[name]; else settings[name] = value[name];
  return { label: value.label, ...(value.status && { status: value.status }), settings, ...(value.apiKey && { credentials: { apiKey: value.apiKey } }) };
}
